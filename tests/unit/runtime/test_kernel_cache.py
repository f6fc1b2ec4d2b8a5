"""Cache of compiled kernels: an edit of any kernel, also in a nested folder, gives another cache folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fabricast
from fabricast.runtime.compilation import kernel_sources

KERNEL = "from fabricast.runtime.compilation import njit\n"


@pytest.mark.slow
def test_edit_of_a_callee_in_a_nested_folder_is_noticed(tmp_path):
    """The cache of numba alone would return the stale result."""
    package = tmp_path / "fabricast"
    kernels = package / "study" / "part" / "kernels"
    kernels.mkdir(parents=True)
    (package / "runtime").mkdir()
    root = Path(fabricast.__file__).parent
    for name in ("__init__.py", "caches.py", "compilation.py", "machine.py"):
        shutil.copy(root / "runtime" / name, package / "runtime" / name)
    for folder in (package, package / "study", package / "study" / "part", kernels):
        (folder / "__init__.py").write_text("")
    (kernels / "caller.py").write_text(
        f"{KERNEL}from fabricast.study.part.kernels.callee import callee\n@njit\ndef caller():\n    return 10 * callee()\n"
    )
    command = [sys.executable, "-B", "-c", "from fabricast.study.part.kernels.caller import caller; print(caller())"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "FABRICAST_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("NUMBA_CACHE_DIR", None)
    for value in (2, 6):
        (kernels / "callee.py").write_text(f"{KERNEL}@njit\ndef callee():\n    return {value}\n")
        result = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert result.stdout.strip() == str(10 * value)
    compiled = sorted((tmp_path / "cache").rglob("*.nbc"))
    assert len(compiled) == 4
    result = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "60"
    assert sorted((tmp_path / "cache").rglob("*.nbc")) == compiled, "kernels of known sources are not compiled again"


def test_every_kernel_module_counts():
    sources = {path.parent.parent.name for path in kernel_sources()}
    assert {"engines", "graphs", "models", "packets", "schedules", "percs", "maxrate"} <= sources
