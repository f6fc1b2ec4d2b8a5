"""Digests of code: an edit of a file changes the digests of the folders that contain it, and no others."""

import shutil
import subprocess
import sys

import pytest

from fabricast.runtime.code_digest import code_digest
from tests.conftest import REPOSITORY

PLACES = ("core", "pcie", "maxrate", "figures", "report", "results/schema.sql")


def digests(root):
    """Return the digests of a copy of the package, computed by a process that imports only this copy."""
    program = (
        "import sys; from fabricast.runtime.code_digest import code_digest\n"
        "print(*(code_digest(place) for place in sys.argv[1:]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, *PLACES],
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(PLACES, result.stdout.split(), strict=True))


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("core/units.py", "core"),
        ("pcie/models/kernels/congestion.py", "pcie"),
        ("maxrate/fitting.py", "maxrate"),
        ("figures/paper.mplstyle", "figures"),
        ("report/report.html.jinja", "report"),
        ("results/schema.sql", "results/schema.sql"),
    ],
)
def test_edit_changes_the_digest_of_its_folder_only(tmp_path, file, changed):
    shutil.copytree(
        REPOSITORY / "src" / "fabricast", tmp_path / "fabricast", ignore=shutil.ignore_patterns("__pycache__")
    )
    before = digests(tmp_path)
    path = tmp_path / "fabricast" / file
    path.write_text(path.read_text() + "\n")
    after = digests(tmp_path)
    assert {place for place in PLACES if before[place] != after[place]} == {changed}


def test_place_of_the_copy_and_compiled_files_do_not_matter(tmp_path):
    for name in ("one", "two"):
        shutil.copytree(REPOSITORY / "src" / "fabricast", tmp_path / name / "fabricast")
    (tmp_path / "two" / "fabricast" / "core" / "__pycache__").mkdir(exist_ok=True)
    (tmp_path / "two" / "fabricast" / "core" / "__pycache__" / "units.pyc").write_bytes(b"compiled")
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_unknown_place_is_an_error():
    with pytest.raises(FileNotFoundError, match="nowhere"):
        code_digest("nowhere")
