"""Reader of the ROCm Validation Suite (rvs): its rates between GPUs (pbqt, once pqt) and of host memory (pebb)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Fact, Kind, Quantity
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.memory import HOST
from fabricast.sources.copies import check_end, rate_facts
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "rvs"
#: A GPU with its node, identifier and address; old versions print the identifier only.
_GPU = r"(?:\[GPU:: {1,3}\d{1,3} - {1,5}\d{1,6} - [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\]|\d{1,6})"
_PARTS = re.compile(r"\[GPU:: +(\d+) - +\d+ - (.+)\]")
_ACTION = r"\[([\w .-]{1,60})\] "
_COUNT = r" {0,2}(?:\[ {0,3}(\d{1,4})/(\d{1,4})\])? {1,3}"
#: Results end with the duration; lines without one are averages of the moment.
_RATE = r" {1,2}(\d{1,5}\.\d{1,3}) GBps {1,2}duration: \d"
_PAIR = re.compile(rf"{_ACTION}p2p-bandwidth{_COUNT}({_GPU}) ({_GPU}) {{1,2}}bidirectional: (true|false){_RATE}")
_HOST = re.compile(
    rf"{_ACTION}pcie-bandwidth{_COUNT}((?:\[CPU:: {{1,3}})?\d{{1,3}}\]?) ({_GPU}) "
    rf"{{1,2}}h2d::? ?(true|false) {{1,2}}d2h::? ?(true|false){_RATE}"
)
_ACCESS = re.compile(rf"{_ACTION}p2p ({_GPU}) ({_GPU}) (?:peers:)?(true|false)\b")
#: Word of the names of actions that copy between all pairs at once, whose rates are no single ones.
_AT_ONCE = "parallel"


@dataclass(frozen=True)
class _Transfer:
    """Result of an action for a pair of GPUs, or of a processor and a GPU."""

    line: int
    action: str
    place: int  # Number of the transfer in its action, of as many; 0 if unknown
    of_many: int
    ends: tuple[str, str]
    ways: tuple[bool, bool]  # Whether data go from the first end to the second, and back
    bytes_per_s: float


def _is_output(text: Text) -> bool:
    return ("p2p-bandwidth" in text.raw or "pcie-bandwidth" in text.raw) and any(_transfers(text))


def _transfers(text: Text) -> Iterator[_Transfer]:
    """Yield the results of copies."""
    for line, words in text.lines(lambda line: "GBps" in line):
        if (match := _PAIR.search(words)) is not None:
            action, place, count, source, target, both, rate = match.groups()
            ways = True, both == "true"
        elif (match := _HOST.search(words)) is not None:
            action, place, count, source, target, to_gpu, to_host, rate = match.groups()
            source, ways = f"NUMA{source.strip('[]CPU: ')}", (to_gpu == "true", to_host == "true")
        else:
            continue
        yield _Transfer(line, action, int(place or 0), int(count or 0), (source, target), ways, float(rate) * 1e9)


def _read(text: Text) -> Iterator[Reading]:
    check_end(text)
    transfers = list(_transfers(text))
    access = [(line, match) for line, words in text.lines() if (match := _ACCESS.search(words)) is not None]
    lines = {gpu: line for line, match in reversed(access) for gpu in (match[2], match[3])}
    lines |= {end: one.line for one in reversed(transfers) for end in one.ends if not end.startswith("NUMA")}
    names = _names(lines) | _memories(transfers)
    facts = list(rate_facts(text, _PROGRAM, _graphs(transfers, names)))
    for line, match in access:
        if match[2] != match[3]:
            reason, pair = "" if match[4] == "true" else "no peers in rvs", (names[match[2]], names[match[3]])
            facts.append(text.fact(Quantity.PEER_ACCESS, reason, line, _PROGRAM, subject=pair, kind=Kind.MEASURED))
    facts += _addresses(text, lines, names)
    together = [one.line for one in transfers if _AT_ONCE in one.action]
    if together:
        note = "rates of actions that copy between all pairs at once (parallel) are not used"
        facts.append(text.fact(Quantity.NOTE, note, together[0], _PROGRAM))
    yield Reading(facts, list(_missing(text, transfers)), program=_PROGRAM)


def _names(lines: dict[str, int]) -> dict[str, str]:
    """Return the number of each GPU: the order of their nodes, in old versions of their lines."""
    order = {gpu: (int(parts[1]) if (parts := _PARTS.match(gpu)) else 0, line) for gpu, line in lines.items()}
    return {gpu: str(number) for number, gpu in enumerate(sorted(order, key=lambda gpu: order[gpu]))}


def _memories(transfers: list[_Transfer]) -> dict[str, str]:
    """Return the name of the memory of each processor; that of the only one is `HOST`."""
    memories = {one.ends[0] for one in transfers if one.ends[0].startswith("NUMA")}
    return dict.fromkeys(memories, HOST) if len(memories) == 1 else {name: name for name in memories}


def _graphs(transfers: list[_Transfer], names: dict[str, str]) -> Iterator[MeasuredGraph]:
    """Yield the copies of each transfer of one pair at a time; a later one of an action repeats the measurement."""
    last = {(one.action, one.ends, one.ways): one for one in transfers if _AT_ONCE not in one.action and any(one.ways)}
    for one in last.values():
        forth = names[one.ends[0]], names[one.ends[1]]
        copies = tuple(copy for copy, is_used in zip((forth, forth[::-1]), one.ways, strict=True) if is_used)
        name = f"{one.action} {' '.join('>'.join(copy) for copy in copies)}"
        yield MeasuredGraph(name, copies, one.bytes_per_s, "independent", line=one.line)


def _addresses(text: Text, lines: dict[str, int], names: dict[str, str]) -> Iterator[Fact]:
    """Yield the address of each GPU that has one."""
    for gpu, line in lines.items():
        if (parts := _PARTS.match(gpu)) is not None:
            yield text.fact(Quantity.GPU_ADDRESS, parts[2], line, _PROGRAM, subject=(names[gpu],))


def _missing(text: Text, transfers: list[_Transfer]) -> Iterator[InputError]:
    """Yield the actions with fewer results than they count."""
    places: dict[tuple[str, int], set[int]] = {}
    first: dict[tuple[str, int], int] = {}
    for one in transfers:
        if one.of_many:
            places.setdefault((one.action, one.of_many), set()).add(one.place)
            first.setdefault((one.action, one.of_many), one.line)
    for (action, count), seen in places.items():
        if len(seen) < count:
            yield text.error(f"{action} has results of {len(seen)} of its {count} transfers", first[action, count])


FORMAT = Format(
    _PROGRAM,
    Content.COPIES,
    "rvs -c conf/p2p_test.conf -d 3 > rvs.txt",
    "p2p-bandwidth[ 1/56] [GPU:: 2 - 28851 - 0000:05:00.0] [GPU:: 3 - 23018 - 0000:26:00.0] bidirectional: false",
    _is_output,
    _read,
    "rvs.txt",
    versions="ROCm Validation Suite: `pbqt` and `pebb` one after the other",
)
