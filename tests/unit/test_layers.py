"""Who may import whom: every folder of the package, by its imports."""

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
    """First folders of this package that a file imports, also inside functions; '' is the package itself."""
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


def test_every_folder_has_its_rule():
    assert {
        path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"
    } == MAY_IMPORT.keys()
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py"}


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_a_folder_imports_only_what_lies_below_it(folder):
    found = {(path.name, name) for path in (PACKAGE / folder).rglob("*.py") for name in imported_folders(path)}
    assert {(path, name) for path, name in found if name not in MAY_IMPORT[folder]} == set()


def test_the_order_of_folders_has_no_circle():
    open_folders = {folder: set(below) - {folder, ""} for folder, below in MAY_IMPORT.items()}
    while open_folders:
        lowest = {folder for folder, below in open_folders.items() if not below & open_folders.keys()}
        assert lowest, open_folders
        open_folders = {folder: below for folder, below in open_folders.items() if folder not in lowest}


@pytest.mark.parametrize("folder", [*sorted(GROUND), *STUDIES, "results", "figures"])
def test_no_library_function_names_a_flag(folder):
    """The command line translates arguments to options; a library knows none."""
    for path in (PACKAGE / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise):
                text = ast.unparse(node)
                assert " --" not in text and "'--" not in text and '"--' not in text, f"{path}:{node.lineno}"


def test_files_and_functions_stay_readable():
    """No file over 450 lines but the schema, no function over 80."""
    for path in (path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".jinja", ".cu", ".js")):
        lines = path.read_text().splitlines()
        assert len(lines) <= 450, path
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef):
                    # Docstrings are counted apart: they document, the code is what is read at once.
                    doc = ast.get_docstring(node, clean=False)
                    length = node.end_lineno - node.lineno + 1 - (doc.count("\n") + 1 if doc else 0)
                    assert length <= 80, f"{path}:{node.lineno} {node.name} has {length} lines"


def test_the_log_of_a_job_begins_before_all_else_that_its_script_imports():
    for path in (REPOSITORY / "workflow" / "scripts").glob("*.py"):
        _, imported, begun, *_ = ast.parse(path.read_text()).body
        assert isinstance(imported, ast.ImportFrom) and imported.module == "fabricast.runtime.jobs", path
        assert ast.unparse(begun) == "log_to(snakemake.log[0])", path


def test_only_the_command_line_ends_a_process():
    """Jobs end by errors, or with 0: `fabricast.runtime.jobs` takes no other code."""
    for path in [*PACKAGE.rglob("*.py"), *(REPOSITORY / "workflow").rglob("*.py")]:
        if "cli" not in path.parts and path.name != "leaving.py":
            for node in ast.walk(ast.parse(path.read_text())):
                assert not isinstance(node, ast.Attribute | ast.Name) or ast.unparse(node) not in (
                    "sys.exit", "os._exit", "SystemExit", "exit", "quit",
                ), f"{path}:{node.lineno}"  # fmt: skip


def test_captions_follow_from_the_catalogue():
    folder = REPOSITORY / "workflow" / "report"
    files = {path.name: path.read_text() for path in folder.glob("*.rst") if path.name != "workflow.rst"}
    assert files == caption_files(), "run: python -m fabricast.figures.catalogue"
