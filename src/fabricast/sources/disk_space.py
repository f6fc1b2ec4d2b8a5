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


def _rows(text: Text) -> Iterator[tuple[int, float, int]]:
    """Yield line, size in bytes and share in use in percent of each row; a table of inodes has none."""
    if _FOLDER not in text.raw:
        return
    block = _BLOCK
    for number, line in text.lines(lambda line: _FOLDER in line or "Filesystem" in line):
        if (heading := _HEADING.match(line)) is not None:
            block = 0 if heading[3] else int(heading[1]) * _UNITS.get(heading[2], 1)
        elif (row := _ROW.match(line)) is not None and (unit := _UNITS.get(row[2], block)):
            yield number, float(row[1]) * unit, int(row[3])


def _read(text: Text) -> Iterator[Reading]:
    for number, size, share in _rows(text):
        words = f"shared memory (/dev/shm) has {size_text(size)}, {share} % of it in use"
        if size < _ENOUGH or share >= _FULL:
            is_full = share >= _FULL
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
