"""Where this package keeps what it can always make again."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder(name: str) -> Path | None:
    """Return a folder of the user that can be written, made if need be.

    Parameters
    ----------
    name : str
        What is kept in it.

    Returns
    -------
    Path or None
        A folder below ``FABRICAST_CACHE_DIR``, else the user's cache folder, else the temporary folder, whichever is
        the first that can be written; None if none can.

    Examples
    --------
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
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return None
