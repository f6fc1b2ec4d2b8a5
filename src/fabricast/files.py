"""Files written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from fabricast.errors import InputError

__all__ = ["read_text", "whole_file", "write_text"]

_LARGEST_TEXT_BYTES = 50_000_000


def read_text(path: Path | str, *, strict: bool = False) -> str:
    """Read a text that other programs or people wrote.

    Parameters
    ----------
    path : Path or str
        File in UTF-8, with or without a byte-order mark, of at most 50 MB.
    strict : bool, default False
        Whether bytes that are no UTF-8 are refused, not replaced.

    Returns
    -------
    str
        Its content.

    Raises
    ------
    InputError
        If it cannot be read or is larger.
    """
    try:
        if Path(path).stat().st_size > _LARGEST_TEXT_BYTES:
            raise InputError(f"is larger than {_LARGEST_TEXT_BYTES // 10**6} MB, expected a smaller text", path=path)
        return Path(path).read_text(encoding="utf-8-sig", errors="strict" if strict else "replace")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text: {error.reason}", path=path) from error
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
        _remove_left_behind(path)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path=path) from error
    finally:
        # Also what a library writes beside it, as a database its log.
        for left in temporary.parent.glob(f"{escape(temporary.name)}*"):
            with suppress(OSError):
                left.unlink()


def _remove_left_behind(path: Path) -> None:
    """Remove temporary files for a path whose processes were killed."""
    for left in path.parent.glob(f".{escape(path.stem)}.*.part{escape(path.suffix)}*"):
        process = left.name.removeprefix(f".{path.stem}.").partition(".")[0]
        if not (process.isdigit() and _is_running(int(process))):
            with suppress(OSError):
                left.unlink()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


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
