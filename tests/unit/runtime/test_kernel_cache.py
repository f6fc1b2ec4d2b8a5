"""Compiled kernels: an edit gives another cache folder; Python calls only what has a wrapper for Python."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
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


def called_names(path: Path, modules: set[str]) -> Iterator[tuple[str, str]]:
    """Yield module and name of everything that a file takes from kernel modules."""
    tree = ast.parse(path.read_text())
    alias = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                if node.module in modules:
                    yield node.module, name.name
                alias[name.asname or name.name] = f"{node.module}.{name.name}"
        elif isinstance(node, ast.Import):
            alias |= {name.asname or name.name: name.name for name in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and alias.get(node.value.id) in modules:
            yield alias[node.value.id], node.attr


def test_python_calls_only_kernels_with_a_wrapper():
    """Without the wrapper, a call from Python ends the process with a segmentation fault."""
    source = Path(fabricast.__file__).parents[1]
    modules = {".".join(path.relative_to(source).with_suffix("").parts) for path in kernel_sources()}
    repository = source.parent
    folders = ("src", "tests", "benchmarks", "workflow", "scripts")
    files = [
        path for folder in folders for path in (repository / folder).rglob("*.py") if path.parent.name != "kernels"
    ]
    called = {call for path in files for call in called_names(path, modules)}
    options = {
        (module, name): getattr(getattr(importlib.import_module(module), name), "targetoptions", {})
        for module, name in called
    }
    assert sum(bool(option) for option in options.values()) > 20
    assert [call for call, option in sorted(options.items()) if option.get("no_cpython_wrapper")] == []
