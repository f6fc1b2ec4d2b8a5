"""What a result depends on: digests of source code, and a record of the run."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from fabricast.machine import processor_name

__all__ = ["run_rows", "source_digest"]

_PACKAGE = Path(__file__).parent
#: Files that a module reads beside its own source.
_DATA_OF_MODULE = {
    "fabricast.tables": ("schema.sql",),
    "fabricast.figures.style": ("figures/paper.mplstyle",),
    "fabricast.report": ("report.html.jinja",),
}
_RECORDED_PACKAGES = (
    "duckdb",
    "matplotlib",
    "numba",
    "numpy",
    "pandas",
    "scikit-learn",
    "scipy",
    "seaborn",
    "snakemake",
)


def _file_of(module: str) -> Path | None:
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def _imports(path: Path) -> set[str]:
    """Modules of this package that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("fabricast.") and _file_of(name)}


def source_digest(*modules: str) -> str:
    """Return a digest of modules of this package and all they import from it.

    Snakemake does not see edits to imported modules; a rule that names this digest in
    its ``params`` reruns exactly when code it uses changes.

    Parameters
    ----------
    *modules : str
        Full names such as ``"fabricast.pcie.graph_tables"``.

    Returns
    -------
    str
        16 hexadecimal digits.

    Raises
    ------
    ModuleNotFoundError
        If there is no such module.

    Examples
    --------
    >>> source_digest("fabricast.units") == source_digest("fabricast.units")
    True
    >>> source_digest("fabricast.units") == source_digest("fabricast.seeds")
    False
    """
    waiting, seen = list(modules), set()
    while waiting:
        module = waiting.pop()
        path = _file_of(module)
        if path is None:
            raise ModuleNotFoundError(f"no module '{module}'")
        if module not in seen:
            seen.add(module)
            waiting += _imports(path)
    digest = hashlib.sha256()
    for module in sorted(seen):
        path = _file_of(module)
        assert path is not None
        digest.update(module.encode() + b"\0" + path.read_bytes())
        for name in _DATA_OF_MODULE.get(module, ()):
            digest.update((_PACKAGE / name).read_bytes())
    return digest.hexdigest()[:16]


def _git_commit(folder: Path) -> str | None:
    try:
        result = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()


def run_rows(config: dict[str, Any], repository: Path) -> pd.DataFrame:
    """Return the row of the table run: commit, configuration, machine and versions.

    Parameters
    ----------
    config : dict
        Merged configuration as plain values.
    repository : Path
        Folder of the checkout.

    Returns
    -------
    pandas.DataFrame
        One row; what is not known is NULL.
    """
    lock = repository / "uv.lock"
    lock_digest = hashlib.sha256(lock.read_bytes()).hexdigest() if lock.is_file() else None
    text = json.dumps(config, sort_keys=True)
    commit = _git_commit(repository)
    identity = hashlib.sha256(f"{commit}\0{text}\0{lock_digest}".encode()).hexdigest()[:12]
    now = datetime.now(UTC).replace(tzinfo=None)
    versions = {name: importlib.metadata.version(name) for name in _RECORDED_PACKAGES}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return pd.DataFrame(
        [
            {
                "run": identity,
                "git_commit": commit,
                "config": text,
                "seed": config["seed"],
                "started": now,
                "finished": now,
                "host": platform.node() or "unknown",
                "cpu": processor_name(),
                "cores": cores,
                "package_versions": json.dumps({"python": platform.python_version(), **versions}),
                "lock_digest": lock_digest,
            }
        ]
    )
