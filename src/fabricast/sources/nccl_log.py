"""Reader of the lines that NCCL prints with NCCL_DEBUG=INFO: rings, transports, choices, settings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from fabricast.core.facts import Content, Quantity
from fabricast.nccl.records import LoggedChoice, NcclLog
from fabricast.nccl.system import PathType, parse_version
from fabricast.sources.text import Format, Reading, Text

__all__ = ["FORMAT"]

_INFO = re.compile(r"NCCL (?:INFO|WARN) (.*)")
_STATEMENT = re.compile(
    r"NCCL version|set by environment|Channel \d|Pattern \d|n[rR]anks \d|coll channels|Bytes ->|Could not find|"
    r"P2P is disabled"
)
_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)")
_COMM = re.compile(r"comm (0x[0-9a-f]+) .*?rank (\d{1,15}) n[rR]anks (\d{1,15})(.*)")
_BUS = re.compile(r"busId ([0-9a-f]+)")
_NODES = re.compile(r"nNodes (\d{1,15})")
_CHANNEL = re.compile(r"Channel (\d{1,15})/(\d{1,15}) :((?:\s+\d{1,15})+)(\.\.\.)?\s*$")
_VIA = re.compile(r"Channel (\d{1,15})(?:/\d+)? : (\d{1,15})\[[^\]]*\] -> (\d{1,15})\[[^\]]*\] (?:\[\w+\] )?via (\S+)")
_PATTERN = re.compile(
    r"Pattern (\d{1,15}), crossNic \d+, nChannels (\d{1,15}), (?:bw|speed) ([\d.]+)/([\d.]+), type (\w+)/(\w+)"
)
_COLL = re.compile(r"(\d{1,15}) coll channels")
_CHOICE = re.compile(
    r"(\w+): (\d{1,15}) Bytes -> Algo (\w+) proto (\w+)(?: channel\{Lo\.\.Hi\}=\{(\d{1,15})\.\.(\d{1,15})\})?"
)
_OLD_CHOICE = re.compile(r"(\d{1,15}) Bytes -> Algo (\d{1,15}) proto (\d{1,15}) time ([\d.]+)")
_ENV = re.compile(r"(NCCL_\w+) set by environment to (\S+?)\.?$")
_FALLBACK = re.compile(r"Could not find a path for pattern (\d{1,15})")
_DISABLED = re.compile(r"P2P is disabled between (?:NVLINK )?connected GPUs (\d{1,15}) and (\d{1,15})")
_ALGORITHMS, _PROTOCOLS = ("tree", "ring"), ("ll", "ll128", "simple")


def _is_log(text: Text) -> bool:
    return "NCCL INFO" in text.raw or "NCCL WARN" in text.raw


def _log(text: Text) -> NcclLog:
    """Return the statements about the largest communicator."""
    log, sizes = NcclLog(), Counter[int]()
    for number, line in text.lines(lambda line: "NCCL" in line):
        match = _INFO.search(line)
        # Most lines of a large log state nothing about the communicator.
        if match is not None and _STATEMENT.search(line):
            _statement(log, sizes, match[1].strip(), text, number)
    if sizes:
        # Lines of smaller communicators of the same job are ignored.
        log.ranks = max(sizes)
    elif log.orders:
        log.ranks = max(len(order) for order in log.orders.values())
    log.orders = {channel: order for channel, order in log.orders.items() if len(order) == log.ranks}
    return log


def _statement(log: NcclLog, sizes: Counter[int], body: str, text: Text, number: int) -> None:
    """Add one line to the log."""
    if (match := _VERSION.search(body)) is not None:
        log.version = parse_version(match[1])
    elif (match := _ENV.search(body)) is not None:
        before = log.environment.setdefault(match[1], match[2])
        if before != match[2]:
            raise text.error(
                f"{match[1]} is {match[2]}, expected {before} as before: the log holds runs with different settings",
                number,
            )
    elif (match := _CHANNEL.match(body)) is not None:
        order = tuple(int(rank) for rank in match[3].split())
        if match[4] or len(set(order)) != len(order):
            log.truncated_orders += 1
        else:
            log.orders[int(match[1])] = order
    elif (match := _VIA.match(body)) is not None:
        log.transports[int(match[2]), int(match[3])] = match[4]
        log.lines.setdefault(match[4].partition("/")[0], number)
    elif (match := _PATTERN.match(body)) is not None:
        kind = PathType.__members__.get(match[5], PathType.SYS)
        log.patterns[int(match[1])] = (int(match[2]), float(match[3]), kind)
    elif (match := _COMM.search(body)) is not None:
        sizes[int(match[3])] += 1
        if (bus := _BUS.search(body)) is not None:
            log.bus_ids[int(match[2])] = bus[1]
        if (nodes := _NODES.search(body)) is not None:
            log.nodes = max(log.nodes, int(nodes[1]))
    elif (match := _COLL.search(body)) is not None:
        log.coll_channels = int(match[1])
    elif (match := _CHOICE.match(body)) is not None:
        channels = None if match[5] is None else int(match[6]) - int(match[5]) + 1
        log.choices.append(LoggedChoice(match[1], int(match[2]), match[3].lower(), match[4].lower(), channels))
    elif (match := _OLD_CHOICE.match(body)) is not None:
        algorithm, protocol = int(match[2]), int(match[3])
        if algorithm < len(_ALGORITHMS) and protocol < len(_PROTOCOLS):
            log.choices.append(LoggedChoice("", int(match[1]), _ALGORITHMS[algorithm], _PROTOCOLS[protocol], None))
    elif (match := _FALLBACK.search(body)) is not None:
        log.fallbacks.append(int(match[1]))
    elif (match := _DISABLED.search(body)) is not None:
        log.disabled_pairs.append((int(match[1]), int(match[2])))
        log.lines.setdefault("disabled", number)


def _read(text: Text) -> Iterator[Reading]:
    log = _log(text)
    first = next((number for number, line in text.lines(lambda line: "NCCL" in line) if _INFO.search(line)), 0)
    yield Reading([text.fact(Quantity.NCCL_RUN, log, first, "NCCL")], line=first, text=str(log))


FORMAT = Format(
    "NCCL_DEBUG=INFO",
    Content.NCCL_LOG,
    "NCCL_DEBUG=INFO all_reduce_perf -g 8 > nccl.log",
    "NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    _is_log,
    _read,
    "nccl.log",
    versions="NCCL 2.12 to 2.30: rings, channels, transports, settings, choices",
)
