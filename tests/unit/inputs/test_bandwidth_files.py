"""Cells of bandwidth matrices that are no rate, and files without content."""

import pytest
from typer.testing import CliRunner

from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.core.facts import Quantity
from tests.machines import values_in
from tests.unit.diagnosis.test_diagnose import peer_test

RATES = [[26.0] * 4 for _ in range(4)]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("0.00", "the rate from 0 to 1 is 0: repeat the copy, or write N/A to leave it out"),
        ("nan", "a cell is 'nan', expected a rate of at least 0, or N/A for a copy without measurement"),
        ("-6.43", "a cell is '-6.43', expected a rate of at least 0"),
        ("1e999", "a cell is '1e999', expected a rate of at least 0"),
    ],
)
def test_cells_that_are_no_rate_are_refused(cell, message):
    with pytest.raises(InputError, match="rate") as error:
        values_in(peer_test(RATES).replace("26.00", cell, 1), Quantity.RATE)
    assert message in str(error.value)
    missing = peer_test(RATES).replace("26.00", "N/A", 1)
    assert len(values_in(missing, Quantity.RATE)) == len(values_in(peer_test(RATES), Quantity.RATE)) - 1


@pytest.mark.parametrize(
    "command",
    [
        ["validate", "storm8"],
        ["fit"],
        ["diagnose"],
        ["collective", "storm8", "--log"],
        ["predict", "storm8", "--copies", "0>1", "--measurements"],
        ["topology", "import"],
    ],
)
def test_empty_files_are_named_as_such(tmp_path, command):
    (tmp_path / "empty.txt").write_text("\n")
    result = CliRunner().invoke(app, [*command, str(tmp_path / "empty.txt")])
    assert result.exit_code != 0
    assert "is empty" in str(result.exception) and "empty.txt" in str(result.exception)
