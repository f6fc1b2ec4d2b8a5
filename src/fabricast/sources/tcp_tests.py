"""Reader of qperf and netperf: rates over TCP, and latencies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Kind, Quantity
from fabricast.sources.text import Format, Reading, Text

_QPERF, _NETPERF = "qperf", "netperf"
#: Test of qperf, and its rows: bw, latency, or several of them.
_TEST = re.compile(r"^\s*((?:tcp|udp|sctp|rc|uc|ud|rds|sdp)_\w{2,20}):\s*$")
_BANDWIDTH = re.compile(r"^\s*(?:send_bw|bw)\s+=\s+(\d{1,9}(?:\.\d{1,9})?) ([KMGT]?)(B|b)(?:ytes|its)?/sec")
_LATENCY = re.compile(r"^\s*latency\s+=\s+(\d{1,9}(?:\.\d{1,9})?) (ns|us|ms|sec)\s*$")
#: Words without which a text has no rows.
_ROWS = ("bw ", "latency ")
_SCALES = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}
#: Unit of netperf.
_UNIT = "10^6bits/s"
#: Heading of the rates of netperf, without counts of messages over UDP (#), title, and row: sizes, seconds, and rate.
_HEADING = re.compile(r"^[^#]*\b10\^6bits/s(?:ec)?\b")
_TITLE = re.compile(r"\b(?:TEST|REQUEST/RESPONSE) from\b")
_ROW = re.compile(r"^\s*\d{1,9}\s+\d{1,9}\s+\d{1,9}\s+\d{1,6}\.\d{1,3}\s+(\d{1,9}\.\d{1,3})\b")


def _of_qperf(text: Text) -> Iterator[Fact]:
    """Yield the rate or the latency of each test of qperf."""
    test = ""
    if not any(word in text.raw for word in _ROWS):
        return
    for number, line in text.lines():
        if (match := _TEST.match(line)) is not None:
            test = match[1]
        elif test and (match := _BANDWIDTH.match(line)) is not None:
            gbit_s = float(match[1]) * _SCALES[match[2]] * (8 if match[3] == "B" else 1)
            yield from _rate(text, number, _QPERF, test, gbit_s)
            test = ""
        elif test and (match := _LATENCY.match(line)) is not None:
            yield text.fact(Quantity.NOTE, f"qperf {test}: latency of {match[1]} {match[2]}", number, _QPERF)
            test = ""


def _of_netperf(text: Text) -> Iterator[Fact]:
    """Yield the rate of each test of netperf."""
    is_table = False
    if _UNIT not in text.raw:
        return
    for number, line in text.lines():
        if _HEADING.search(line) is not None or _TITLE.search(line) is not None:
            is_table = _TITLE.search(line) is None
        elif is_table and (match := _ROW.match(line)) is not None:
            yield from _rate(text, number, _NETPERF, "tcp_stream", float(match[1]) / 1e3)
            is_table = False


def _rate(text: Text, line: int, program: str, test: str, gbit_s: float) -> Iterator[Fact]:
    """Yield a rate; those over TCP are compared with interfaces."""
    yield text.fact(Quantity.NOTE, f"{program} {test}: {gbit_s:.3g} Gbit/s", line, program)
    if test.startswith("tcp_") and gbit_s > 0:
        subject = ("one stream",)
        yield text.fact(Quantity.TCP_RATE, gbit_s, line, program, subject=subject, unit="Gbit/s", kind=Kind.MEASURED)


def _read(text: Text) -> Iterator[Reading]:
    for program, facts in ((_QPERF, list(_of_qperf(text))), (_NETPERF, list(_of_netperf(text)))):
        if facts:
            yield Reading(facts, program=program)


FORMAT = Format(
    _QPERF,
    Content.STATES,
    "qperf HOST tcp_bw tcp_lat > qperf.txt",
    "bw              =  3.05 GB/sec",
    lambda text: any(_of_qperf(text)) or any(_of_netperf(text)),
    _read,
    "qperf.txt",
    versions="also netperf: rates over TCP",
)
