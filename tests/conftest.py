"""Common test fixtures: trees, optional data and tools, a finished study."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fabricast.pcie.topology.builtin import load_tree

REPOSITORY = Path(__file__).parents[1]
SHARED_DATA = REPOSITORY.parent / "shared" / "data"

settings.register_profile("fabricast", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
settings.load_profile("fabricast")


@pytest.fixture(scope="session")
def storm8():
    return load_tree("storm8")


@pytest.fixture(scope="session")
def flat4x2():
    return load_tree("flat4x2")


@pytest.fixture(scope="session")
def shared_data():
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder shared/data is not next to this checkout; synthetic fixtures cover the same code")
    return SHARED_DATA


def require_tool(name):
    """Skip the test if a program is missing, or fail if FABRICAST_REQUIRE_TOOLS is set."""
    path = shutil.which(name)
    if path is None:
        message = f"{name} is not installed"
        if os.environ.get("FABRICAST_REQUIRE_TOOLS"):
            pytest.fail(message)
        pytest.skip(message)
    return path


@pytest.fixture(scope="session")
def finished(tmp_path_factory, worker_id):
    """Return a finished smoke study: run once, and copied for each test process."""
    folder = tmp_path_factory.mktemp("finished")
    if worker_id == "master":
        return _smoke_study(folder)
    shared = tmp_path_factory.getbasetemp().parent / "finished"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            _smoke_study(tmp_path_factory.mktemp("made")).rename(shared)
    return shutil.copytree(shared, folder, symlinks=True, dirs_exist_ok=True)


def _smoke_study(folder):
    from tests.running import SMOKE, copy_project, snakemake

    copy_project(folder)
    code, output = snakemake(folder, *SMOKE, "--cores", "2")
    assert code == 0, output
    if os.environ.get("FABRICAST_DIGESTS"):
        command = [sys.executable, REPOSITORY / "scripts" / "table_digests.py", folder / "results"]
        subprocess.run([*command, os.environ["FABRICAST_DIGESTS"]], check=True)
    return folder


def pytest_addoption(parser):
    parser.addoption(
        "--fuzz-seconds", type=float, default=25.0, help="total time of the fuzz tests with damaged files in s"
    )


@pytest.fixture
def fuzz_seconds(request):
    return request.config.getoption("--fuzz-seconds")


@pytest.fixture(scope="session")
def fake_driver(tmp_path_factory):
    """Return a folder with a fake libcuda and NVML, built from tests/cuda/fake_driver.c."""
    if not sys.platform.startswith("linux"):
        pytest.skip("CUDA bindings are for Linux here")
    pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")
    compiler = require_tool("cc")
    folder = tmp_path_factory.mktemp("driver")
    source = REPOSITORY / "tests" / "cuda" / "fake_driver.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", folder / "libcuda.so.1", source, "-ldl"], check=True)
    shutil.copy(folder / "libcuda.so.1", folder / "libnvidia-ml.so.1")
    return folder
