"""Reader of ``df``: the size of shared memory (/dev/shm), which containers limit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Quantity
from fabricast.core.number_text import size_text
from fabricast.sources.text import Format, Reading, Text

_PROGRAM, _FOLDER = "df", "dev/shm"
#: File system, size, used, free, share in use, and the folder.
_ROW = re.compile(r"^\s*\S{1,200}\s+([\d.]{1,15})([KMGTP]?)i?B?\s+\S{1,15}\s+\S{1,15}\s+(\d{1,3})%\s+/dev/shm\s*$")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
#: Without a unit, df prints blocks of 1,024 bytes.
_BLOCK = 2**10
#: Size in bytes in which the segments of 8 ranks fit, and share in use from which it is full.
_ENOUGH, _FULL = 2**30, 95


def _rows(text: Text) -> Iterator[tuple[int, re.Match[str]]]:
    if _FOLDER in text.raw:
        for number, line in text.lines(lambda line: _FOLDER in line):
            if (match := _ROW.match(line)) is not None:
                yield number, match


def _read(text: Text) -> Iterator[Reading]:
    for number, match in _rows(text):
        size = float(match[1]) * _UNITS.get(match[2], _BLOCK)
        words = f"shared memory (/dev/shm) has {size_text(size)}, {match[3]} % of it in use"
        if size < _ENOUGH or int(match[3]) >= _FULL:
            words += ": too little for several processes" if size < _ENOUGH else ": it is full"
            subject = ("small_shared_memory",)
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
