"""Reader for the output of p2pmark."""

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
#: Largest number of GPUs that p2pmark uses.
_MOST_GPUS = 8
_ROW = re.compile(r"GPU (\d+):((?:\s+(?:-|[\d.]+))+)")
_ROUND = re.compile(r"\+(\d+)\s+((?:\d+<-\d+\s+)+)([\d.]+) avg\s+([\d.]+) total")
_READER = re.compile(r"GPU (\d+) reads from all peers: ([\d.]+) GB/s")
_ONE = re.compile(r"GPU (\d+): ([\d.]+) GB/s")
_TOTAL = re.compile(r"Total system bandwidth: ([\d.]+) GB/s")
#: Rounding error of printed rates in GB/s: they have two decimals.
_ROUNDING = 0.005


def is_p2pmark_output(text: str) -> bool:
    """Return whether a text is the output of any p2pmark mode."""
    return _SEQUENTIAL in text or "=== LATENCY MODE" in text


def read_p2pmark_output(text: str) -> list[MeasuredGraph]:
    """Read the copies between GPUs from the output of p2pmark's bandwidth mode.

    Parameters
    ----------
    text : str
        Output of p2pmark.

    Returns
    -------
    list of MeasuredGraph
        Isolated copies, one graph per distance of the staggered reads, one graph per single reader, and one graph in
        which all GPUs read from all others. Concurrent reads have the program ``unordered_reads``.

    Raises
    ------
    ValueError
        If the output is of another mode or is damaged.

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
        raise ValueError("has no copies in GB/s, expected the output of the bandwidth mode (default of p2pmark)")
    gpus = [str(number) for number in range(min(int(counted[1]), _MOST_GPUS))]
    graphs = [*_alone(_section(lines, _SEQUENTIAL), gpus), *_staggered(_section(lines, _STAGGERED), gpus)]
    single = next((line for line in lines if _SINGLE.fullmatch(line)), None)
    if single is not None:
        graphs += _single_readers(_section(lines, single), gpus)
    if _ALL in lines:
        graphs.append(_all_read(_section(lines, _ALL), gpus))
    return graphs


def _section(lines: list[str], title: str) -> list[str]:
    """Return the lines below a title, up to the next title."""
    begin = lines.index(title) + 1 if title in lines else len(lines)
    end = next((number for number in range(begin, len(lines)) if lines[number].startswith("===")), len(lines))
    return lines[begin:end]


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


def _staggered(lines: list[str], gpus: list[str]) -> Iterator[MeasuredGraph]:
    rounds = [match for line in lines if (match := _ROUND.fullmatch(line))]
    distances = [int(match[1]) for match in rounds]
    if distances != list(range(1, len(gpus))):
        raise ValueError(f"staggered reads have {len(rounds)} complete rounds, expected +1 to +{len(gpus) - 1}")
    for match in rounds:
        pairs = [pair.split("<-") for pair in match[2].split()]
        if [reader for reader, _ in pairs] != gpus or {peer for _, peer in pairs} != set(gpus):
            raise ValueError(f"round +{match[1]} of the staggered reads does not name each of {len(gpus)} GPUs")
        flows = tuple((peer, reader) for reader, peer in pairs)
        # p2pmark sums the rates that the GPUs reached until their respective completion times.
        total = float(match[4])
        if abs(float(match[3]) * len(gpus) - total) > _ROUNDING * (len(gpus) + 1):
            raise ValueError(f"round +{match[1]} has an average of {match[3]} GB/s, but a total of {total:g}")
        yield MeasuredGraph(
            f"staggered reads, distance {match[1]}", flows, total * 1e9, "unordered_reads", statistic="sum_of_copies"
        )


def _single_readers(lines: list[str], gpus: list[str]) -> Iterator[MeasuredGraph]:
    rates = {match[1]: float(match[2]) for line in lines if (match := _READER.fullmatch(line))}
    if list(rates) != gpus or len(rates) < sum(bool(_READER.fullmatch(line)) for line in lines):
        raise ValueError(f"reads by a single GPU have {len(rates)} complete rows, expected {len(gpus)}")
    for reader, rate in rates.items():
        yield MeasuredGraph(f"{reader} reads from all", _reads(reader, gpus), rate * 1e9, "unordered_reads")


def _reads(reader: str, gpus: list[str]) -> tuple[tuple[str, str], ...]:
    """Return the reads of a GPU from all others, in the order of issue."""
    after = gpus[int(reader) + 1 :] + gpus[: int(reader)]
    return tuple((peer, reader) for peer in after)


def _all_read(lines: list[str], gpus: list[str]) -> MeasuredGraph:
    rates = [float(match[2]) for line in lines if (match := _ONE.fullmatch(line))]
    total = next((float(match[1]) for line in lines if (match := _TOTAL.fullmatch(line))), None)
    if len(rates) != len(gpus) or total is None:
        raise ValueError(f"reads by all GPUs have {len(rates)} complete rows, expected {len(gpus)} and a total")
    if abs(sum(rates) - total) > _ROUNDING * (len(rates) + 1):
        raise ValueError(f"the total of all GPUs is {total:g} GB/s, but their rates sum to {sum(rates):g}")
    flows = tuple(flow for reader in gpus for flow in _reads(reader, gpus))
    return MeasuredGraph("all read from all", flows, total * 1e9, "unordered_reads", statistic="sum_of_targets")
