"""Agreement of uv.lock, hashed requirements and conda environments."""

import re
import tomllib

import yaml

from tests.conftest import REPOSITORY

CONDA_NAMES = {
    "python-duckdb": "duckdb",
    "matplotlib-base": "matplotlib",
    "snakemake-minimal": "snakemake",
    "cuda-nvrtc": "nvidia-cuda-nvrtc",
}


def locked_versions():
    """Return all locked versions of each package (some packages have one per Python version)."""
    lock = tomllib.loads((REPOSITORY / "uv.lock").read_text())
    versions = {}
    for package in lock["package"]:
        versions.setdefault(package["name"], set()).add(package.get("version"))
    return versions


def declared():
    """Return the packages that the workflow needs, which are those of the environments."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    names = {re.split(r"[<>=]", name)[0] for name in project["dependencies"] + extras["workflow"] + extras["figures"]}
    return names - {"fabricast[figures]"}


def test_requirements_are_hashed_and_locked():
    text = (REPOSITORY / "envs" / "requirements.txt").read_text()
    pins = re.findall(r"^([a-z0-9_.-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", text, re.MULTILINE)
    assert len(pins) > 40
    locked = locked_versions()
    assert all(version in locked[name] for name, version in pins)
    assert declared() <= {name for name, _ in pins}
    for requirement in re.split(r"\n(?=[a-z])", text.strip()):
        assert "--hash=sha256:" in requirement, requirement[:60]


def test_conda_environment_has_the_locked_versions():
    environment = yaml.safe_load((REPOSITORY / "envs" / "environment.yaml").read_text())
    specs = dict(spec.split(" =") for spec in environment["dependencies"])
    assert specs.pop("python") == "3.11"
    names = {CONDA_NAMES.get(name, name): version for name, version in specs.items()}
    assert names.keys() == declared()
    locked = locked_versions()
    assert all(version in locked[name] for name, version in names.items())


def test_conda_environment_for_measurements_adds_their_groups():
    plain, measuring = (
        yaml.safe_load((REPOSITORY / "envs" / name).read_text()) for name in ("environment.yaml", "measure.yaml")
    )
    assert measuring["channels"] == plain["channels"]
    added = dict(spec.split(" =") for spec in measuring["dependencies"] if spec not in plain["dependencies"])
    assert set(plain["dependencies"]) <= set(measuring["dependencies"])
    names = {CONDA_NAMES.get(name, name): version for name, version in added.items()}
    groups = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert names.keys() == {re.split(r"[<>=;]", name)[0] for group in ("measure", "cuda") for name in groups[group]}
    locked = locked_versions()
    assert all(version in locked[name] for name, version in names.items())
