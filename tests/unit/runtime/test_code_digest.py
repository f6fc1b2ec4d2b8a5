"""What a rule's digest follows: imports of its script, imports of these, and data that modules name."""

import shutil
import subprocess
import sys

import pytest

from fabricast.runtime import code_digest
from fabricast.runtime.code_digest import script_digest, source_digest
from tests.conftest import REPOSITORY

SCRIPTS = sorted((REPOSITORY / "workflow" / "scripts").glob("*.py"))


def digests(root):
    """Digest of every script, by a process that sees only this copy of the package."""
    program = (
        "import sys; from pathlib import Path; from fabricast.runtime.code_digest import script_digest\n"
        "for path in sorted(Path(sys.argv[1]).glob('*.py')): print(path.stem, script_digest(path))"
    )
    command = [sys.executable, "-c", program, str(REPOSITORY / "workflow" / "scripts")]
    result = subprocess.run(command, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=True)
    return dict(line.split() for line in result.stdout.splitlines())


@pytest.fixture(scope="module")
def before():
    return digests(REPOSITORY / "src")


def changed_by(tmp_path, before, file, addition="# changed\n"):
    """Scripts whose digest changes when a line is added to a file of the package."""
    shutil.copytree(
        REPOSITORY / "src" / "fabricast", tmp_path / "fabricast", ignore=shutil.ignore_patterns("__pycache__")
    )
    path = tmp_path / "fabricast" / file
    path.write_text(path.read_text() + addition)
    after = digests(tmp_path)
    return {name for name in before if before[name] != after[name]}


#: A file, scripts that use it, and scripts that do not.
CASES = [
    ("inputs/studies.py", {"compare_study", "validate_pcie_models", "evaluate_breakdown"}, {"generate_pcie_graphs", "record_run"}),
    ("results/schema.sql", {"build_database", "fit_maxrate", "evaluate_claims"}, {"compile_pcie_kernels"}),
    ("report/report.html.jinja", {"write_report"}, {"plot_pcie", "build_database", "evaluate_claims"}),
    ("figures/paper.mplstyle", {"plot_pcie", "plot_percs"}, {"fit_maxrate", "build_database"}),
    ("figures/percs.py", {"plot_percs"}, {"plot_pcie", "plot_breakdown", "evaluate_percs_loads"}),
    ("pcie/models/kernels/congestion.py", {"predict_pcie_graphs", "validate_pcie_models", "compile_pcie_kernels"},
     {"fit_maxrate", "evaluate_percs_loads", "plot_maxrate"}),
    ("gpucentric/measured/kernels.cu", {"measure_gpucentric"}, {"evaluate_gpucentric", "measure_maxrate"}),
    ("breakdown/measured/mpi_timers.py", {"measure_breakdown"}, {"evaluate_breakdown"}),
    ("maxrate/fitting.py", {"fit_maxrate"}, {"evaluate_breakdown", "simulate_percs_packets"}),
    ("config/percs.py", set(), {path.stem for path in SCRIPTS}),
    ("cli/pcie.py", set(), {path.stem for path in SCRIPTS}),
    ("api/predictions.py", set(), {path.stem for path in SCRIPTS}),
]  # fmt: skip


@pytest.mark.parametrize(("file", "users", "others"), CASES)
def test_an_edit_changes_the_digest_of_exactly_the_scripts_that_use_the_file(tmp_path, before, file, users, others):
    addition = "\n" if file.endswith((".sql", ".jinja", ".mplstyle", ".cu")) else "# changed\n"
    found = changed_by(tmp_path, before, file, addition)
    assert users <= found, users - found
    assert not others & found


def test_an_import_inside_a_function_and_a_module_named_in_a_string_count(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import fabricast.core.units\n")
    alone = script_digest(script)
    script.write_text("import fabricast.core.units\ndef f():\n    import fabricast.core.seeds\n")
    inside = script_digest(script)
    script.write_text('import fabricast.core.units\nmodule = "fabricast.core.seeds"\n')
    assert len({alone, inside}) == 2
    assert script_digest(script) == inside
    with pytest.raises(ModuleNotFoundError):
        source_digest("fabricast.nothing")


def test_what_is_kept_of_sources_changes_no_digest(monkeypatch, tmp_path):
    def read(script):
        code_digest._folder_of_names.cache_clear()
        return code_digest._read_source(script)

    monkeypatch.setenv("FABRICAST_CACHE_DIR", str(tmp_path))
    first = [read(script) for script in SCRIPTS]
    kept = list(tmp_path.rglob("*.json"))
    assert len(kept) == len(SCRIPTS)
    monkeypatch.setattr(code_digest, "_names_in", None)
    assert [read(script) for script in SCRIPTS] == first, "nothing is parsed again"
    monkeypatch.undo()
    monkeypatch.setenv("FABRICAST_CACHE_DIR", str(tmp_path))
    for path, damage in zip(kept, ("", "[", "3", "[[]]", "{}"), strict=False):
        path.write_text(damage)
    assert [read(script) for script in SCRIPTS] == first, "what is damaged is made again"
    monkeypatch.undo()
    code_digest._folder_of_names.cache_clear()
