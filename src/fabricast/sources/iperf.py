"""Reader of ``iperf3`` and ``iperf``: rates over TCP, and segments that were sent again."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Kind, Quantity
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "iperf3"
#: Row of an interval: stream, begin and end in s, transfer, rate, segments sent again, and the side of a summary.
_ROW = re.compile(
    r"^\s*\[\s*(SUM|\d{1,4})\]\s+(\d{1,6}\.\d{1,4})\s*-\s*(\d{1,6}\.\d{1,4})\s+sec\s+([\d.]{1,12}) ([KMGT]?)Bytes\s+"
    # iperf 2 -e prints writes and errors of a client, and reads of a server with their distribution.
    r"([\d.]{1,12}) ([KMGT]?)bits/sec(?:\s+\d{1,12}/\d{1,12}(?=\s+\d{1,12}\s))?"
    r"(?:\s+(\d{1,12})(?![\d/=])(?!\s+\d{1,12}:))?(.*)$"
)
#: Direction that ``--bidir`` prints behind the stream, and its words.
_DIRECTION = re.compile(r"\]\[([TR]X)-[CS]\]")
_DIRECTIONS = {"": "", "TX": ", sent by the client while it receives", "RX": ", received by the client while it sends"}
#: Title that ``-T`` prints before each line.
_TITLE = re.compile(r"^(\w[\w.-]{0,30}):\s+(?=\[\s*(?:SUM|\d{1,4})\])")
#: Lines with which a run starts.
_STARTS = re.compile(
    r"Connecting to host|Client connecting|\blocal \S{1,60} port \d{1,5} connected with|\biperf3? .{0,200}-c\b"
)
#: Headers of a test over UDP, and the share of datagrams that were lost.
_UDP = re.compile(r"Total Datagrams|bits/sec\s+[\d.]{1,12} ms\s+\d{1,12}/")
_LOST = re.compile(r"\b(\d{1,12})/\s{0,12}(\d{1,12}) \(([\d.]{1,8})%\)")
_BINARY = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_DECIMAL = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
#: Payload in bytes of a segment with the usual packets of 1,500 bytes; larger packets make fewer segments.
_SEGMENT_BYTES = 1448.0
#: Share of the longest row from which a row is a summary.
_SUMMARY = 0.9
#: Intervals without any data from which a stream stalls.
_STALLS = 3
_PATH_MTU = (
    "packets may be lost on the path: 'ping -M do -s 1472 HOST' tests an MTU of 1500 (-s 8972 one of 9000, which all "
    "hosts and switches need); then counters of errors ('ethtool -S'), cables and firewalls"
)
#: Command, the rate that it permits each stream, and its number of streams.
_COMMAND = re.compile(r"\biperf3? .{0,200}?-c\b")
_LIMITED = re.compile(r"\s(?:-b|--bitrate|--bandwidth)[ =]?([1-9][\d.]{0,8})([kKmMgGtT]?)\b")
_STREAMS = re.compile(r"\s(?:-P|--parallel)[ =]?(\d{1,4})\b")
#: Share of the permitted rate from which the command limits a run.
_REACHES = 0.85
#: Share of segments that are sent again above which the network loses packets, rather than that TCP fills a queue.
_LOSSY = 0.01


def _is_report(text: Text) -> bool:
    return "bits/sec" in text.raw and any(_row(line) for _, line in text.lines())


def _row(line: str) -> re.Match[str] | None:
    """Return the row of an interval without its title and direction."""
    return _ROW.match(_DIRECTION.sub("]", _TITLE.sub("", line)))


def _runs(text: Text) -> Iterator[tuple[str, list[tuple[int, re.Match[str]]]]]:
    """Yield direction and rows of each run: a row from 0 s after the last summary, or after a start, is of the next.

    Runs with titles print their lines in turn.
    """
    runs: dict[tuple[str, str], list[tuple[int, re.Match[str]]]] = {}
    for number, line in text.lines():
        if "(omitted)" in line:
            continue
        if (match := _row(line)) is None:
            if runs and _STARTS.search(line) is not None:
                yield from ((direction, rows) for (_, direction), rows in runs.items())
                runs = {}
            continue
        direction = found[1] if (found := _DIRECTION.search(line)) is not None else ""
        title = named[1] if (named := _TITLE.match(line)) is not None else ""
        rows = runs.setdefault((title, direction), [])
        if rows and _begins(match) == 0.0 and _is_shorter(match, rows[-1][1]):
            yield direction, rows
            rows = runs[title, direction] = []
        rows.append((number, match))
    yield from ((direction, rows) for (_, direction), rows in runs.items())


def _begins(match: re.Match[str]) -> float:
    return float(match[2])


def _is_shorter(match: re.Match[str], before: re.Match[str]) -> bool:
    """Return whether a row ends before another one; those of the streams of one run end at about the same time."""
    is_same = match[1] == before[1]
    return float(match[3]) < (1.0 if is_same else _SUMMARY) * float(before[3])


def _seconds(match: re.Match[str]) -> float:
    return float(match[3]) - _begins(match)


def _bytes(match: re.Match[str]) -> float:
    return float(match[4]) * _BINARY[match[5]]


def _read(text: Text) -> Iterator[Reading]:
    commands = [(number, line) for number, line in text.lines() if _COMMAND.search(line) is not None]
    is_of_udp = _UDP.search(text.raw) is not None
    facts: list[Fact] = []
    for direction, rows in _runs(text):
        command = next((line for number, line in reversed(commands) if number < rows[0][0]), "")
        facts += _facts(text, direction, rows, _permitted(command), is_of_udp=is_of_udp)
    yield Reading(facts)


def _permitted(command: str) -> float:
    """Return the rate in Gbit/s that a command permits all of its streams; infinite without a limit."""
    limit, streams = _LIMITED.search(command), _STREAMS.search(command)
    if limit is None:
        return float("inf")
    return float(limit[1]) * _DECIMAL[limit[2].upper()] / 1e9 * (1 if streams is None else int(streams[1]))


def _rank(row: tuple[int, re.Match[str]]) -> tuple[bool, bool, float, bool, bool]:
    """Return the rank of a row as the result of its run: longer ones, all streams and counted ones come first.

    The receiver's reports of single streams over UDP may last longer than the sum of the sender.
    """
    match = row[1]
    is_sum = match[1] == "SUM"
    is_of_udp = _LOST.search(match[0]) is not None
    return float(match[6]) > 0.0, is_sum or not is_of_udp, _seconds(match), is_sum, match[8] is not None


def _lost(rows: list[tuple[int, re.Match[str]]], *, has_summary: bool) -> str:
    """Return the share of datagrams that the longest row of each stream counts as lost; all rows without a summary."""
    if not has_summary:
        every = [(int(match[1]), int(match[2])) for _, row in rows if (match := _LOST.search(row[0])) is not None]
        return f"{100 * sum(lost for lost, _ in every) / max(sum(count for _, count in every), 1):.3g} %"
    last: dict[str, tuple[float, int, int, str]] = {}
    for _, row in rows:
        if (match := _LOST.search(row[0])) is not None and _seconds(row) >= last.get(row[1], (0.0,))[0]:
            last[row[1]] = _seconds(row), int(match[1]), int(match[2]), match[3]
    counts = [last["SUM"]] if "SUM" in last else list(last.values())
    sent = sum(count for _, _, count, _ in counts)
    if len(counts) <= 1 or not sent:
        return f"{counts[0][3] if counts else '0'} %"
    return f"{100 * sum(count for _, count, _, _ in counts) / sent:.3g} %"


def _facts(
    text: Text, direction: str, rows: list[tuple[int, re.Match[str]]], permitted: float, *, is_of_udp: bool
) -> Iterator[Fact]:
    """Yield the rate of a run, and whether packets were lost; a server prints an empty row of its sender."""
    number, match = max(rows, key=_rank)
    gbit_s, seconds = float(match[6]) * _DECIMAL[match[7]] / 1e9, _seconds(match)
    transferred = _bytes(match)
    streams = {row[1] for _, row in rows}
    if "SUM" not in streams and len(streams) > 1:
        words = f"iperf prints {len(streams)} streams, but not their sum (SUM): its rate is not known"
        yield text.fact(Quantity.NOTE, words, number, _PROGRAM)
        return
    same = [row for _, row in rows if row[1] == match[1]]
    has_summary = len(same) < 2 or len(set(map(_begins, same))) < len(same)
    if not has_summary:
        # Without a summary, the intervals have the rate.
        seconds, transferred = sum(map(_seconds, same)), sum(map(_bytes, same))
        gbit_s = sum(float(row[6]) * _DECIMAL[row[7]] * _seconds(row) for row in same) / seconds / 1e9
    counted = [row for _, row in rows if row[8] is not None and row[1] == match[1]]
    # The summary of the sender has the count, that of the receiver may last longer. Without one, the intervals count.
    named = [row for row in counted if "sender" in row[9]]
    summaries = named or [row for row in counted if has_summary and _seconds(row) > _SUMMARY * _seconds(match)]
    again = sum(int(row[8]) for row in summaries[-1:] or counted)
    if is_of_udp:
        # The sender of UDP chooses the rate.
        lost = _lost(rows, has_summary=has_summary)
        words = f"iperf over UDP: {gbit_s:.3g} Gbit/s for {seconds:g} s, {lost} of the datagrams lost"
        yield text.fact(Quantity.NOTE, words, number, _PROGRAM)
        return
    intervals = [row for _, row in rows if _seconds(row) < _SUMMARY * _seconds(match)] or [row for _, row in rows]
    stalled = sum(float(row[4]) == 0.0 for row in intervals)
    is_counted = any(row[8] is not None for _, row in rows)
    has_repeats = any(int(row[8] or 0) for _, row in rows)
    # A sender with a limit (-b) also has intervals without data, and sends nothing again.
    if stalled >= _STALLS and 2 * stalled > len(intervals) and (has_repeats or not is_counted):
        cause = f"the stream of TCP stalls: {stalled} of {len(intervals)} intervals transfer nothing"
        yield text.fact(Quantity.CAUSE, cause, number, _PROGRAM, subject=("stalled_stream", _PATH_MTU))
        return
    words = f"iperf: {gbit_s:.3g} Gbit/s for {seconds:g} s{_DIRECTIONS[direction]}"
    words += f", {again:,} segments of TCP sent again" if again else ""
    is_limited = gbit_s >= _REACHES * permitted
    words += ": the command permits no more (-b)" if is_limited else ""
    yield text.fact(Quantity.NOTE, words, number, _PROGRAM)
    if direction:
        # Of both directions at once, neither needs to reach the rate of an interface.
        return
    if not is_limited:
        kind = "all streams" if match[1] == "SUM" else "one stream"
        yield text.fact(Quantity.TCP_RATE, gbit_s, number, _PROGRAM, subject=(kind,), unit="Gbit/s", kind=Kind.MEASURED)
    segments = transferred / _SEGMENT_BYTES
    if segments > 0.0 and again > _LOSSY * segments:
        share = min(again / segments, 1.0)
        cause = f"the network loses packets: TCP sent {100 * share:.2g} % of the segments again ({gbit_s:.3g} Gbit/s)"
        yield text.fact(Quantity.CAUSE, cause, number, _PROGRAM, subject=("lost_packets",))


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "iperf3 -c HOST > iperf.txt",
    "[  5]   0.00-10.00  sec  10.9 GBytes  9.36 Gbits/sec  112             sender",
    _is_report,
    _read,
    "iperf.txt",
    versions="also iperf 2: rates over TCP, packets that are lost",
)
