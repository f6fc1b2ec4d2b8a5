"""Copies that p2pmark printed: alone, by distance, of a single reader, and of all GPUs at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.pcie.measurements.measured_graph import MeasuredGraph

__all__ = ["is_p2pmark_output", "read_p2pmark_output"]

_SEQUENTIAL = "=== Sequential P2P bandwidth (GB/s) ==="
_STAGGERED = "=== Topology probe: staggered reads by peer distance (GB/s) ==="
_SINGLE = re.compile(r"=== Single reader, all \d+ peers concurrent \(GB/s\) ===")
_ALL = "=== All GPUs read all peers simultaneously (GB/s) ==="
_COUNT = re.compile(r"Found (\d+) GPUs")
#: The program takes part with at most so many.
_MOST_GPUS = 8
_ROW = re.compile(r"GPU (\d+):((?:\s+(?:-|[\d.]+))+)")
_ROUND = re.compile(r"\+(\d+)\s+((?:\d+<-\d+\s+)+)([\d.]+) avg\s+([\d.]+) total")
_READER = re.compile(r"GPU (\d+) reads from all peers: ([\d.]+) GB/s")
_ONE = re.compile(r"GPU (\d+): ([\d.]+) GB/s")
_TOTAL = re.compile(r"Total system bandwidth: ([\d.]+) GB/s")
#: Rates have two digits after the point.
_ROUNDING = 0.005


def is_p2pmark_output(text: str) -> bool:
    """Return whether a text is what p2pmark printed in any of its modes."""
    return _SEQUENTIAL in text or "=== LATENCY MODE" in text


def read_p2pmark_output(text: str) -> list[MeasuredGraph]:
    """Return the copies between GPUs of p2pmark's bandwidth mode.

    Parameters
    ----------
    text : str
        What p2pmark printed.

    Returns
    -------
    list of MeasuredGraph
        Copies alone; one graph a distance of the staggered reads; one a single reader; all GPUs that read from all
        others. Reads together are those of the program ``unordered_reads``.

    Raises
    ------
    ValueError
        If the text is of another mode, or damaged.

    References
    ----------
    Output of lukealonso/p2pmark, p2pmark.cu at 3c39f36d.

    Examples
    --------
    >>> text = '''Found 2 GPUs
    ... === Sequential P2P bandwidth (GB/s) ===
    ... Dst->  GPU0     GPU1
    ... GPU 0:     -      54.30
    ... GPU 1:   54.31       -
    ... === Topology probe: staggered reads by peer distance (GB/s) ===
    ... +1  0<-1 1<-0   52.10 avg   104.20 total
    ... '''
    >>> [(one.name, one.flows, one.total_bytes_per_s / 1e9) for one in read_p2pmark_output(text)][-1]
    ('staggered reads, distance 1', (('1', '0'), ('0', '1')), 104.2)
    """
    lines = [line.strip() for line in text.splitlines()]
    counted = next((match for line in lines if (match := _COUNT.fullmatch(line))), None)
    if counted is None or _SEQUENTIAL not in lines:
        raise ValueError("has no copies in GB/s; expected the output of its bandwidth mode, which is the default")
    gpus = [str(number) for number in range(min(int(counted[1]), _MOST_GPUS))]
    found = [*_alone(_section(lines, _SEQUENTIAL), gpus), *_staggered(_section(lines, _STAGGERED), gpus)]
    single = next((line for line in lines if _SINGLE.fullmatch(line)), None)
    if single is not None:
        found += _single_readers(_section(lines, single), gpus)
    if _ALL in lines:
        found.append(_all_read(_section(lines, _ALL), gpus))
    return found


def _section(lines: list[str], title: str) -> list[str]:
    """Return the lines below a title, up to the next one."""
    begin = lines.index(title) + 1 if title in lines else len(lines)
    end = next((place for place in range(begin, len(lines)) if lines[place].startswith("===")), len(lines))
    return lines[begin:end]


def _alone(lines: list[str], gpus: list[str]) -> Iterator[MeasuredGraph]:
    found = [row for line in lines if (row := _ROW.fullmatch(line))]
    rows = {row[1]: row[2].split() for row in found}
    if len(rows) < len(found):
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


def _staggered(lines: list[str], gpus: list[str]) -> Iterator[MeasuredGraph]:
    rounds = [found for line in lines if (found := _ROUND.fullmatch(line))]
    distances = [int(found[1]) for found in rounds]
    if distances != list(range(1, len(gpus))):
        raise ValueError(f"{len(rounds)} rounds of staggered reads are whole, expected +1 to +{len(gpus) - 1}")
    for found in rounds:
        pairs = [pair.split("<-") for pair in found[2].split()]
        if [reader for reader, _ in pairs] != gpus or {peer for _, peer in pairs} != set(gpus):
            raise ValueError(f"round +{found[1]} of the staggered reads does not name each of {len(gpus)} GPUs")
        flows = tuple((peer, reader) for reader, peer in pairs)
        # The program adds what each GPU reached until its own end.
        total = float(found[4])
        if abs(float(found[3]) * len(gpus) - total) > _ROUNDING * (len(gpus) + 1):
            raise ValueError(f"round +{found[1]} has an average of {found[3]} GB/s, but a total of {total:g}")
        yield MeasuredGraph(
            f"staggered reads, distance {found[1]}", flows, total * 1e9, "unordered_reads", rates_summed=True
        )


def _single_readers(lines: list[str], gpus: list[str]) -> Iterator[MeasuredGraph]:
    rates = {found[1]: float(found[2]) for line in lines if (found := _READER.fullmatch(line))}
    if list(rates) != gpus or len(rates) < sum(bool(_READER.fullmatch(line)) for line in lines):
        raise ValueError(f"{len(rates)} single readers are whole, expected {len(gpus)}")
    for reader, rate in rates.items():
        yield MeasuredGraph(f"{reader} reads from all", _reads(reader, gpus), rate * 1e9, "unordered_reads")


def _reads(reader: str, gpus: list[str]) -> tuple[tuple[str, str], ...]:
    """Return reads from all others, in the order in which the program issues them."""
    after = gpus[int(reader) + 1 :] + gpus[: int(reader)]
    return tuple((peer, reader) for peer in after)


def _all_read(lines: list[str], gpus: list[str]) -> MeasuredGraph:
    rates = [float(found[2]) for line in lines if (found := _ONE.fullmatch(line))]
    total = next((float(found[1]) for line in lines if (found := _TOTAL.fullmatch(line))), None)
    if len(rates) != len(gpus) or total is None:
        raise ValueError(f"{len(rates)} GPUs read from all others and a total, expected {len(gpus)} and a total")
    if abs(sum(rates) - total) > _ROUNDING * (len(rates) + 1):
        raise ValueError(f"the total of all GPUs is {total:g} GB/s, but their rates sum to {sum(rates):g}")
    flows = tuple(flow for reader in gpus for flow in _reads(reader, gpus))
    return MeasuredGraph("all read from all", flows, total * 1e9, "unordered_reads")
