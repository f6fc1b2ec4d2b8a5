"""Import rules between the folders of the package, and other source code rules."""

import ast

import pytest

from fabricast.core.resources import published
from fabricast.figures.catalogue.captions import caption_files
from fabricast.inputs.studies import study_names
from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "src" / "fabricast"
STUDIES = study_names(published() / "studies.csv")
GROUND = {"core", "inputs", "runtime"}
MAY_IMPORT = {
    "core": {"core"},
    "inputs": {"core", "inputs"},
    "runtime": {"core", "runtime"},
    **{study: {*GROUND, study} for study in STUDIES},
    "config": {"core", "inputs", "config"},
    "results": {*GROUND, "results"},
    "figures": {*GROUND, *STUDIES, "config", "figures"},
    "api": {*GROUND, *STUDIES, "results", "figures", "api", ""},
    "report": {*GROUND, *STUDIES, "results", "figures", "report"},
    "cli": {*GROUND, *STUDIES, "results", "figures", "api", "cli", ""},
}


def imported_folders(path):
    """Yield the top-level folders of this package that a file imports, also inside functions.

    The package itself is ''.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "fabricast" else [f"fabricast.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "fabricast":
                yield parts[1] if (PACKAGE / parts[1]).is_dir() else ""


def test_each_folder_has_an_import_rule():
    assert {
        path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"
    } == MAY_IMPORT.keys()
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py"}


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_folders_import_only_permitted_folders(folder):
    imports = {(path.name, name) for path in (PACKAGE / folder).rglob("*.py") for name in imported_folders(path)}
    assert {(path, name) for path, name in imports if name not in MAY_IMPORT[folder]} == set()


def test_import_rules_have_no_cycle():
    open_folders = {folder: set(below) - {folder, ""} for folder, below in MAY_IMPORT.items()}
    while open_folders:
        lowest = {folder for folder, below in open_folders.items() if not below & open_folders.keys()}
        assert lowest, open_folders
        open_folders = {folder: below for folder, below in open_folders.items() if folder not in lowest}


@pytest.mark.parametrize("folder", [*sorted(GROUND), *STUDIES, "results", "figures"])
def test_library_errors_do_not_contain_command_line_options(folder):
    """Check that library errors name arguments; the command line maps them to options."""
    for path in (PACKAGE / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise):
                text = ast.unparse(node)
                assert " --" not in text and "'--" not in text and '"--' not in text, f"{path}:{node.lineno}"


def test_length_of_files_and_functions_is_limited():
    """Check that files have at most 450 lines (except schema.sql) and functions at most 80."""
    for path in (path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".jinja", ".cu", ".js")):
        lines = path.read_text().splitlines()
        assert len(lines) <= 450, path
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef):
                    # Docstrings do not count towards the length of a function.
                    doc = ast.get_docstring(node, clean=False)
                    length = node.end_lineno - node.lineno + 1 - (doc.count("\n") + 1 if doc else 0)
                    assert length <= 80, f"{path}:{node.lineno} {node.name} has {length} lines"


def test_job_scripts_redirect_output_before_other_imports():
    for path in (REPOSITORY / "workflow" / "scripts").glob("*/*.py"):
        _, imported, begun, *_ = ast.parse(path.read_text()).body
        assert isinstance(imported, ast.ImportFrom) and imported.module == "fabricast.runtime.jobs", path
        assert ast.unparse(begun) == "log_to(snakemake.log[0])", path


def test_only_the_command_line_exits():
    """Check that jobs end normally or by an exception, as `fabricast.runtime.jobs` requires."""
    for path in [*PACKAGE.rglob("*.py"), *(REPOSITORY / "workflow").rglob("*.py")]:
        if "cli" not in path.parts and path.name != "leaving.py":
            for node in ast.walk(ast.parse(path.read_text())):
                assert not isinstance(node, ast.Attribute | ast.Name) or ast.unparse(node) not in (
                    "sys.exit", "os._exit", "SystemExit", "exit", "quit",
                ), f"{path}:{node.lineno}"  # fmt: skip


def test_captions_agree_with_the_catalogue():
    folder = REPOSITORY / "workflow" / "report"
    files = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.glob("*/*.rst")}
    assert files == caption_files(), "run: python -m fabricast.figures.catalogue"
