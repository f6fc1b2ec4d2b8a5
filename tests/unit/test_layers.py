"""Import rules between the folders of the package, and other source code rules."""

import ast

import pytest

from fabricast.core.resources import published
from fabricast.figures.catalogue.captions import caption_files
from fabricast.inputs.studies import study_names
from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "src" / "fabricast"
STUDIES = sorted(study_names(published() / "studies.csv"))
GROUND = {"core", "inputs", "runtime"}
#: One road: sources -> facts -> machine -> answer -> text. A folder imports only folders of steps before it.
MAY_IMPORT = {
    "core": {"core"},
    "inputs": {"core", "inputs"},
    "runtime": {"core", "runtime"},
    "networks": {*GROUND, "networks"},
    **{study: {*GROUND, study} for study in STUDIES},
    "percs": {*GROUND, "networks", "percs"},
    "nccl": {"core", "inputs", "nccl"},
    "known_messages": {"inputs", "known_messages"},
    "sources": {*GROUND, "pcie", "maxrate", "nccl", "known_messages", "sources"},
    "machine": {*GROUND, "pcie", "nccl", "sources", "machine"},
    "collectives": {*GROUND, "pcie", "nccl", "machine", "collectives"},
    "clusters": {*GROUND, "pcie", "breakdown", "nccl", "machine", "networks", "collectives", "clusters"},
    "diagnosis": {
        *GROUND,
        "pcie",
        "nccl",
        "known_messages",
        "sources",
        "machine",
        "networks",
        "maxrate",
        "collectives",
        "diagnosis",
    },
    "config": {"core", "inputs", "config"},
    "results": {*GROUND, "results"},
    "figures": {*GROUND, *STUDIES, "machine", "config", "figures"},
    "api": {
        *GROUND,
        *STUDIES,
        "sources",
        "machine",
        "collectives",
        "clusters",
        "diagnosis",
        "results",
        "figures",
        "networks",
        "api",
        "",
    },
    "report": {*GROUND, *STUDIES, "results", "figures", "api", "report"},
    # The command line prints what the API returns; studies without machines are their own API.
    "cli": {*GROUND, *(set(STUDIES) - {"pcie"}), "results", "figures", "networks", "api", "cli", ""},
}


def executed_nodes(path):
    """Yield the nodes of a file without those for type checkers."""
    waiting = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            waiting += ast.iter_child_nodes(node)


def imported_folders(path):
    """Yield the top-level folders of this package that a file imports, also inside functions; the package is ''."""
    for node in executed_nodes(path):
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


@pytest.mark.parametrize("folder", list(MAY_IMPORT))
def test_folders_import_only_permitted_folders(folder):
    imports = {(path.name, name) for path in (PACKAGE / folder).rglob("*.py") for name in imported_folders(path)}
    assert {(path, name) for path, name in imports if name not in MAY_IMPORT[folder]} == set()


def test_import_rules_have_no_cycle():
    open_folders = {folder: set(below) - {folder, ""} for folder, below in MAY_IMPORT.items()}
    while open_folders:
        lowest = {folder for folder, below in open_folders.items() if not below & open_folders.keys()}
        assert lowest, open_folders
        open_folders = {folder: below for folder, below in open_folders.items() if folder not in lowest}


#: Packages of the PCIe study on six levels: each imports only packages of lower levels.
PCIE_LEVELS = (
    {"topology"},
    {"graphs"},
    {"models", "measurements"},
    {"engines", "packets", "schedules"},
    {"machines"},
    {"tables"},
)


def imported_modules(path):
    """Yield the modules of this package that a file imports, also inside functions and for type checkers."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("fabricast"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fabricast"):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_pcie_packages_import_only_lower_levels():
    pcie = PACKAGE / "pcie"
    packages = {path.name for path in pcie.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert packages == set().union(*PCIE_LEVELS)
    assert {path.name for path in pcie.glob("*.py")} == {"__init__.py"}
    level = {name: number for number, names in enumerate(PCIE_LEVELS) for name in names}
    for path in pcie.rglob("*.py"):
        if path.parent == pcie:
            continue
        own = path.relative_to(pcie).parts[0]
        for module in imported_modules(path):
            parts = module.split(".")
            if parts[1:2] == ["pcie"] and len(parts) > 2 and parts[2] != own:
                assert level[parts[2]] < level[own], f"{path}: {module}"


def test_modules_have_no_import_cycle():
    modules = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    below = {
        name: {other for other in imported_modules(path) if other in modules and other != name}
        for name, path in modules.items()
        # The lazy imports of the package itself are in its stub.
        if name != "fabricast"
    }
    while below:
        lowest = {name for name, others in below.items() if not others & below.keys()}
        assert lowest, f"cycle among {sorted(below)}"
        below = {name: others for name, others in below.items() if name not in lowest}


@pytest.mark.parametrize("folder", [*sorted(GROUND), *STUDIES, "results", "figures"])
def test_library_errors_do_not_contain_command_line_options(folder):
    """Check that library errors name arguments; the command line maps them to options."""
    for path in (PACKAGE / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise):
                text = ast.unparse(node)
                assert " --" not in text and "'--" not in text and '"--' not in text, f"{path}:{node.lineno}"


def test_job_scripts_redirect_output_before_other_imports():
    for path in (REPOSITORY / "workflow" / "scripts").glob("*/*.py"):
        _, imported, begun, *_ = ast.parse(path.read_text()).body
        assert isinstance(imported, ast.ImportFrom) and imported.module == "fabricast.runtime.jobs", path
        assert ast.unparse(begun) == "log_to(snakemake.log[0])", path


@pytest.mark.slow
def test_only_the_command_line_exits():
    """Check that jobs end normally or by an exception, as `fabricast.runtime.jobs` requires."""
    for path in [*PACKAGE.rglob("*.py"), *(REPOSITORY / "workflow").rglob("*.py")]:
        if "cli" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text())):
                assert not isinstance(node, ast.Attribute | ast.Name) or ast.unparse(node) not in (
                    "sys.exit",
                    "os._exit",
                    "SystemExit",
                    "exit",
                    "quit",
                ), f"{path}:{node.lineno}"


def test_captions_agree_with_the_catalogue():
    folder = REPOSITORY / "workflow" / "report"
    files = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.glob("*/*.rst")}
    assert files == caption_files(), "run: python -m fabricast.figures.catalogue"
