"""The sessions in examples/, run as a user runs them."""

import os
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY

EXPECTED = {
    "query_database": ["breakdown", "back_pressure", "DEF", "2048", "relative_error"],
    "own_machine": ["storm8 has the endpoints 0, 1", "'bandwidth': '1.2", "'tau':", "1 to 4: 37"],
    "fastest_schedule": ["1,679,616 schedules", "naive order 147", "proved optimal"],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_examples_run(finished, name):
    script = REPOSITORY / "examples" / f"{name}.py"
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "src")}
    result = subprocess.run(
        [sys.executable, str(script)], cwd=finished, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    for text in EXPECTED[name]:
        assert text in result.stdout, result.stdout
