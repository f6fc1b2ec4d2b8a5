"""Provenance record of a run."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from fabricast.results.tables import schema_digest
from fabricast.runtime.machine import available_cores, processor_name

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


def _git_commit(folder: Path) -> str | None:
    try:
        result = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()


def run_rows(config: dict[str, Any], repository: Path, config_files: Iterable[str] = ()) -> pd.DataFrame:
    """Return the row of the table run: commit, configuration, machine and versions."""
    lock = repository / "uv.lock"
    lock_digest = hashlib.sha256(lock.read_bytes()).hexdigest() if lock.is_file() else None
    text = json.dumps(config, sort_keys=True)
    commit = _git_commit(repository)
    identity = hashlib.sha256(f"{commit}\0{text}\0{lock_digest}".encode()).hexdigest()[:12]
    now = datetime.now(UTC).replace(tzinfo=None)
    versions = {name: importlib.metadata.version(name) for name in _RECORDED_PACKAGES}
    cores = available_cores()
    return pd.DataFrame(
        [
            {
                "run": identity,
                "git_commit": commit,
                "config": text,
                "config_files": " ".join(config_files),
                "seed": config["seed"],
                "started": now,
                "finished": now,
                "host": platform.node() or "unknown",
                "cpu": processor_name(),
                "cores": cores,
                "package_versions": json.dumps({"python": platform.python_version(), **versions}),
                "lock_digest": lock_digest,
                "schema_digest": schema_digest(),
            }
        ]
    )
