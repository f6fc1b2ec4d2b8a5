"""Diagnosis of a collective operation: causes of lost time, each with evidence, a setting and its forecast gain."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fabricast.collectives.alternatives import times_with
from fabricast.collectives.forecast import CollectiveForecast
from fabricast.collectives.model import CollectiveModel
from fabricast.collectives.step_rates import Transport, copies_of
from fabricast.core.arguments import with_checked_types
from fabricast.core.findings import Finding
from fabricast.core.number_text import size_text
from fabricast.core.short_text import listed
from fabricast.core.warnings import WarningCode
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.machine.machine import Machine
from fabricast.machine.staging import StagedRates
from fabricast.nccl.costs import Algorithm, Operation, Protocol
from fabricast.nccl.schedule import buffer_bytes
from fabricast.nccl.system import PathType
from fabricast.pcie.graphs.divided_writes import divided_writes
from fabricast.pcie.topology.tree import PcieTree

#: State of machines with GeForce cards, as their model implies.
STOCK_DRIVER = (
    "for GPUs of this model, NVIDIA's driver permits no direct copies over PCIe; a modified driver changes that, "
    "settings do not"
)
_MODIFIED_DRIVER = "only a modified driver permits direct copies between GPUs of this model; no setting does"

#: Gain above which a change is worth a finding, and deviation of a log from the forecast above which it is one.
_GAIN, _SLOWER = 1.05, 1.2
#: Ratio of a measured time to the forecast below which the log does not use the assumed transports.
_FASTER = 0.75
#: Share of the best rate of a path class below which measured pairs contradict the tree.
_SLOW_PAIR = 0.7
_MOST_NAMES = 8
_MEBIBYTE, _LARGE = 2.0**20, 2.0**26


class Cause(StrEnum):
    """Stable identifier of a cause."""

    HOST_MEMORY_TRANSPORT = "host_memory_transport"
    NO_GRAPH_FOUND = "no_graph_found"
    PROTOCOL_CHOICE = "protocol_choice"
    RING_ORDER = "ring_order"
    SHARED_LINK = "shared_link"
    SLOW_PAIRS = "slow_pairs"
    DIVIDED_WRITES = "divided_writes"
    BETWEEN_SOCKETS = "between_sockets"
    HOST_MEMORY_RATE = "host_memory_rate"
    ROOT_PORT_COPIES = "root_port_copies"
    CHUNK_SIZE = "chunk_size"
    SLOWER_THAN_FORECAST = "slower_than_forecast"
    FASTER_THAN_FORECAST = "faster_than_forecast"
    MEASUREMENTS_CONTRADICT = "measurements_contradict"


@with_checked_types
def diagnose_collective(forecast: CollectiveForecast) -> list[Finding]:
    """Return the causes of lost time, largest gain first."""
    case = _Case(forecast)
    rules: Sequence[Callable[[_Case], Iterator[Finding]]] = (
        _transport,
        _choice,
        _order,
        _slow_pairs,
        _divided,
        _sockets,
        _host_rate,
        _root_ports,
        _shared,
        _chunk,
        _contradictions,
        _slower,
        _faster,
    )
    found = [finding for rule in rules for finding in rule(case)]
    return sorted(found, key=lambda finding: -finding.rank)


def has_stock_driver(machine: Machine) -> bool:
    """Return whether all GPUs are of models whose unmodified driver permits no direct copies."""
    known = [gpu_model(name) for name in machine.models.values() if is_known_gpu(name)]
    return bool(known) and not any(model.has_stock_peer_access for model in known)


class _Case:
    """A forecast with its model and sizes."""

    def __init__(self, forecast: CollectiveForecast) -> None:
        self.forecast, self.communicator, self.plan = forecast, forecast.communicator, forecast.plan
        self.model = CollectiveModel(self.communicator, forecast.operation, self.plan)
        self.size = forecast.table["size_bytes"].to_numpy(dtype=np.float64)
        self.time_s = forecast.table["time_us"].to_numpy() * 1e-6

    @property
    def now_s(self) -> NDArray[np.float64]:
        """Measured time of each size in s where a log has it, otherwise the forecast."""
        if "measured_us" not in self.forecast.table:
            return self.time_s
        measured_s = self.forecast.table["measured_us"].to_numpy(dtype=np.float64) * 1e-6
        return np.where(np.isfinite(measured_s), measured_s, self.time_s)

    @property
    def everything(self) -> tuple[float, float]:
        """Range of all sizes."""
        return float(self.size[0]), float(self.size[-1])

    @property
    def is_faster(self) -> bool:
        """Whether a log is faster than the assumed hops through host memory permit for large sizes."""
        settings = self.communicator.settings
        is_stated = bool(self.plan.transports or settings.disabled_by or not settings.has_peer_access)
        if is_stated or not self.pairs_of(Transport.SHM):
            return False
        return self.measured_over_earliest < _FASTER

    @property
    def measured_over_earliest(self) -> float:
        """Median ratio of measured times of large sizes to the least forecast time; NaN without a log."""
        table = self.forecast.table[self.size >= _MEBIBYTE]
        if "measured_over_forecast" not in table or table.empty:
            return float("nan")
        least = table["earliest_us"] if "earliest_us" in table else table["time_us"]
        return float((table["measured_over_forecast"] * table["time_us"] / least).median())

    def pairs_of(self, transport: Transport) -> list[str]:
        """Return the hops of a transport as text."""
        return self.forecast.transports.get(transport.value, [])


def _listed(names: Sequence[str]) -> str:
    return listed(names, _MOST_NAMES, " ")


def _range(sizes: NDArray[np.float64]) -> str:
    if sizes.size == 1:
        return f"at {size_text(float(sizes[0]))}"
    return f"from {size_text(float(sizes[0]))} to {size_text(float(sizes[-1]))}"


def _transport(case: _Case) -> Iterator[Finding]:
    """Find hops through host memory although direct copies are possible."""
    through_host = case.pairs_of(Transport.SHM)
    communicator = case.communicator
    if not through_host or case.is_faster:
        return
    settings = replace(communicator.settings, p2p_level=PathType.SYS, has_peer_access=True, disabled_by="")
    other = replace(communicator, settings=settings)
    faster_s = times_with(case.forecast, other)
    # Measured times that exceed the forecast have another reason, which direct copies would not end.
    gains = np.minimum(case.now_s, case.time_s) / faster_s
    # Where a pair is slow, direct copies would be slow over the same link: their gain is unknown.
    gain = float("nan") if StagedRates(communicator.machine).slow_pairs else float(gains[-1])
    hops = [hop for hop in case.forecast.step.hops if hop.transport is Transport.SHM]
    # The classes of 'nvidia-smi topo -m': NCCL counts NODE as PHB.
    names = communicator.ranks
    kinds = sorted({communicator.tree.path_class(names[hop.source], names[hop.target]) for hop in hops})
    rule = "" if case.plan.transports or communicator.settings.disabled_by else "by NCCL's rules, "
    text = f"{rule}hops {_listed(through_host)} (path class {' and '.join(kinds)}) go through host memory"
    disabled_by = communicator.settings.disabled_by
    pairs = {(communicator.ranks[hop.source], communicator.ranks[hop.target]) for hop in hops}
    is_denied = pairs <= set(communicator.tree.staged_pairs) or has_stock_driver(communicator.machine)
    has_access = communicator.machine.has_direct_copies or not is_denied
    if disabled_by and has_access:
        text += f", because {disabled_by} is set"
        remedy = f"unset {disabled_by.partition('=')[0]}"
        plain = replace(communicator, settings=replace(communicator.settings, disabled_by="", has_peer_access=True))
        if any(plain.nccl.direct_type(hop.source, hop.target) > plain.nccl.farthest_p2p for hop in hops):
            # By its default, NCCL would not copy so far.
            remedy += " and set NCCL_P2P_LEVEL=SYS"
    elif disabled_by or not communicator.settings.has_peer_access:
        text += ", because the driver or the machine permits no direct copies between these GPUs"
        remedy = "enable direct copies (driver, IOMMU, virtual machine), then check with p2pBandwidthLatencyTest"
        if has_stock_driver(communicator.machine):
            remedy = _MODIFIED_DRIVER
    elif any(communicator.nccl.direct_type(hop.source, hop.target) <= communicator.nccl.farthest_p2p for hop in hops):
        text += f", although NCCL uses direct copies up to path type {communicator.nccl.farthest_p2p.name}"
        if communicator.machine.has_direct_copies:
            text += " and the machine copies directly: a setting or the container prevents them"
            remedy = "set NCCL_P2P_LEVEL=SYS, without NCCL_P2P_DISABLE; NCCL_DEBUG_SUBSYS=INIT,P2P states the reason"
        else:
            text += ": a setting, the driver or the machine prevents them"
            remedy = "unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL; 'nvidia-smi topo -p2p r' states what the driver "
            remedy += "permits; check IOMMU and ACS"
    else:
        text += ", although the topology permits direct copies: NCCL uses them up to path type "
        text += communicator.nccl.farthest_p2p.name
        remedy = "NCCL_P2P_LEVEL=SYS"
    if gain > _GAIN:
        text += f"; direct copies make large sizes {gain:.2f} times as fast in the forecast"
        if any(one.text.startswith("the processor is unknown") for one in communicator.warnings):
            text += ", if the processor is of AMD (state it: --cpu)"
        yield Finding(Cause.HOST_MEMORY_TRANSPORT, text, remedy, gain, case.everything)
    elif gain < 1 / _GAIN:
        text += f"; direct copies would be slower here (gain {gain:.2f})"
        remedy = "keep host memory; measure host memory rates"
        yield Finding(Cause.HOST_MEMORY_TRANSPORT, text, remedy, 1.0, case.everything)
    elif gain != gain:
        yield Finding(Cause.HOST_MEMORY_TRANSPORT, text, remedy, 1.0, case.everything)


def _choice(case: _Case) -> Iterator[Finding]:
    """Find sizes at which another protocol or algorithm is faster than that of NCCL."""
    table = case.forecast.table
    gain = float(table["gain"].max())
    if gain <= _GAIN:
        return
    row = table.iloc[int(table["gain"].argmax())]
    columns = ["protocol", "best_protocol", "best_algorithm"]
    is_same = (table[columns] == row[columns]).all(axis=1)
    sizes = case.size[((table["gain"] > _GAIN) & is_same).to_numpy()]
    setting = f"NCCL_PROTO={row['best_protocol'].upper()}"
    if row["best_algorithm"] != row["algorithm"]:
        setting += f" NCCL_ALGO={row['best_algorithm'].capitalize()}"
    if case.plan.rings.is_fallback and case.model.costs is not None:
        text = (
            "NCCL's search finds no ring that fits the bandwidth it assumes between sockets, and falls back to a "
            f"graph of {case.plan.rings.gb_per_s:g} GB/s; hence it uses {row['protocol']} {_range(sizes)}, where "
            f"{row['best_protocol']} is up to {gain:.2f} times as fast in the forecast; large sizes are not affected"
        )
        remedy = f"NCCL_GRAPH_FILE (--write-graph), a tuner file (--write-tuner), or {setting} for these sizes"
        yield Finding(Cause.NO_GRAPH_FOUND, text, remedy, gain, (float(sizes[0]), float(sizes[-1])))
        return
    uses = "NCCL uses" if int(row["size_bytes"]) in case.forecast.stated_sizes else "by its emulated choice, NCCL uses"
    text = (
        f"{uses} {row['algorithm']} {row['protocol']} {_range(sizes)}; {row['best_algorithm']} "
        f"{row['best_protocol']} is up to {gain:.2f} times as fast in the forecast"
    )
    if case.model.costs is None:
        setting = f"NCCL_P2P_LL_THRESHOLD={0 if row['best_protocol'] == Protocol.SIMPLE else 1 << 18}"
        remedy = setting
    else:
        remedy = f"a tuner file (--write-tuner), or {setting} for these sizes"
    yield Finding(Cause.PROTOCOL_CHOICE, text, remedy, gain, (float(sizes[0]), float(sizes[-1])))


def _order(case: _Case) -> Iterator[Finding]:
    """Find a ring order that is slower than the best one."""
    orders, gain = case.forecast.orders, case.forecast.gain_of_order
    if orders is None or gain <= _GAIN:
        return
    names = case.communicator.ranks
    best = " ".join(names[rank] for rank in orders.best)
    used = " ".join(names[rank] for rank in case.plan.orders[0])
    text = (
        f"the ring {used} waits at {case.forecast.bottleneck} (copies {_listed(case.forecast.shared_by)}); the order "
        f"{best} is {gain:.2f} times as fast for large sizes in the forecast"
    )
    yield Finding(Cause.RING_ORDER, text, "NCCL_GRAPH_FILE (--write-graph)", gain, case.everything)


def _slow_pairs(case: _Case) -> Iterator[Finding]:
    """Find measured pairs below a switch that do not reach the rate of its links."""
    communicator = case.communicator
    tree, raw = communicator.tree, communicator.tree.link_bytes_per_s
    rates = communicator.machine.rates
    if raw is None or communicator.machine.rates.measured_classes is None:
        return
    below = [
        f"{one}>{other}"
        for one in communicator.ranks
        for other in communicator.ranks
        if one != other and tree.path_class(one, other) in ("PIX", "PXB")
    ]
    reached = min(rates.one_way_bytes_per_s, rates.two_way_bytes_per_s)
    if below and reached < _SLOW_PAIR * raw:
        text = (
            f"copies below one switch ({_listed(below)}) reach {reached / 1e9:.3g} GB/s in each direction where the "
            f"links permit {raw / 1e9:.3g} GB/s: the measured pairs contradict the tree, for example because access "
            "control (ACS) or the IOMMU sends them through the root port"
        )
        remedy = "check ACSCtl in 'lspci -vvv' and the IOMMU; switch both off for peer copies"
        yield Finding(Cause.SLOW_PAIRS, text, remedy, 1.0, (_MEBIBYTE, case.everything[1]))


def _shares_uplink(tree: PcieTree, pairs: Sequence[tuple[str, str]]) -> bool:
    """Return whether two sources of copies are below one switch."""
    sources = sorted({source for source, _ in pairs if not tree.vertex(source).host_memory})
    return any(tree.path_class(one, other) in ("PIX", "PXB") for one, other in itertools.combinations(sources, 2))


def _divided(case: _Case) -> Iterator[Finding]:
    """Find writes of one uplink to several root ports, which collapse on some switches."""
    tree = case.communicator.tree
    has_virtual_switches = any(len(vertex.uplink_groups) > 1 for vertex in tree.vertices)
    hosts = {vertex.name for vertex in tree.vertices if vertex.host_memory}
    # The first copy of a hop is a write of its GPU, to the other one or to host memory.
    pairs = [copies_of(case.communicator, hop)[0] for hop in case.forecast.step.hops]
    is_all_to_all = case.forecast.operation is Operation.ALLTOALL
    numbers = [(tree.endpoint_number[source], tree.endpoint_number[target]) for source, target in pairs]
    source, target = (np.array(ends, dtype=np.int64) for ends in zip(*numbers, strict=True))
    # Writes of one GPU to several root ports are no writes of an uplink of a switch.
    is_shared = _shares_uplink(tree, pairs)
    divided = is_shared and divided_writes(tree, np.zeros(len(pairs), dtype=np.int64), source, target).size > 0
    divided |= has_virtual_switches and _writes_to_several_memories(tree, pairs, hosts)
    if divided:
        text = (
            f"two GPUs of one uplink write to different root ports in this {'pattern' if is_all_to_all else 'ring'}; "
            "on some switches (PEX890xx) such writes fall to a tenth of the rate, which the forecast does not include"
        )
        remedy = "measure two such copies at the same time ('fabricast probes machine.yaml --run'); if they "
        remedy += "collapse, order the ring so "
        remedy += "that one GPU per uplink leaves the switch"
        yield Finding(Cause.DIVIDED_WRITES, text, remedy, 1.0, (_MEBIBYTE, case.everything[1]))


def _writes_to_several_memories(tree: PcieTree, pairs: Sequence[tuple[str, str]], hosts: set[str]) -> bool:
    """Return whether GPUs of one uplink write to the memory of several NUMA nodes."""
    memories: dict[tuple[str, int], set[str]] = {}
    for source, target in pairs:
        parent = tree.vertex(source).parent
        if target in hosts and parent is not None:
            memories.setdefault((parent, tree.port(parent, source)), set()).add(target)
    return any(len(targets) > 1 for targets in memories.values())


def _sockets(case: _Case) -> Iterator[Finding]:
    """Find copies between sockets that limit the step."""
    communicator, step = case.communicator, case.forecast.step
    tree = communicator.tree
    crossing = [
        number
        for number, hop in enumerate(step.hops)
        if tree.path_class(communicator.ranks[hop.source], communicator.ranks[hop.target]) == "SYS"
    ]
    others = [rate for number, rate in enumerate(step.bytes_per_s) if number not in crossing]
    if not crossing or not others:
        return
    slowest = min(step.bytes_per_s[number] for number in crossing)
    gain = min(others) / slowest
    if gain > _GAIN:
        names = [
            f"{communicator.ranks[step.hops[number].source]}>{communicator.ranks[step.hops[number].target]}"
            for number in crossing
        ]
        text = (
            f"hops between NUMA nodes ({_listed(names)}) reach {slowest / 1e9:.3g} GB/s in the forecast, the others "
            f"at least {min(others) / 1e9:.3g} GB/s: the link between NUMA nodes limits every step"
        )
        remedy = "compare direct copies and host memory for these pairs (NCCL_P2P_LEVEL=PHB against SYS); check the "
        remedy += "NUMA setting of the BIOS (NPS)"
        yield Finding(Cause.BETWEEN_SOCKETS, text, remedy, 1.0, (_MEBIBYTE, case.everything[1]))


def _host_rate(case: _Case) -> Iterator[Finding]:
    """Find hops that host memory limits, or whose rate is unknown."""
    through_host = case.pairs_of(Transport.SHM)
    if not through_host or case.is_faster or case.everything[1] < _MEBIBYTE:
        return
    communicator, table = case.communicator, case.forecast.table
    last = table.iloc[-1]
    measured = last["bus_gb_per_s"] * last["time_us"] / float(last.get("measured_us", np.nan))
    if measured >= last["bus_gb_per_s"] or last.get("measured_us", np.inf) <= last.get("latest_us", -np.inf):
        # As fast as expected: host memory costs nothing that is not in the forecast.
        return
    rate = f"{last['bus_gb_per_s']:.3g} GB/s of bus bandwidth in the forecast"
    if np.isfinite(measured):
        rate = f"{measured:.3g} GB/s measured, {rate}"
        if not communicator.knows_host_memory and last["measured_us"] > last.get("latest_us", np.inf) * _SLOWER:
            # No setting of host memory makes it so slow.
            return
    if not communicator.knows_host_memory:
        rate += "; the rate of host memory is unknown and depends on the NUMA setting (NPS)"
        # A measured time is compared with its range where it is printed.
        if "earliest_us" in table and not np.isfinite(measured):
            scale = last["bus_gb_per_s"] * last["time_us"]
            rate += f": {scale / last['latest_us']:.3g} to {scale / last['earliest_us']:.3g} GB/s are possible"
    text = f"the hops pass through host memory {_listed(through_host)}: {rate}"
    remedy = "measure copies of host memory of all GPUs at once ('fabricast probes machine.yaml --run'), with "
    remedy += "each NPS setting of the BIOS"
    yield Finding(Cause.HOST_MEMORY_RATE, text, remedy, 1.0, (_MEBIBYTE, case.everything[1]))


def _root_ports(case: _Case) -> Iterator[Finding]:
    """Find many direct copies between root ports, which are slow on some processors."""
    communicator, operation = case.communicator, case.forecast.operation
    if operation is not Operation.ALLTOALL:
        return
    tree = communicator.tree
    direct = [
        hop
        for hop in case.forecast.step.hops
        if hop.transport is Transport.P2P
        and tree.is_crossing(communicator.ranks[hop.source], communicator.ranks[hop.target])
    ]
    if len(direct) < 3:
        return
    text = (
        f"{len(direct)} direct copies pass the root complex at once; on some processors one ring is fast and many "
        "of them are slow, which is not known for this machine without a measurement of several copies at once"
    )
    remedy = "measure an all-to-all of copies ('fabricast probes machine.yaml --run'); if it is slow, use "
    remedy += "NCCL_P2P_LEVEL=PXB for alltoall"
    yield Finding(Cause.ROOT_PORT_COPIES, text, remedy, 1.0, (_MEBIBYTE, case.everything[1]))


def _shared(case: _Case) -> Iterator[Finding]:
    """Find several copies on the link that limits the step."""
    forecast = case.forecast
    if len(forecast.shared_by) < 2 or forecast.gain_of_order > _GAIN:
        return
    text = f"{len(forecast.shared_by)} copies share {forecast.bottleneck}: {_listed(forecast.shared_by)}" + (
        "; no ring order avoids it" if forecast.orders is not None else ""
    )
    remedy = "move a GPU to another uplink, or use fewer GPUs below this one"
    yield Finding(Cause.SHARED_LINK, text, remedy, 1.0, (_MEBIBYTE, case.everything[1]))


def _chunk(case: _Case) -> Iterator[Finding]:
    """Find a buffer size that the forecast prefers."""
    operation = case.forecast.operation
    if operation is not Operation.ALL_REDUCE:
        return
    settings = case.communicator.settings
    now = buffer_bytes(Protocol.SIMPLE, settings.buffer_size)
    size = case.size[case.size >= _MEBIBYTE]
    if size.size == 0:
        return
    choice = (Algorithm.RING, Protocol.SIMPLE)
    now_s = case.model.times(choice, size)
    best, best_gain = 0, 1.0
    for buffer_size in (1 << 20, 2 << 20, 8 << 20, 16 << 20):
        other = replace(case.communicator, settings=replace(settings, buffer_size=buffer_size))
        gain = float((now_s / CollectiveModel(other, operation, case.plan).times(choice, size)).max())
        if gain > best_gain:
            best, best_gain = buffer_size, gain
    if best_gain > _GAIN:
        text = (
            f"a chunk of a channel has {size_text(now)}; NCCL_BUFFSIZE={best} changes it to "
            f"{size_text(buffer_bytes(Protocol.SIMPLE, best))}, up to {best_gain:.2f} times as fast in the forecast"
        )
        yield Finding(Cause.CHUNK_SIZE, text, f"NCCL_BUFFSIZE={best}", best_gain, (float(size[0]), float(size[-1])))


def _contradictions(case: _Case) -> Iterator[Finding]:
    """Find measurements that contradict each other."""
    for warning in case.forecast.warnings:
        if warning.code is WarningCode.CALIBRATION_CONTRADICTED:
            remedy = "measure single copies and pairs with one program, such as p2pBandwidthLatencyTest"
            yield Finding(Cause.MEASUREMENTS_CONTRADICT, warning.text, remedy, 1.0, case.everything)


def _faster(case: _Case) -> Iterator[Finding]:
    """Find a log that is faster than the transports that the forecast assumes."""
    if not case.is_faster:
        return
    text = (
        f"large sizes last {case.measured_over_earliest:.2f} times as long as the least forecast, which sends the hops "
        f"{_listed(case.pairs_of(Transport.SHM))} through host memory: the log probably uses direct copies"
    )
    remedy = "a log with NCCL_DEBUG=INFO states the transports; or the environment of the run (NCCL_P2P_LEVEL)"
    yield Finding(Cause.FASTER_THAN_FORECAST, text, remedy, 1.0, (_MEBIBYTE, case.everything[1]))


def _slower(case: _Case) -> Iterator[Finding]:
    """Find measured times that exceed the forecast and its range."""
    table = case.forecast.table
    if "measured_over_forecast" not in table:
        return
    ratio = table["measured_over_forecast"].to_numpy()
    if "latest_us" in table:
        # Times within the range are as expected.
        ratio = np.where(table["measured_us"] > table["latest_us"], ratio, np.minimum(ratio, 1.0))
    for low, high, words in ((0.0, _MEBIBYTE - 1, "small"), (_MEBIBYTE, np.inf, "large")):
        is_class = (case.size >= low) & (case.size <= high)
        if is_class.any() and float(np.median(ratio[is_class])) > _SLOWER:
            is_slow = is_class & (ratio > _SLOWER)
            factor = float(np.median(ratio[is_slow]))
            affected = case.size[is_slow]
            text = f"{words} sizes ({_range(affected)}) last {factor:.2f} times as long as the forecast (median)"
            others = ratio[~is_class]
            if others.size and float(np.median(others)) <= _SLOWER:
                text += f"; {'larger' if words == 'small' else 'smaller'} ones are as expected"
            yield Finding(
                Cause.SLOWER_THAN_FORECAST, text, _remedy(case), factor, (float(affected[0]), float(affected[-1]))
            )


def _remedy(case: _Case) -> str:
    """Return what to check where a run is slower than its forecast: what its log has not shown."""
    remedy = (
        "check the transport and rings in a log with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING, and link "
        "widths with 'lspci -vv'"
    )
    if case.plan.transports and case.pairs_of(Transport.SHM):
        remedy = (
            "compare memory channels, NUMA settings of the BIOS (NPS) and other load of the host, through whose memory "
            "these copies pass; 'fabricast probes machine.yaml --run' measures them; then link widths with 'lspci -vv'"
        )
    if case.communicator.machine.is_measured:
        return remedy
    # A slow GPU or pair slows every ring down.
    return f"add p2pBandwidthLatencyTest, which shows a slow GPU or pair; {remedy}"
