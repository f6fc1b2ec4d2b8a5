"""Comparisons that a researcher makes: mappings of tasks, slowdowns of models and simulation, functions of users."""

import numpy as np
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app


def test_named_mappings_and_the_search_are_compared_by_their_busiest_link(tmp_path):
    found = fc.map_tasks("2D-64", proposals=5000)
    times = found.times.set_index("mapping")["time_s"]
    assert {"DEF", "BSM", "RNM", "search"} <= set(times.index)
    assert times["search"] == found.time_s <= times.drop("search").min()
    loads = fc.link_loads("2D-64", mapping="BSM").query("routing == 'direct' and bottleneck")
    assert times["BSM"] == pytest.approx(loads["time_s"].iloc[0])
    assert found.packets_s >= found.time_s * (1 - 1e-9)
    # Every router of a full network holds as many ranks as it has cores.
    counts = np.bincount(found.router_of_rank, minlength=found.routers)
    assert counts.max() == found.ranks_per_node and counts.sum() == found.nodes * found.ranks_per_node
    assert [path.exists() for path in found.write(tmp_path / "best", [f"n{i}" for i in range(found.routers)])]
    with pytest.raises(fc.InputError, match="expected one for each of the 2,048 routers"):
        found.write(tmp_path / "other", ["n0"])
    with pytest.raises(fc.InputError, match="two-level direct networks: map_tasks maps it"):
        fc.map_ranks("2D-64")


def test_slowdowns_of_models_and_simulation_compare():
    tree = fc.load_topology("storm8")
    graph = [(0, 1), (2, 1), (6, 7)]
    simulated = fc.simulate(tree, graph, generation=3, width=16)["slowdown"]
    assert simulated.tolist() == pytest.approx([2, 2, 1], rel=1e-3)
    assert simulated.tolist() == pytest.approx(fc.predict(tree, graph, model="max_min")["slowdown"].tolist(), rel=1e-3)


@pytest.mark.parametrize("name", ["tau", "crossing_cost"])
def test_a_function_of_the_user_has_no_parameters_of_other_models(name):
    with pytest.raises(fc.InputError, match="is not a parameter of a function of yours"):
        fc.predict("storm8", [(0, 1)], model=lambda tree, copies: np.full(len(copies), 1e9), **{name: 1.2})


def test_a_valid_description_without_measurements_is_called_valid(tmp_path):
    with pytest.raises(fc.InputError, match="describe a valid machine of 8 GPUs, but have no measured copies"):
        fc.validate_machine("storm8")


@pytest.mark.parametrize(("tau", "is_known"), [(0.0, True), (0.2, False), (None, True)])
def test_errors_of_models_with_a_penalty_are_stated_for_the_measured_one(tau, is_known, measured_machine):
    times = fc.predict(measured_machine, [(0, 2), (1, 4)], model="literal", tau=tau)
    (text,) = [str(one) for one in times.attrs["warnings"] if "expected error" in str(one)]
    assert ("unknown" not in text) == is_known and "median 2.2 %" in text


def test_functions_of_users_that_fail_are_named_with_their_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_model.py").write_text(
        "def rates(tree, copies):\n    return 1 / 0\n\n\ndef none():\n    return []\n"
    )
    with pytest.raises(fc.InputError, match=r"'rates' raised ZeroDivisionError: .* \(broken_model.py:2\)"):
        fc.predict("storm8", [(0, 1)], model="broken_model:rates")
    with pytest.raises(fc.InputError, match="'none' raised TypeError"):
        fc.predict("storm8", [(0, 1)], model="broken_model:none")
    with pytest.raises(fc.InputError, match="is no name of a function, expected module:function"):
        fc.predict("storm8", [(0, 1)], model="./broken_model.py:rates")


def test_a_table_without_a_convention_is_assumed_to_have_one_way_times(tmp_path):
    rows = "1,8,1e-6\n1,1024,2e-6\n1,1048576,1e-4\n1,4194304,4e-4\n"
    (tmp_path / "a.csv").write_text(f"processes,size_bytes,time_s\n{rows}")
    assert CliRunner().invoke(app, ["fit", str(tmp_path / "a.csv")]).output.startswith("assumed: one-way times")
    stated = "".join(f"{row},round_trip\n" for row in rows.splitlines())
    (tmp_path / "b.csv").write_text(f"processes,size_bytes,time_s,convention\n{stated}")
    assert "assumed" not in CliRunner().invoke(app, ["fit", str(tmp_path / "b.csv")]).output
