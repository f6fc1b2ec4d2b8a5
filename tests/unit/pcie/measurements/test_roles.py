"""Rows of measurement files with an unknown role."""

from fabricast.pcie.machines.exclusion import Reason
from fabricast.pcie.machines.validation import validate_machine
from fabricast.pcie.topology.builtin import load_tree
from tests.machines import read_copies


def test_one_unknown_role_excludes_only_its_row(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text(
        "graph,communications,total_gb_per_s,role\nalone,0>1,50,\nmisspelt,0>4 1>5,50,callibration\nother,0>4 1>5,50,\n"
    )
    rows = validate_machine(load_tree("flat4x2"), read_copies(path)).rows.set_index("graph")
    assert rows["judged"].to_dict() == {"alone": False, "misspelt": False, "other": True}
    assert rows.loc["misspelt", "reason_code"] == Reason.EXCLUDED_BY_FILE
    assert "unknown role" in rows.loc["misspelt", "reason"]
