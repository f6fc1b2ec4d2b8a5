"""Reader of ``fi_pingpong`` and other ping-pong tests of libfabric."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Quantity
from fabricast.maxrate.message_times import MessageTime
from fabricast.sources.messages import message_reading
from fabricast.sources.text import Format, Reading, Text

#: Columns of fi_pingpong, and of the tests of fabtests, which count iterations.
_HEADER = re.compile(
    r"^\s*(?:name\s+)?bytes\s+(?:#sent\s+#ack|iters)\s+total\s+time\s+MB/sec\s+usec/xfer\s+Mxfers/sec\s*$"
)
_ROW = re.compile(
    r"^\s*(?:\w{1,40}\s+)?(\d{1,15}(?:\.\d{1,3})?)([kmg]?)\s+(\d{1,12}(?:\.\d{1,3})?)([kmg]?)\s+"
    r"(?:=?\d{1,12}(?:\.\d{1,3})?[kmg]?\s+)?(\d{1,12}(?:\.\d{1,3})?)([kmg]?)\s+[\d.]{1,15}s\s+"
    r"[\d.]{1,15}\s+([\d.]{1,15})\s+[\d.]{1,15}\s*$"
)
_COMMAND = re.compile(r"\bfi_(\w{2,30})\b(?:.{0,200}?\s-p ?([\w;]{2,40}))?")
_POWERS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
#: Number of messages below which the start of a test counts.
_FEWEST = 100
#: Multiple of the bytes of all messages above which each of them was answered.
_ANSWERED = 1.5


def _times(lines: Sequence[str]) -> Iterator[MessageTime | InputError]:
    """Parse rows: half of the time of a message and its answer."""
    name, provider, is_table, is_ping_pong = "", "", False, False
    for number, line in enumerate(lines, start=1):
        if (command := _COMMAND.search(line)) is not None:
            name, provider = command[1], command[2] or ""
        if _HEADER.match(line):
            is_table, is_ping_pong = True, "#sent" in line
        elif is_table and (match := _ROW.match(line)) is not None:
            size, count, total = (round(float(match[group]) * _POWERS[match[group + 1]]) for group in (1, 3, 5))
            if count >= _FEWEST and float(match[7]) > 0:
                # A test of rates transfers each message once, a ping-pong also its answer.
                is_rate = name.endswith("bw") or not (name or is_ping_pong or total > _ANSWERED * size * count)
                test = f"fi_{name or ('bw' if is_rate else 'pingpong')}"
                convention = "windowed" if is_rate else "one_way"
                yield MessageTime(number, test, 1, size, float(match[7]) * 1e-6, convention, device=provider)


def _read(text: Text) -> Iterator[Reading]:
    if next(_times(text.clean_lines), None) is not None:
        yield message_reading(text, "fi_pingpong", _times(text.clean_lines))
        return
    first = next(number for number, line in text.lines() if _HEADER.match(line))
    words = f"fi_pingpong sent fewer than {_FEWEST} messages of a size: their times have its start; -I 1000"
    yield Reading([text.fact(Quantity.NOTE, words, first, "fi_pingpong")])


FORMAT = Format(
    "fi_pingpong",
    Content.MESSAGES,
    "fi_pingpong -e rdm -p PROVIDER HOST > fi.out",
    "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec",
    lambda text: "usec/xfer" in text.raw and any(_HEADER.match(line) for line in text.clean_lines),
    _read,
    "fi_pingpong.out",
    "fabricast fit",
    _HEADER,
    versions="of libfabric 1.x and 2.x, also `fi_rdm_pingpong` and others of fabtests",
    is_per_host=True,
)
