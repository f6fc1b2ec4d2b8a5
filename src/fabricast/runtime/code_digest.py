"""Digests of the source code and of user files, so that a change reruns the rules that depend on them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
#: Folders of compiled code, which is not a source.
_IGNORED = ("__pycache__",)


@cache
def _file_digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def files_digest(paths: Iterable[Path | str]) -> str:
    """Return a digest of the contents of files.

    Snakemake compares modification times, so it does not notice an input that is replaced by an older file.

    >>> files_digest([]), len(files_digest(["no/such/file"]))
    ('', 16)
    """
    listed = [Path(path) for path in paths]
    digest = hashlib.sha256()
    for path in listed:
        digest.update(path.read_bytes() if path.is_file() else b"missing")
        digest.update(b"\0")
    return digest.hexdigest()[:16] if listed else ""


def code_digest(*places: str) -> str:
    """Return a digest of folders and files of this package.

    Snakemake detects an edit to a script, but not to modules that the script imports. A rule with this digest in
    its ``params`` reruns if any file of these folders changes: code, SQL, CUDA, templates and styles.

    >>> code_digest("core") == code_digest("core"), code_digest("core") == code_digest("core", "inputs")
    (True, False)
    """
    digest = hashlib.sha256()
    for relative_path in sorted(set(places)):
        path = _PACKAGE / relative_path
        if not path.exists():
            raise FileNotFoundError(
                f"'{relative_path}' is not in {_PACKAGE.name}, expected a folder or file of the package"
            )
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
        for file in files:
            if not set(_IGNORED) & set(file.parts):
                digest.update(file.relative_to(_PACKAGE).as_posix().encode() + b"\0" + _file_digest(file))
    return digest.hexdigest()[:16]
