"""Reader of ``ulimit -a`` and ``/proc/PID/limits``: memory that a process may lock for network cards."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Quantity
from fabricast.core.number_text import size_text
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "ulimit -a"
_LOCKED = re.compile(r"^\s*[Mm]ax locked memory\s+(?:\((?:kbytes|bytes|kB)(?:, -l)?\)\s+)?(\d{1,20}|unlimited)(.*)")
#: Locked memory in bytes below which queues of network cards and buffers of NCCL do not fit.
_ENOUGH = 2**30


def _is_report(text: Text) -> bool:
    return "ax locked memory" in text.raw and any(_LOCKED.match(line) for _, line in text.lines())


def _read(text: Text) -> Iterator[Reading]:
    for number, line in text.lines():
        if (match := _LOCKED.match(line)) is None:
            continue
        # ulimit prints units of 1,024 bytes, /proc bytes.
        unit = 1 if "bytes" in match[2] or "(bytes" in line else 1024
        size = "" if match[1] == "unlimited" else size_text(int(match[1]) * unit)
        if not size or int(match[1]) * unit >= _ENOUGH:
            words = f"a process may lock {size or 'unlimited'} memory"
            yield Reading([text.fact(Quantity.NOTE, words, number, _PROGRAM)])
        else:
            words = f"a process may lock {size} of memory, too little for network cards (InfiniBand, RoCE, EFA)"
            yield Reading([text.fact(Quantity.CAUSE, words, number, _PROGRAM, subject=("locked_memory",))])


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "ulimit -a > limits.txt",
    "max locked memory           (kbytes, -l) unlimited",
    _is_report,
    _read,
    "ulimit.txt",
    versions="also `/proc/PID/limits`: memory that a process may lock",
    is_per_host=True,
)
