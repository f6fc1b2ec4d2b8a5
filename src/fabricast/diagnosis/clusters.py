"""Tables of nccl-tests of NVLink nodes and clusters, compared with public machines of the same class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fabricast.collectives.reference import Reference, gpu_family, has_cards, is_of_network, network_of, reference_of
from fabricast.core.errors import InputError
from fabricast.core.facts import Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.number_text import duration_text, size_text
from fabricast.diagnosis.verdict import LACKS_TOPOLOGY
from fabricast.diagnosis.weights import CONTRADICTION, SYMPTOM
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.nccl.costs import Operation
from fabricast.nccl.records import NcclLog, NcclTestsTable

#: Ratio to the slowest public machine above which a table is slower, and to its latency.
_SLOWER, LATE = 1.15, 2.4
_SPECIFIC = CONTRADICTION + 0.1
#: Number of public machines of several nodes below which unknown cards leave a doubt, and ratio of the largest size to
#: that of public machines above which they say nothing about it.
FEW_MACHINES, _FARTHEST = 3, 64.0
#: Ratio of the slowest public rate of a size to a rate up to which this is as fast.
_NEAR = 1.05
#: Bus bandwidth in GB/s below which programs print 0.
_LEAST_RATE = 0.05
#: Size in bytes from which rates are compared: smaller ones print few digits, and their times say more.
OF_RATES = 2.0**20
#: Sizes in bytes of large operations, whose time the rates of links and cards decide, and of small ones.
LARGE, _SMALL = 2.0**26, 32768.0
#: Shares of the rate with NVLink SHARP: rings reach the range between them.
_RINGS, _BELOW = 0.68, 0.85
LATENCY_REMEDY = (
    "check automatic NUMA balancing ('sysctl kernel.numa_balancing', expected 0), the binding of processes to cores, "
    "power saving of the processor, and NCCL_PROTO"
)
#: Families whose nodes of eight GPUs have NVLink SHARP.
_NVLS = ("H100", "H200", "B200", "B300")
#: Ratio to the lowest rate of public machines that no other cards of nodes with such GPUs explain.
_FAR = 4.5
#: Ratio to it that half of their cards explain.
_HALF = 2.2
_NVLS_REMEDY = "NCCL 2.17 or newer, the fabric manager of the driver's version, no NCCL_ALGO"
_NETWORK_OF_LOG = {"IB": "InfiniBand or RoCE", "Socket": "Ethernet"}


@dataclass(frozen=True)
class ComparedTable:
    """Table compared with public machines.

    Parameters
    ----------
    text : str
        What was measured and what public machines reach.
    is_slower : bool
        Whether large sizes are slower than on all public machines of the class.
    is_neighbour : bool
        Whether the public machines are of another class.
    findings : tuple of Finding
        Causes.
    notes : tuple of str
        What explains the numbers, no causes.
    is_doubtful : bool
        Whether the times are far from the forecast, but cards that are assumed, or other machines, would explain it.
    """

    text: str
    is_slower: bool = False
    is_neighbour: bool = False
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    is_doubtful: bool = False


def compare_with_public(fact: Fact, facts: Facts) -> ComparedTable:
    """Compare a table with the public machines of its class.

    Raises
    ------
    InputError
        If the table names no operation, ranks or GPU, or no public machine has such a GPU.
    """
    table: NcclTestsTable = fact.value
    if table.operation is None or table.ranks is None or not table.gpus:
        raise InputError("does not name operation, ranks and GPUs")
    log = log_of(fact, facts)
    nodes = max(table.hosts, 1 if log is None or log.ranks != table.ranks else log.nodes)
    network = None if log is None else _network(log)
    sizes = np.array([row.size_bytes for row in table.rows], dtype=float)
    time_us = np.array([row.time_s for row in table.rows]) * 1e6
    if not sizes.size:
        raise InputError("has no valid row")
    found = reference_of(table.gpus[0], table.ranks // nodes, nodes, table.operation, sizes.tolist(), network=network)
    cards = None if log is None or nodes == 1 else log.usual_cards
    _check_alike(found, nodes, network, cards)
    place = _place(found, sizes)
    if place is None:
        raise InputError(f"has sizes that no public machine of the class {found.words} has")
    text = _text(table, found, place)
    family = gpu_family(table.gpus[0])
    slow, late = [*_slow(fact, found, sizes, time_us, text)], [*_late(fact, found, sizes, time_us)]
    # Of clusters, a forecast says more than few public ones.
    is_neighbour = found.is_neighbour or (nodes > 1 and len(found.machines) < FEW_MACHINES)
    if is_neighbour:
        slow, late = [], []
    environment = {} if log is None else log.environment
    nvls = [*_nvls(fact, found, family, log, sizes)]
    # NVLink SHARP that is not used explains why large sizes are slower.
    findings = [*(nvls or slow), *late]
    notes = tuple(_above_links(table, family, nodes, environment))
    row = found.table.iloc[place]
    reached, least = table.rows[place].bus_bytes_per_s / 1e9, float(row["lowest_gb_per_s"])
    is_rate = table.rows[place].size_bytes >= OF_RATES
    if is_rate and not (slow or nvls or is_neighbour) and reached < least / _NEAR:
        below = f"{text}: {100 * (1 - reached / least):.0f} % below the slowest of them at this size"
        return ComparedTable(below, findings=tuple(late), notes=notes, is_doubtful=True)
    is_far = is_rate and reached < least / _FAR
    is_half = is_rate and reached > least / _HALF
    # Few public machines prove nothing, and with half of their cards a cluster has half of their rate.
    is_doubtful = not is_far and (is_half or len(found.machines) < FEW_MACHINES)
    if slow and not nvls and nodes > 1 and cards is None and is_doubtful:
        text += ", whose cards may differ"
        text += ": add a log with NCCL_DEBUG=INFO, or 'ibstat' of a host" if log is None else ""
        return ComparedTable(text, findings=tuple(late), notes=notes, is_doubtful=True)
    return ComparedTable(text, bool(slow or nvls), is_neighbour, tuple(findings), notes)


def _check_alike(found: Reference, nodes: int, network: str | None, cards: int | None) -> None:
    """Raise an error if the public machines are one node and the table is not, or have other networks or cards."""
    if (found.nodes == 1) != (nodes == 1):
        raise InputError(f"{LACKS_TOPOLOGY}, and no public machine is of its class")
    if nodes > 1 and not is_of_network(found.machines, network, None):
        raise InputError(f"is over {network}, and the public machines of the class {found.words} are not")
    if cards is not None and not has_cards(found.machines, cards):
        raise InputError(f"has {cards} cards in each node, and the public machines of the class {found.words} have not")


def run_of(fact: Fact, facts: Facts) -> Fact | None:
    """Return the statements of NCCL in the file of a table, or the only ones of other files."""
    runs = list(facts.of(Quantity.NCCL_RUN))
    same = [run for run in runs if run.place.path == fact.place.path]
    fitting = [run for run in runs if run.value.ranks == fact.value.ranks]
    return same[0] if same else fitting[0] if len(fitting) == 1 else None


def log_of(fact: Fact, facts: Facts) -> NcclLog | None:
    """Return the log of `run_of`."""
    run = run_of(fact, facts)
    return None if run is None else run.value


def _network(log: NcclLog) -> str | None:
    """Return the kind of network that a log names."""
    if log.network in _NETWORK_OF_LOG:
        return _NETWORK_OF_LOG[log.network]
    return network_of(log.network) or None


def _place(found: Reference, sizes: np.ndarray) -> int | None:
    """Return the position of the largest size that public machines have."""
    known = np.flatnonzero((found.table["machines"].to_numpy() > 0) & (sizes >= sizes.max() / _FARTHEST))
    return int(known[np.argmax(sizes[known])]) if known.size else None


def _text(table: NcclTestsTable, found: Reference, place: int) -> str:
    row = found.table.iloc[place]
    machines = int(row["machines"])
    count = "1 public machine" if machines == 1 else f"{machines} public machines"
    measured = table.rows[place].bus_bytes_per_s / 1e9
    reach = (
        f"{row['lowest_gb_per_s']:.3g} to {row['highest_gb_per_s']:.3g}"
        if machines > 1
        else f"{row['bus_gb_per_s']:.3g}"
    )
    near = "the nearest class, " if found.is_neighbour else ""
    size = size_text(float(row["size_bytes"]))
    if measured < _LEAST_RATE:
        return f"{table.operation} of {size} lasts {duration_text(table.rows[place].time_s)}"
    return (
        f"{table.operation} of {size} reaches {measured:.3g} GB/s of bus bandwidth, {reach} GB/s on {count} "
        f"({near}{found.words})"
    )


def _links_gb_per_s(gpu: str) -> float:
    """Return the rate of all NVLinks of a GPU in GB/s; infinite for an unknown model, or one without NVLink."""
    model = gpu_model(gpu) if is_known_gpu(gpu) else None
    if model is None or model.nvlink_bytes_per_s is None:
        return np.inf
    return model.most_nvlinks * model.nvlink_bytes_per_s / 1e9


def _slow(fact: Fact, found: Reference, sizes: np.ndarray, time_us: np.ndarray, compared: str) -> Iterator[Finding]:
    """Find large sizes that are slower than on all public machines of the class."""
    longest = found.table["longest_us"].to_numpy()
    is_large = (sizes >= min(LARGE, sizes.max())) & (sizes > _SMALL) & np.isfinite(longest)
    if is_large.any():
        ratio = float(np.median(time_us[is_large] / longest[is_large]))
        if ratio > _SLOWER:
            text = f"{compared}: sizes from 64 MiB last {ratio:.2f} times as long as on the slowest of them (median)"
            remedy = (
                "'nvidia-smi -q' (throttling, errors) and 'nvidia-smi nvlink -s'; then variables such as NCCL_ALGO and "
                "NCCL_NVLS_ENABLE"
            )
            if fact.value.hosts > 1:
                remedy = (
                    "a log with NCCL_DEBUG=INFO states transports, GPUDirect and the network; compare NCCL_ALGO and "
                )
                remedy += "NCCL_PROTO, then link widths of cards and GPUs ('lspci -vv')"
            yield Finding("slower_than_public_machines", text, remedy, SYMPTOM, origin=str(fact.place))


def _late(fact: Fact, found: Reference, sizes: np.ndarray, time_us: np.ndarray) -> Iterator[Finding]:
    """Find small sizes whose latency is far above that of public machines."""
    longest = found.table["longest_us"].to_numpy()
    is_small = (sizes <= _SMALL) & np.isfinite(longest)
    if is_small.any():
        ratio = float(np.median(time_us[is_small] / longest[is_small]))
        if ratio > LATE:
            text = f"sizes up to 32 KiB last {ratio:.2f} times as long as on the slowest public machine ({found.words})"
            yield Finding("late_small_sizes", text, LATENCY_REMEDY, SYMPTOM - 0.1, origin=str(fact.place))


def _nvls(fact: Fact, found: Reference, family: str, log: NcclLog | None, sizes: np.ndarray) -> Iterator[Finding]:
    """Find nodes with NVLink SHARP whose all_reduce has the rate of rings."""
    table: NcclTestsTable = fact.value
    is_node = found.operation is Operation.ALL_REDUCE and table.hosts <= 1 and table.ranks == 8
    if not is_node or family not in _NVLS:
        return
    environment: Mapping[str, str] = {} if log is None else log.environment
    chosen = environment.get("NCCL_ALGO", "").lower()
    large = found.table[(sizes >= LARGE) & (found.table["machines"].to_numpy() > 0)]
    if large.empty:
        return
    row = max(table.rows, key=lambda one: one.size_bytes)
    best = float(large["highest_gb_per_s"].max())
    reached = max(one.bus_bytes_per_s for one in table.rows) / 1e9
    is_excluded = (chosen.startswith("^") == ("nvls" in chosen)) if chosen else False
    if reached > _BELOW * best:
        return
    if is_excluded or environment.get("NCCL_NVLS_ENABLE") == "0":
        name = f"NCCL_ALGO={environment['NCCL_ALGO']}" if is_excluded else "NCCL_NVLS_ENABLE=0"
        line = None if log is None else log.lines.get(name.partition("=")[0])
        text = f"{name} is set, so NVLink SHARP (NVLS) is not used: {reached:.3g} GB/s, {best:.3g} GB/s with it"
        remedy = f"unset {name.partition('=')[0]}"
        yield Finding("nvls_excluded", text, remedy, _SPECIFIC, origin=f"{fact.place.path}:{line or row.line}")
    elif log is not None and "no NVLS" in log.lines:
        text = f"NCCL states that NVLink SHARP (NVLS) is not available: {reached:.3g} GB/s, {best:.3g} GB/s with it"
        yield Finding("nvls_unused", text, _NVLS_REMEDY, _SPECIFIC, origin=f"{fact.place.path}:{log.lines['no NVLS']}")
    elif reached > _RINGS * best and (log is None or "NVLS" not in log.lines):
        text = f"NVLink SHARP (NVLS) is probably not in use: {reached:.3g} GB/s is the rate of rings, {best:.3g} GB/s "
        text += "with it"
        remedy = f"{_NVLS_REMEDY}; NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NVLS states why"
        yield Finding("nvls_unused", text, remedy, _SPECIFIC, origin=f"{fact.place.path}:{row.line}")


def _above_links(table: NcclTestsTable, family: str, nodes: int, environment: Mapping[str, str]) -> Iterator[str]:
    """Explain bus bandwidths that are no rate of a link."""
    reached = max(row.bus_bytes_per_s for row in table.rows) / 1e9
    chosen = environment.get("NCCL_ALGO", "").lower()
    if table.operation is Operation.ALL_REDUCE and nodes == 2 and (reached > 50 or chosen == "tree"):
        yield (
            "bus bandwidth on two nodes is no rate of a link: trees send half as many bytes over the network as it "
            "assumes; NCCL_ALGO=Ring tests the network cards"
        )
    elif table.operation is Operation.ALL_REDUCE and nodes == 1 and reached > _links_gb_per_s(table.gpus[0]):
        yield "bus bandwidth above the NVLinks is no rate of a link: NVLink SHARP moves fewer bytes than it assumes"
