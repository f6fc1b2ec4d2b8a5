"""Files written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fabricast.errors import InputError

__all__ = ["read_text", "whole_file", "write_text"]


def read_text(path: Path | str, *, largest_bytes: int = 50_000_000) -> str:
    """Read a text that other programs or people wrote.

    Parameters
    ----------
    path : Path or str
        File in UTF-8, with or without a byte-order mark.
    largest_bytes : int, default 50 MB
        Larger files are refused.

    Returns
    -------
    str
        Its content; bytes that are no UTF-8 are replaced.

    Raises
    ------
    InputError
        If it cannot be read or is larger.
    """
    try:
        if Path(path).stat().st_size > largest_bytes:
            raise InputError(f"is larger than {largest_bytes // 10**6:,} MB, expected a smaller text", path=path)
        return Path(path).read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error


@contextmanager
def whole_file(path: Path | str) -> Iterator[Path]:
    """Give a temporary name beside `path` and rename it to `path` on success.

    Parameters
    ----------
    path : Path or str
        The file to be written. Its folder is made if missing.

    Yields
    ------
    Path
        The temporary name, with the same suffix. It is removed if the body raises.

    Raises
    ------
    InputError
        If the folder cannot be made or written to.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a" / "b.txt"
    >>> with whole_file(target) as temporary:
    ...     _ = temporary.write_text("done")
    >>> target.read_text()
    'done'
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path=path) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path | str, text: str) -> None:
    """Write a UTF-8 text file whole or not at all.

    Parameters
    ----------
    path : Path or str
        The file to be written.
    text : str
        Its content.
    """
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
