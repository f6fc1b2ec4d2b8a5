"""File input with size limits, and atomic file output."""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO, Any

from fabricast.core.errors import InputError

#: Maximum size of input files in bytes; lower for formats whose parsed objects need more memory.
LARGEST_TEXT_BYTES = 64_000_000
LARGEST_JSON_BYTES = 16_000_000
#: Maximum number of lines of a log, which is read line by line.
MOST_LINES = 5_000_000
LARGEST_YAML_BYTES = 1_000_000
_BLOCK_BYTES = 1 << 20
#: First bytes of files that hold no text, and what such a file is.
_BINARY = {
    b"\x89PNG": "a picture (PNG)",
    b"\xff\xd8\xff": "a picture (JPEG)",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "an archive or office document (ZIP)",
    b"\x7fELF": "a program",
    b"SQLite format 3": "a database (SQLite)",
}
#: Byte-order marks of UTF-16; that of UTF-32 begins alike and contains NUL bytes.
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_COMMENT = re.compile(rb"^#[^\n]*", re.MULTILINE)


def exists(path: Path | str) -> bool:
    """Return whether a file or folder has a name; a text of a user may be longer than names of files can be.

    >>> exists("."), exists("n" * 5000)
    (True, False)
    """
    try:
        return Path(path).exists()
    except OSError:
        return False


def read_bytes(path: Path | str, *, most_bytes: int = LARGEST_TEXT_BYTES) -> bytes:
    """Read a file, a pipe or standard input (``-``) up to a size limit."""
    try:
        if str(path) == "-":
            return _read_limited(sys.stdin.buffer, path, most_bytes)
        # `stat` does not block on a pipe without a writer; `open` does.
        kind = Path(path).stat().st_mode
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind) or stat.S_ISSOCK(kind):
            raise InputError("is a device, expected a file", path=path)
        with Path(path).open("rb") as file:
            return _read_limited(file, path, most_bytes)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from error


def _read_limited(file: IO[bytes], path: Path | str, most_bytes: int) -> bytes:
    blocks, size = [], 0
    while block := file.read(_BLOCK_BYTES):
        size += len(block)
        if size > most_bytes:
            raise InputError(f"is larger than {most_bytes / 1e6:g} MB, expected a smaller file", path=path)
        blocks.append(block)
    return b"".join(blocks)


def read_text(path: Path | str, *, strict: bool = False, most_bytes: int = LARGEST_TEXT_BYTES) -> str:
    """Read an external text file up to a size limit."""
    text = decoded(read_bytes(path, most_bytes=most_bytes), path, strict=strict)
    if not strict and text.count("\n") > MOST_LINES:
        raise InputError(f"has more than {MOST_LINES:,} lines, expected a shorter log", path=path)
    return text


def decoded(content: bytes, path: Path | str, *, strict: bool, lines_before: int = 0) -> str:
    """Return the text of a file."""
    if not lines_before and content.startswith(_UTF_16_MARKS):
        # Redirected output of Windows shells.
        content = content.decode("utf-16", errors="replace").encode("utf-8")
    kind = next((kind for start, kind in _BINARY.items() if content.startswith(start)), "")
    if kind:
        raise InputError(f"is {kind}, expected text: copy the text of the terminal into a file", path=path)
    nul = content.find(b"\0")
    if nul >= 0:
        line = content.count(b"\n", 0, nul) + 1 + lines_before
        raise InputError("contains a NUL byte, expected UTF-8 text", path=path, line=line)
    try:
        return content.decode("utf-8" if lines_before else "utf-8-sig", errors="strict" if strict else "replace")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1 + lines_before
        raise InputError(f"is not UTF-8 text: {error.reason}", path=path, line=line) from error


def line_blocks(path: Path | str, block_bytes: int) -> Iterator[tuple[str, int]]:
    """Read a text file of any size in blocks of complete lines."""
    lines_before = 0
    try:
        with Path(path).open("rb") as file:
            while block := file.read(block_bytes):
                content = block + _rest_of_line(file, block, path, lines_before)
                yield decoded(content, path, strict=True, lines_before=lines_before), lines_before
                lines_before += content.count(b"\n")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error


def _rest_of_line(file: IO[bytes], block: bytes, path: Path | str, lines_before: int) -> bytes:
    """Read further lines until the number of quotes is even; quotes in comments do not count."""
    quotes = (_COMMENT.sub(b"", block) if b"#" in block else block).count(b'"')
    lines, size = [], 0
    while line := file.readline(LARGEST_TEXT_BYTES):
        lines.append(line)
        # The first line may be the remainder of a comment that begins in the block.
        begun = block.rpartition(b"\n")[2] if not lines[1:] else b""
        quotes += 0 if (begun + line).startswith(b"#") else line.count(b'"')
        size += len(line)
        if size >= LARGEST_TEXT_BYTES:
            wide = f"contains a line or a quoted field of more than {LARGEST_TEXT_BYTES / 1e6:g} MB, expected less"
            raise InputError(wide, path=path, line=lines_before + 1)
        if quotes % 2 == 0:
            break
    return b"".join(lines)


def parse_json(text: str, path: Path | str) -> Any:
    """Parse JSON text of at most 16 million characters."""
    if len(text) > LARGEST_JSON_BYTES:
        raise InputError(f"is larger than {LARGEST_JSON_BYTES / 1e6:g} MB, expected smaller JSON", path=path)
    try:
        value = json.loads(text)
        if "\\u" in text:
            # Unpaired surrogates cannot be encoded as UTF-8.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        problem = (
            "the nesting is too deep" if isinstance(error, RecursionError) else getattr(error, "msg", None) or error
        )
        raise InputError(f"is not JSON: {problem}", path=path, line=line) from error


@contextmanager
def atomic_write(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path next to `path` and rename it to `path` on success.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a" / "b.txt"
    >>> with atomic_write(target) as temporary:
    ...     _ = temporary.write_text("done")
    >>> target.read_text()
    'done'
    """
    path = Path(path)
    if path.is_dir():
        raise InputError("is a folder, expected the name of a file", path=path)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(path)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path=path) from error
    finally:
        # Also remove files that a library writes next to it, such as the log of a database.
        for left in temporary.parent.glob(f"{escape(temporary.name)}*"):
            with suppress(OSError):
                left.unlink()


def _remove_left_behind(path: Path) -> None:
    """Remove temporary files of a path that killed processes left behind."""
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
    """Write a UTF-8 text file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
