"""Machines for tests of the Python interface."""

from pathlib import Path

import pytest

STORM8 = Path(__file__).parents[3] / "config" / "topologies" / "storm8.yaml"


@pytest.fixture
def measured_machine(tmp_path):
    """Return the file of storm8 as if its bandwidth had been measured."""
    path = tmp_path / "measured.yaml"
    path.write_text(STORM8.read_text().replace("tag: derived", "tag: measured"))
    return path
