"""Reader of ``df``: the size of shared memory (/dev/shm), which containers limit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Quantity
from fabricast.core.number_text import size_text
from fabricast.sources.text import Format, Reading, Text

_PROGRAM, _FOLDER = "df", "dev/shm"
#: File system, type (-T), size, used, free, share in use, and the folder.
_ROW = re.compile(
    r"^\s*\S{1,200}\s+(?:[a-z]\w{2,15}\s+)?([\d.]{1,15})([KMGTP]?)i?B?\s+\S{1,15}\s+\S{1,15}\s+(\d{1,3})%"
    r"\s+/dev/shm\s*$"
)
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
#: Unit of the column of sizes in the heading; without one, df prints blocks of 1,024 bytes.
_HEADING = re.compile(r"^\s*Filesystem\s.*?(?:\s(\d{1,4})([KMG]?)B?-blocks\s|\s(Inodes)\s)")
_BLOCK = 2**10
#: Size in bytes in which the segments of 8 ranks fit, and share in use from which it is full.
_ENOUGH, _FULL = 2**30, 95


def _rows(text: Text) -> Iterator[tuple[int, re.Match[str]]]:
    if _FOLDER in text.raw:
        for number, line in text.lines(lambda line: _FOLDER in line):
            if (match := _ROW.match(line)) is not None and (match[2] or _block(text, number)):
                yield number, match


def _block(text: Text, number: int) -> int:
    """Return the bytes of a block by the last heading before a row; 0 for a table of inodes."""
    headings = [match for before, line in text.lines() if before < number and (match := _HEADING.match(line))]
    if not headings:
        return _BLOCK
    return 0 if headings[-1][3] else int(headings[-1][1]) * _UNITS.get(headings[-1][2], 1)


def _read(text: Text) -> Iterator[Reading]:
    for number, match in _rows(text):
        size = float(match[1]) * (_UNITS[match[2]] if match[2] else _block(text, number))
        words = f"shared memory (/dev/shm) has {size_text(size)}, {match[3]} % of it in use"
        if size < _ENOUGH or int(match[3]) >= _FULL:
            is_full = int(match[3]) >= _FULL
            words += ": it is full" if is_full else ": little for several processes"
            subject = ("full_shared_memory" if is_full else "little_shared_memory",)
            yield Reading([text.fact(Quantity.CAUSE, words, number, _PROGRAM, subject=subject)])
        else:
            yield Reading([text.fact(Quantity.NOTE, words, number, _PROGRAM)])


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "df -h /dev/shm > shm.txt",
    "shm              64M   20M   45M  31% /dev/shm",
    lambda text: next(_rows(text), None) is not None,
    _read,
    "df.txt",
    versions="size of shared memory (/dev/shm), by which NCCL and MPI send within a host",
    is_per_host=True,
)
