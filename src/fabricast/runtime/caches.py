"""Cache folders of this package."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

#: Free space that a folder needs: compiled kernels take about 20 MB.
_LEAST_FREE_BYTES = 64_000_000


def cache_folder(name: str) -> Path | None:
    """Return a writable cache folder of the user, created if necessary.

    >>> cache_folder("examples").name
    'examples'
    """
    roots = [
        os.environ.get("FABRICAST_CACHE_DIR"),
        os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser()),
        tempfile.gettempdir(),
    ]
    for root in filter(None, roots):
        folder = Path(root) / "fabricast" / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(folder).free
        except OSError:
            continue
        if free >= _LEAST_FREE_BYTES and os.access(folder, os.W_OK):
            return folder
    return None
