"""The command line without the packages of the workflow."""

import json
import subprocess
import sys
import tomllib

import pytest
import yaml

import fabricast as package
from tests.conftest import REPOSITORY

#: Runs the command line while some packages cannot be imported; the first argument lists them.
WITHOUT = """
import sys

missing = sys.argv.pop(1).split(",")

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Missing())
from fabricast.cli.main import main
main()
"""
MISSING = "matplotlib,seaborn,altair,jinja2,snakemake,snakemake_interface_logger_plugins,vl_convert"


def fabricast(*arguments, folder):
    command = [sys.executable, "-c", WITHOUT, MISSING, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


@pytest.mark.slow
def test_the_command_line_needs_no_package_of_the_workflow(tmp_path):
    assert fabricast("predict", "storm8", "--copies", "0>1 2>1", folder=tmp_path).returncode == 0
    shown = fabricast("topology", "show", "storm8", "-o", "tree.svg", folder=tmp_path)
    assert shown.returncode == 0 and (tmp_path / "tree.svg").stat().st_size > 1000
    assert fabricast("models", folder=tmp_path).returncode == 0
    (tmp_path / "rates.csv").write_text(
        "processes,size_bytes,time_s\n"
        + "".join(f"{k},{n},{1e-6 + k * n / min(6e9, k * 2e9)}\n" for k in (1, 2, 4, 8) for n in (8, 1024, 65536))
    )
    fitted = fabricast("fit", "rates.csv", folder=tmp_path)
    assert fitted.returncode == 0, fitted.stderr


@pytest.mark.slow
def test_a_figure_without_its_packages_names_the_extra(tmp_path):
    (tmp_path / "g.csv").write_text("graph,source,target\na,0,1\n")
    traced = fabricast(
        "simulate", "storm8", "g.csv", "--trace", "a", "--generation", "3", "--width", "16", folder=tmp_path
    )
    assert traced.returncode != 0
    expected = "fabricast: error: --trace draws a figure and needs matplotlib: pip install 'fabricast[figures]'"
    assert traced.stderr.strip() == expected
    assert not (tmp_path / "trace.parquet").exists()


def test_extras_are_not_dependencies_of_the_command_line():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert not set(project["dependencies"]) & {name for group in extras.values() for name in group}
    assert {"workflow", "figures", "measure", "cuda"} <= extras.keys()


def test_descriptions_of_the_software_have_one_version():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    codemeta = json.loads((REPOSITORY / "codemeta.json").read_text())
    assert {citation["version"], codemeta["version"], package.__version__} == {project["version"]}
    assert codemeta["description"] == project["description"] and codemeta["keywords"] == project["keywords"]
    assert codemeta["license"].endswith(project["license"]) and citation["license"] == project["license"]
    catalogue = yaml.safe_load((REPOSITORY / ".snakemake-workflow-catalog.yml").read_text())
    assert catalogue["usage"]["software-stack-deployment"] == {"conda": True, "apptainer": True}
