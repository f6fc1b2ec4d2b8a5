"""Reader of p2pmark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabricast.core.facts import Content
from fabricast.pcie.graphs.rates import Statistic
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.sources.copies import check_end, rate_facts
from fabricast.sources.text import Format, Reading, Text

_SEQUENTIAL = re.compile(r"=== Sequential P2P bandwidth \(GB/s\) ===")
_STAGGERED = re.compile(r"=== Topology probe: staggered (?:reads|writes) by peer distance \(GB/s\) ===")
_SINGLE = re.compile(r"=== Single (?:reader, all|GPU writes to all) \d+ peers concurrent \(GB/s\) ===")
_RING = re.compile(r"=== Ring bandwidth: each GPU writes to next neighbor \(GB/s\) ===")
_ALL = re.compile(r"=== All(?: GPUs read all peers simultaneously|-to-all fabric stress test) \(GB/s\) ===")
_COUNT = re.compile(r"Found (\d+) GPUs")
#: Largest number of GPUs that p2pmark uses.
_MOST_GPUS = 8
_ROW = re.compile(r"GPU (\d+):((?:\s+(?:-|[\d.]+))+)")
_ROUND = re.compile(r"\+(\d+)\s+((?:\d+(?:<-|->)\d+\s+)+)([\d.]+) avg\s+([\d.]+) total")
_PAIR = re.compile(r"(\d+)(<-|->)(\d+)")
_ACTIVE = re.compile(r"GPU (\d+) (?:reads from|writes to) all peers: ([\d.]+) GB/s")
_NEXT = re.compile(r"GPU (\d+) -> GPU (\d+): ([\d.]+) GB/s")
_ONE = re.compile(r"GPU (\d+): ([\d.]+) GB/s")
_TOTAL = re.compile(r"Total (?:system|ring|all-to-all) bandwidth: ([\d.]+) GB/s(?:  \(.*\))?")
#: Rounding error of printed rates in GB/s: they have two decimals.
_ROUNDING = 0.005
#: Name of the copies of all GPUs and statistic of their total, by direction.
_ALL_NAMES: dict[str, tuple[str, Statistic]] = {
    "reads": ("all read from all", "sum_of_targets"),
    "writes": ("all write to all", "sum_of_sources"),
}


def _is_output(text: Text) -> bool:
    return _SEQUENTIAL.search(text.raw) is not None or "=== LATENCY MODE" in text.raw


def _read(text: Text) -> Iterator[Reading]:
    check_end(text)
    yield Reading(list(rate_facts(text, "p2pmark", _graphs(text.clean_lines))))


def _graphs(raw_lines: Sequence[str]) -> list[MeasuredGraph]:
    """Return the copies between GPUs of p2pmark's bandwidth mode.

    Versions before March 2026 read from the peers, later versions write to them and also measure a ring (p2pmark.cu of
    lukealonso/p2pmark at 3c39f36d and 3ac174be).
    """
    lines = [line.strip() for line in raw_lines]
    counted = next((match for line in lines if (match := _COUNT.fullmatch(line))), None)
    if sum(_SEQUENTIAL.fullmatch(line) is not None for line in lines) > 1:
        raise ValueError("has several matrices of sequential copies, expected the output of one run")
    heading, sequential = _section(lines, _SEQUENTIAL)
    # Without its first lines, the output has as many GPUs as the matrix of sequential copies has rows.
    rows = sum(_ROW.fullmatch(line) is not None for line in sequential)
    count = rows if counted is None else min(int(counted[1]), _MOST_GPUS)
    if not heading or not count:
        raise ValueError("has no copies in GB/s, expected the output of the bandwidth mode (default of p2pmark)")
    gpus = [str(number) for number in range(count)]
    graphs = [*_alone(sequential, gpus)]
    readers = ((_STAGGERED, _staggered), (_SINGLE, _one_and_all), (_RING, _ring), (_ALL, _all_and_all))
    for title, read in readers:
        printed, section = _section(lines, title)
        if printed:
            graphs += read(section, gpus, "writes" if "read" not in printed else "reads")
    return graphs


def _section(lines: list[str], title: re.Pattern[str]) -> tuple[str, list[str]]:
    """Return a title as printed, and the lines below it up to the next title; empty if the output has none."""
    place = next((number for number, line in enumerate(lines) if title.fullmatch(line)), None)
    if place is None:
        return "", []
    below = lines[place + 1 :]
    end = next((number for number, line in enumerate(below) if line.startswith("===")), len(below))
    return lines[place], below[:end]


def _alone(lines: list[str], gpus: list[str]) -> Iterator[MeasuredGraph]:
    matches = [row for line in lines if (row := _ROW.fullmatch(line))]
    rows = {row[1]: row[2].split() for row in matches}
    if len(rows) < len(matches):
        raise ValueError("a row of the sequential copies is a duplicate")
    for source in gpus:
        rates = rows.get(source, [])
        if len(rates) != len(gpus) or rates[int(source)] != "-":
            raise ValueError(
                f"row 'GPU {source}:' of the sequential copies has {len(rates)} values, expected {len(gpus)}"
            )
        for target, rate in zip(gpus, rates, strict=True):
            if target != source:
                yield MeasuredGraph(
                    f"{source} to {target} alone", ((source, target),), float(rate) * 1e9, "independent"
                )


def _staggered(lines: list[str], gpus: list[str], kind: str) -> Iterator[MeasuredGraph]:
    rounds = [match for line in lines if (match := _ROUND.fullmatch(line))]
    distances = [int(match[1]) for match in rounds]
    if distances != list(range(1, len(gpus))):
        raise ValueError(f"staggered {kind} have {len(rounds)} complete rounds, expected +1 to +{len(gpus) - 1}")
    for match in rounds:
        pairs = _PAIR.findall(match[2])
        if [active for active, _, _ in pairs] != gpus or {peer for _, _, peer in pairs} != set(gpus):
            raise ValueError(f"round +{match[1]} of the staggered {kind} does not name each of {len(gpus)} GPUs")
        flows = tuple((active, peer) if arrow == "->" else (peer, active) for active, arrow, peer in pairs)
        # p2pmark sums the rates that the GPUs reached until their respective completion times.
        total = float(match[4])
        if abs(float(match[3]) * len(gpus) - total) > _ROUNDING * (len(gpus) + 1):
            raise ValueError(f"round +{match[1]} has an average of {match[3]} GB/s, but a total of {total:g}")
        yield MeasuredGraph(
            f"staggered {kind}, distance {match[1]}", flows, total * 1e9, f"unordered_{kind}", statistic="sum_of_copies"
        )


def _one_and_all(lines: list[str], gpus: list[str], kind: str) -> Iterator[MeasuredGraph]:
    rates = {match[1]: float(match[2]) for line in lines if (match := _ACTIVE.fullmatch(line))}
    if list(rates) != gpus or len(rates) < sum(bool(_ACTIVE.fullmatch(line)) for line in lines):
        raise ValueError(f"{kind} by a single GPU have {len(rates)} complete rows, expected {len(gpus)}")
    for active, rate in rates.items():
        name = f"{active} reads from all" if kind == "reads" else f"{active} writes to all"
        yield MeasuredGraph(name, _copies_of(active, gpus, kind), rate * 1e9, f"unordered_{kind}")


def _copies_of(active: str, gpus: list[str], kind: str) -> tuple[tuple[str, str], ...]:
    """Return the copies of a GPU from or to all others, in the order of issue."""
    after = gpus[int(active) + 1 :] + gpus[: int(active)]
    return tuple((peer, active) if kind == "reads" else (active, peer) for peer in after)


def _ring(lines: list[str], gpus: list[str], kind: str) -> Iterator[MeasuredGraph]:
    matches = [match for line in lines if (match := _NEXT.fullmatch(line))]
    flows = tuple((match[1], match[2]) for match in matches)
    if flows != tuple(zip(gpus, [*gpus[1:], gpus[0]], strict=True)):
        raise ValueError(f"the ring has {len(flows)} complete rows in order, expected {len(gpus)}")
    total = _checked_total("the ring", lines, [float(match[3]) for match in matches])
    yield MeasuredGraph("ring", flows, total * 1e9, f"unordered_{kind}", statistic="sum_of_copies")


def _all_and_all(lines: list[str], gpus: list[str], kind: str) -> Iterator[MeasuredGraph]:
    rates = [float(match[2]) for line in lines if (match := _ONE.fullmatch(line))]
    if len(rates) != len(gpus):
        raise ValueError(f"{kind} by all GPUs have {len(rates)} complete rows, expected {len(gpus)} and a total")
    total = _checked_total(f"{kind} by all GPUs", lines, rates)
    flows = tuple(flow for active in gpus for flow in _copies_of(active, gpus, kind))
    name, statistic = _ALL_NAMES[kind]
    yield MeasuredGraph(name, flows, total * 1e9, f"unordered_{kind}", statistic=statistic)


def _checked_total(name: str, lines: list[str], rates: list[float]) -> float:
    """Return the printed total of a section, which must be the sum of its rates."""
    total = next((float(match[1]) for line in lines if (match := _TOTAL.fullmatch(line))), None)
    if total is None:
        raise ValueError(f"{name} have {len(rates)} complete rows, expected {len(rates)} and a total")
    if abs(sum(rates) - total) > _ROUNDING * (len(rates) + 1):
        raise ValueError(f"the total of {name} is {total:g} GB/s, but the rates sum to {sum(rates):g}")
    return total


FORMAT = Format(
    "p2pmark",
    Content.COPIES,
    "p2pmark > p2pmark.txt",
    "=== Sequential P2P bandwidth (GB/s) ===",
    _is_output,
    _read,
    "p2pmark.txt",
    versions="copies that read (until March 2026) and that write (since then), in all its tests",
)
