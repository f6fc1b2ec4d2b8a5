"""Measured copies without a topology: pairs and GPUs compared with each other, and rates with public machines."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fabricast.core.facts import Content, Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.number_text import duration_text, span_text
from fabricast.core.short_text import listed
from fabricast.core.units import pcie_link_bytes_per_s
from fabricast.core.warnings import WarningCode
from fabricast.diagnosis.measured import ComparedRate
from fabricast.diagnosis.programs_of_amd import is_gpu_of_amd, is_program_of_amd
from fabricast.diagnosis.weights import ACCESS, CONTRADICTION
from fabricast.inputs.gpus import GpuModel, gpu_model, is_known_gpu
from fabricast.inputs.pair_rates import BOTH_WAYS, ONE_WAY, is_old_geforce, pcie_share, staged_share
from fabricast.machine.direct_links import MESHES
from fabricast.machine.gpus import link_of_text
from fabricast.machine.options import MachineOptions
from fabricast.pcie.topology.memory import HOST
from fabricast.pcie.topology.path_classes import ClassMatrix

#: Share of the rate through host memory below which direct copies are slower, and share of the slowest copy between
#: other GPUs below which all copies of a GPU are slow: without a topology, a GPU may be on another processor.
_SLOWER_THAN_STAGED, _SLOW_GPU = 0.8, 0.7
_FEWEST_GPUS = 3
#: Numbers of GPUs between which a bridge (NVLink, xGMI) has links.
_BRIDGED = (2, 4)
#: Words of models whose boards have pairs with different numbers of links, or with none, and GPUs of such a board.
_UNEVEN, _WHOLE_BOARD = (*MESHES, "mi250x", "mi250"), 8
#: Share of the median of all pairs below which a pair is slow, the largest share of pairs for which this says something
#: about these pairs, and a rate in bytes/s that no link of PCIe has.
_SLOW_PAIR, _FEW_PAIRS, _FASTEST_PCIE = 0.5, 1 / 3, 70e9
#: Where so large a share of the pairs have nearly one rate, the share of it below which a pair is slow.
_MOSTLY, _ALIKE, _SLOW_AMONG_ALIKE = 0.8, 0.05, 0.75
_CHECK_DIRECT_LINK = "check 'nvidia-smi nvlink -s' and '-e', and 'dmesg'; reseat or reset the GPUs"
_MOST_PAIRS = 6
#: Latency in s of a direct copy above which it does not work as it should; usual ones are 1 to 30 us.
_LATE_S = 1e-3
_REPEAT_PAIRS = "measure again while nothing else runs; then compare LnkSta and NUMA nodes of these GPUs ('lspci -vv')"
#: Relative difference below which rates are equal: repeated tests differ by as much.
_EQUAL = 0.03
_FASTEST_GENERATION = 6
#: Remedy of direct copies that are slower than those through host memory.
CHECK_ACCESS = (
    "test with NCCL_P2P_DISABLE=1, then boot with iommu=pt or without IOMMU, and disable ACS of switches and "
    "root ports ('sudo lspci -vvv | grep ACSCtl'); modified drivers need Resizable BAR ('nvidia-smi -q', BAR1)"
)
_CHECK_LINK = "compare LnkSta with LnkCap in 'sudo lspci -vv' while the GPUs copy; add 'nvidia-smi topo -m'"


@dataclass(frozen=True)
class MeasuredRate:
    """Rate in bytes/s with its place."""

    bytes_per_s: float
    place: str


_Rates = Mapping[tuple[str, str], MeasuredRate]


#: Ratio to the fastest copy through host memory above which a direct copy passes over a link of its own.
_OVER_LINKS = 2.0
#: End of a copy that is a processor, and models that are only sold as modules of a board with NVLinks.
_PROCESSOR = "NUMA"
_ON_BOARD = re.compile(r"SXM|H100 80GB HBM3|\bH200\b(?! NVL)|\bB[23]00\b|\bH800\b|\bH20\b")
_CHECK_NVLINKS = (
    "'nvidia-smi nvlink -s' and 'nvidia-smi topo -m' (NV#) show the links, 'systemctl status nvidia-fabricmanager' the "
    "service of the NVSwitches; a virtual machine needs all GPUs of the board, or a partition of the fabric manager"
)


def slow_copies_without_topology(facts: Facts) -> Iterator[Finding]:
    """Yield direct copies that are slower than those through host memory, or else a GPU whose copies are all slow."""
    direct, staged = _direct(facts), _staged(facts, Quantity.STAGED_RATE)
    slower = [
        pair
        for pair in direct.keys() & staged.keys()
        if direct[pair].bytes_per_s < _SLOWER_THAN_STAGED * staged[pair].bytes_per_s
    ]
    if slower:
        one = min(sorted(slower), key=lambda pair: direct[pair].bytes_per_s / staged[pair].bytes_per_s)
        text = (
            f"direct copies of {len(slower)} of {len(direct.keys() & staged.keys())} pairs are slower than their "
            f"copies through host memory, for example {'>'.join(one)} with {direct[one].bytes_per_s / 1e9:.4g} and "
            f"{staged[one].bytes_per_s / 1e9:.4g} GB/s, usually because of the IOMMU or access control (ACS)"
        )
        yield Finding(WarningCode.SLOWER_THAN_STAGED, text, CHECK_ACCESS, CONTRADICTION, origin=direct[one].place)
        return
    model, _ = _model(facts, MachineOptions())
    are_linked = model is None and states_direct_links(facts)
    both_ways, staged_both_ways = _both_ways(facts), _staged(facts, Quantity.STAGED_RATE_BOTH_WAYS)
    if model is None and not are_linked and _have_some_links(direct, staged):
        # Pairs without these links are slower by their nature.
        direct = both_ways = {}
    if are_linked:
        of_direct = _slow_copies("direct copies", direct, are_linked=True)
    else:
        of_direct = _slow_direct_copies("direct copies", direct, model, directions=1) or _slow_direct_copies(
            "direct copies, both ways together,", both_ways, model, directions=2
        )
    yield from (
        of_direct
        or _slow_copies("copies through host memory", staged)
        or _slow_copies("copies through host memory, both ways together,", staged_both_ways)
    )


def _slow_copies(
    kind: str, rates: _Rates, *, are_linked: bool = False, may_have_bridges: bool = False
) -> list[Finding]:
    """Return the GPUs all of whose copies are slow, or else the pairs that are."""
    gpus = list(slow_gpus(kind, rates, are_linked=are_linked, may_have_bridges=may_have_bridges))
    return gpus or list(slow_pairs(kind.rstrip(","), rates, are_linked=are_linked))


def _have_some_links(direct: _Rates, staged: _Rates) -> bool:
    """Return whether some pairs are so much faster than all copies through host memory that only links explain it."""
    limit = _OVER_LINKS * max((one.bytes_per_s for one in staged.values()), default=np.inf)
    count = sum(one.bytes_per_s > limit for one in direct.values())
    return 0 < count < len(direct)


def _slow_direct_copies(kind: str, rates: _Rates, model: GpuModel | None, *, directions: int) -> list[Finding]:
    """Return the slow ones of direct copies, compared with those over links of their kind."""
    if model is not None and model.words in _UNEVEN and len(_gpus_of(rates)) < _WHOLE_BOARD:
        # Only on the whole board does each GPU have one of the fast links.
        return []
    if _are_linked(model, rates, directions):
        return _slow_copies(kind, rates, are_linked=True)
    return _slow_copies(kind, _without_bridges(model, rates, directions), may_have_bridges=model is None)


def _gpus_of(rates: Iterable[tuple[str, str]]) -> set[str]:
    """Return the GPUs of pairs."""
    return {end for pair in rates for end in pair}


def _are_linked(model: GpuModel | None, rates: _Rates, directions: int) -> bool:
    """Return whether copies use direct links: those of their model, or such that are faster than PCIe."""
    if model is not None and model.is_always_linked:
        return True
    return bool(rates) and np.median([one.bytes_per_s for one in rates.values()]) > directions * _FASTEST_PCIE


def _without_bridges(model: GpuModel | None, rates: _Rates, directions: int) -> _Rates:
    """Return the rates that a link of PCIe can have, if the other pairs are those that bridges join."""
    raw = _FASTEST_PCIE if model is None else pcie_link_bytes_per_s(model.generation, model.width)
    over_pcie = {pair: one for pair, one in rates.items() if one.bytes_per_s <= directions * raw}
    partners: dict[str, set[str]] = {}
    for source, target in rates.keys() - over_pcie.keys():
        partners.setdefault(source, {source}).add(target)
        partners.setdefault(target, {target}).add(source)
    # Bridges join two or four cards; boards with NVLink join others, and one of their GPUs may be slow.
    return over_pcie if over_pcie and all(len(joined) in _BRIDGED for joined in partners.values()) else rates


def slow_pairs(
    kind: str, rates: _Rates, class_of: Callable[[tuple[str, str]], str] | None = None, *, are_linked: bool = False
) -> Iterator[Finding]:
    """Yield a few pairs that are much slower than all others over PCIe, those of one path class if it is known.

    Pairs with direct links of their kind (`are_linked`) are slow by their link.
    """
    classes: dict[str, dict[tuple[str, str], MeasuredRate]] = {}
    for pair, one in rates.items():
        classes.setdefault("" if class_of is None else class_of(pair), {})[pair] = one
    for name, of_class in classes.items():
        usual = float(np.median([one.bytes_per_s for one in of_class.values()]))
        if usual > _FASTEST_PCIE and not are_linked:
            continue
        end = _slow_end(kind, of_class, are_linked=are_linked, is_one_class=class_of is not None)
        if end is not None:
            yield end
            continue
        alike = sum(abs(one.bytes_per_s / usual - 1) < _ALIKE for one in of_class.values())
        share = _SLOW_AMONG_ALIKE if alike >= _MOSTLY * len(of_class) else _SLOW_PAIR
        slow = sorted(pair for pair, one in of_class.items() if one.bytes_per_s < share * usual)
        others = [one.bytes_per_s for pair, one in of_class.items() if pair not in slow]
        if not slow or len(slow) > _FEW_PAIRS * len(of_class):
            continue
        worst = min(slow, key=lambda pair: of_class[pair].bytes_per_s)
        rest = (
            f"the other {len(others)} {f'of path class {name} ' if name else ''}at least {min(others) / 1e9:.3g} GB/s"
        )
        reach = f"{of_class[worst].bytes_per_s / 1e9:.3g} GB/s"
        text = (
            f"{kind} {listed(['>'.join(pair) for pair in slow], _MOST_PAIRS)} reach {reach}, {rest}: "
            f"{'their direct link is slow' if are_linked else 'their path is slow, not their links'}"
        )
        remedy = CHECK_ACCESS if kind.startswith("direct") else _REPEAT_PAIRS
        remedy = _CHECK_DIRECT_LINK if are_linked else remedy
        yield Finding("slow_pair", text, remedy, CONTRADICTION, origin=of_class[worst].place)


def _slow_end(kind: str, rates: _Rates, *, are_linked: bool, is_one_class: bool) -> Finding | None:
    """Return the GPU all of whose copies, or all in one direction, are slower than every other copy."""
    worst = min(rates, key=lambda pair: (rates[pair].bytes_per_s, pair))
    cause = "the link or the memory is slow in this direction"
    if not (are_linked or is_one_class):
        cause += ", or the GPU is on another processor"
    ends: list[tuple[str, str, tuple[int, ...], str]]
    ends = [(worst[0], "sends", (0,), cause), (worst[1], "receives", (1,), cause)]
    if are_linked and len(_gpus_of(rates)) > _FEWEST_GPUS:
        # Two of three GPUs may have more links between them.
        ends += [(gpu, "reaches", (0, 1), "its links, or the GPU itself, are slow") for gpu in worst]
    for gpu, verb, places, why in ends:
        of_end = {pair: one.bytes_per_s for pair, one in rates.items() if gpu in [pair[place] for place in places]}
        others = [one.bytes_per_s for pair, one in rates.items() if pair not in of_end]
        # Both directions of one pair are of its link.
        if len(_gpus_of(of_end)) > 2 and others and max(of_end.values()) < _SLOW_AMONG_ALIKE * min(others):
            text = (
                f"GPU {gpu} {verb} {_span_gb_s(of_end.values())} in all its {kind}, the other {len(others)} at least "
                f"{min(others) / 1e9:.3g} GB/s: {why}"
            )
            remedy = _CHECK_DIRECT_LINK if are_linked else _CHECK_LINK
            return Finding(WarningCode.SLOW_ENDPOINT, text, remedy, CONTRADICTION, origin=rates[worst].place)
    return None


def late_copies(facts: Facts) -> Iterator[Finding]:
    """Yield direct copies that begin milliseconds late, as with an IOMMU that does not pass them."""
    late = [fact for fact in facts.of(Quantity.LATENCY) if fact.value > _LATE_S]
    if late:
        worst = max(late, key=lambda fact: fact.value)
        text = (
            f"direct copies of {len(late)} of {sum(1 for _ in facts.of(Quantity.LATENCY))} pairs last up to "
            f"{duration_text(worst.value)} for a few bytes, for example {'>'.join(worst.subject)}: their data may not "
            "arrive, usually because of the IOMMU or access control (ACS)"
        )
        yield Finding("late_copies", text, CHECK_ACCESS, CONTRADICTION + 0.03, origin=str(worst.place))


def slow_gpus(
    kind: str,
    rates: _Rates,
    *,
    is_one_processor: bool = False,
    are_linked: bool = False,
    may_have_bridges: bool = False,
) -> Iterator[Finding]:
    """Yield the GPUs all of whose copies are slower than every copy between the other GPUs.

    Their links of PCIe are the cause, unless all copies use direct links (`are_linked`); without a model of the GPUs,
    the others may have bridges.
    """
    gpus = sorted(_gpus_of(rates), key=lambda name: (len(name), name))
    if len(gpus) < _FEWEST_GPUS:
        return
    of_gpu = {gpu: [one.bytes_per_s for pair, one in rates.items() if gpu in pair] for gpu in gpus}
    slow = [gpu for gpu in gpus if max(of_gpu[gpu]) < _SLOW_GPU * max(one.bytes_per_s for one in rates.values())]
    others = [one.bytes_per_s for pair, one in rates.items() if not set(pair) & set(slow)]
    if not slow or not others:
        return
    cause = "its link is narrow or old"
    cause += "" if is_one_processor else ", or it is on another processor"
    cause += ", or the others have bridges (NVLink)" if may_have_bridges and len(gpus) - len(slow) in _BRIDGED else ""
    remedy = _CHECK_LINK.partition(";")[0] if is_one_processor else _CHECK_LINK
    if are_linked:
        cause, remedy = "its links, or the GPU itself, are slow", _CHECK_DIRECT_LINK
    for gpu in slow:
        if max(of_gpu[gpu]) >= _SLOW_GPU * min(others):
            continue
        worst = min((pair for pair in rates if gpu in pair), key=lambda pair: rates[pair].bytes_per_s)
        text = (
            f"GPU {gpu} reaches {_span_gb_s(of_gpu[gpu])} in all its {kind.rstrip(',')}, the "
            f"{'other GPUs' if len(slow) == 1 else 'GPUs that are not slow'} at "
            f"least {min(others) / 1e9:.3g} GB/s among each other: {cause}"
        )
        yield Finding(WarningCode.SLOW_ENDPOINT, text, remedy, CONTRADICTION, origin=rates[worst].place)


def _span_gb_s(rates: Collection[float]) -> str:
    """Return the smallest and the largest of rates in bytes/s."""
    return f"{span_text(f'{min(rates) / 1e9:.3g}', f'{max(rates) / 1e9:.3g}')} GB/s"


def slow_copies_by_file(facts: Facts) -> Iterator[Finding]:
    """Yield slow copies of each of several files, which may be of other times or of other machines."""
    measured = (Quantity.RATE, Quantity.STAGED_RATE, Quantity.STAGED_RATE_BOTH_WAYS)
    paths = dict.fromkeys(fact.place.path for quantity in measured for fact in facts.of(quantity))
    for path in paths if len(paths) > 1 else ():
        alone = Facts(tuple(file for file in facts.files if file.path == path))
        yield from list(slow_copies_without_topology(alone)) or slow_host_copies(alone)


def slow_host_copies(facts: Facts) -> Iterator[Finding]:
    """Yield the GPUs whose copies from or to host memory, or both at once, are much slower than those of the others."""
    host = _of_host(facts)
    for words, of_gpu in (
        ("from", {pair[1]: one for pair, one in host.items() if pair[0][:1] == HOST}),
        ("to", {pair[0]: one for pair, one in host.items() if pair[1][:1] == HOST}),
        ("from and to", {pair[1]: one for pair, one in _both_ways(facts, of_host=True).items() if pair[0][:1] == HOST}),
    ):
        usual = float(np.median([one.bytes_per_s for one in of_gpu.values()])) if len(of_gpu) > 1 else 0.0
        best = max((one.bytes_per_s for one in of_gpu.values()), default=0.0)
        usual = best if len(of_gpu) == 2 else usual
        found = [gpu for gpu, one in of_gpu.items() if one.bytes_per_s < _SLOW_GPU * usual]
        others = [one.bytes_per_s for gpu, one in of_gpu.items() if gpu not in found]
        usual = float(np.median(others)) if others else usual
        node = _node_of(found, of_gpu, facts)
        if node is not None:
            span = _span_gb_s([of_gpu[gpu].bytes_per_s for gpu in found])
            what = f"GPUs {', '.join(found)} of NUMA node {node} copy {span} {words} host memory"
            text = (
                f"{what}, those of other nodes {usual / 1e9:.3g} GB/s: the memory is that of another processor, has "
                "fewer modules, or these GPUs share a link"
            )
            remedy = (
                f"test them with the memory of this node (numactl -N {node} -m {node}); if it stays, check the memory "
                "modules of this processor and the links above its GPUs ('lspci -vv')"
            )
            yield Finding(WarningCode.SLOW_ENDPOINT, text, remedy, CONTRADICTION, origin=of_gpu[found[0]].place)
            return
        for gpu in found:
            text = (
                f"GPU {gpu} copies {of_gpu[gpu].bytes_per_s / 1e9:.3g} GB/s {words} host memory, other GPUs "
                f"{usual / 1e9:.3g} GB/s: its link is narrow or old, or the memory is that of another processor"
            )
            yield Finding(WarningCode.SLOW_ENDPOINT, text, _CHECK_LINK, CONTRADICTION, origin=of_gpu[gpu].place)
        if found:
            return


def _node_of(slow: Sequence[str], gpus: Iterable[str], facts: Facts) -> int | None:
    """Return the NUMA node that has exactly the slow GPUs, if a topology of the same GPUs states the nodes."""
    for matrix in facts.values(Quantity.TOPOLOGY):
        if not isinstance(matrix, ClassMatrix) or len(list(gpus)) != matrix.gpus or len(slow) < 2:
            continue
        nodes = {str(gpu): node for gpu, node in enumerate(matrix.numa_nodes[: matrix.gpus])}
        of_slow = {nodes.get(gpu) for gpu in slow}
        node = of_slow.pop() if len(of_slow) == 1 else None
        if node is not None and {gpu for gpu, one in nodes.items() if one == node} == set(slow):
            return node
    return None


def rates_without_topology(facts: Facts, options: MachineOptions) -> Iterator[ComparedRate]:
    """Yield median rates of copies over PCIe with those of public machines, if the files name one model of GPU."""
    model, name = _model(facts, options)
    if model is None or model.host_bytes_per_s is not None:
        return
    generation, width = model.generation, model.width
    if options.link is not None:
        generation, width = link_of_text(options.link, options.gpu)
    raw = pcie_link_bytes_per_s(generation, width)
    link = f"PCIe Gen{generation} x{width} ({name})"
    direct, staged, host = _direct(facts), _staged(facts, Quantity.STAGED_RATE), _of_host(facts)
    both, staged_both = _both_ways(facts), _staged(facts, Quantity.STAGED_RATE_BOTH_WAYS)
    if _are_equal(direct, staged) or _are_equal(both, staged_both):
        # The test cannot copy directly, or gains nothing by it.
        direct, both = {}, {}
    old, count = is_old_geforce(name), len(_gpus_of({**direct, **staged, **both, **staged_both}))
    one_way, pairs = pcie_share(generation), pcie_share(generation, direction=BOTH_WAYS)
    through, through_both = (staged_share(generation, way, old_geforce=old, gpus=count) for way in (ONE_WAY, BOTH_WAYS))
    # Modules of AMD have xGMI links, each as fast as PCIe.
    is_linked = model.capability is None and model.is_always_linked
    is_linked = is_linked or _use_direct_links({**direct, **both}, 2 * raw) or _use_direct_links(direct, raw)
    for words, rates, share in (
        # Faster copies use direct links, whose number is unknown. Both ways only where no single copy was measured.
        ("direct copies", {} if is_linked else direct, one_way),
        ("direct copies, both ways together,", {} if is_linked or direct else both, pairs),
        ("copies through host memory", staged, through),
        ("copies through host memory, both ways together,", {} if staged else staged_both, through_both),
        ("copies from host memory", {pair: one for pair, one in host.items() if pair[0][:1] == HOST}, one_way),
        ("copies to host memory", {pair: one for pair, one in host.items() if pair[1][:1] == HOST}, one_way),
    ):
        if rates and share.machines:
            median = float(np.median([one.bytes_per_s for one in rates.values()]))
            place = next(iter(rates.values())).place.rpartition(":")[0] or next(iter(rates.values())).place
            yield ComparedRate(words, median, raw, share, place, link, generation)


def unused_nvlinks(facts: Facts, options: MachineOptions) -> Finding | None:
    """Return the finding that GPUs on a board with NVLinks copy over PCIe, if their model has such a board."""
    model, name = _model(facts, options)
    direct = _direct(facts)
    if model is None or not direct or "MIG" in name or not (model.is_always_linked or _ON_BOARD.search(name)):
        return None
    if model.capability is None:
        # One xGMI link of AMD, which each pair has, is as fast as PCIe.
        return None
    low, high = (choose(one.bytes_per_s for one in direct.values()) for choose in (min, max))
    if high > pcie_link_bytes_per_s(model.generation, model.width):
        return None
    text = (
        f"direct copies reach {low / 1e9:.3g} to {high / 1e9:.3g} GB/s, as over PCIe: {name} is a module with NVLinks, "
        "which they do not use"
    )
    return Finding("unused_nvlinks", text, _CHECK_NVLINKS, ACCESS, origin=next(iter(direct.values())).place)


def names_model(facts: Facts, options: MachineOptions) -> bool:
    """Return whether the files or an option name one known model of GPU."""
    return _model(facts, options)[0] is not None


def _is_split(access: Mapping[tuple[str, ...], bool]) -> bool:
    """Return whether GPUs are in groups of at least two, with access within each group and none between them."""
    gpus = {gpu for pair in access for gpu in pair}
    partners = {
        gpu: frozenset({gpu} | {pair[1] for pair, has in access.items() if has and pair[0] == gpu}) for gpu in gpus
    }
    groups = set(partners.values())
    is_partition = sum(map(len, groups)) == len(gpus)
    return is_partition and len(groups) > 1 and all(len(group) > 1 for group in groups)


def pairs_without_access(facts: Facts, options: MachineOptions) -> Iterator[Finding]:
    """Yield pairs of GPUs without access to each other, unless their driver never permits it or they may be GeForce."""
    of_pair = {fact.subject: fact for fact in facts.of(Quantity.PEER_ACCESS)}
    refused = [fact for fact in of_pair.values() if fact.value]
    model, _ = _model(facts, options)
    is_amd = _are_stated_by_amd(refused) or any(is_gpu_of_amd(str(name)) for name in facts.values(Quantity.GPU_MODEL))
    if not refused or not (is_amd or (model is not None and model.has_stock_peer_access)):
        return
    if _is_split({pair: not fact.value for pair, fact in of_pair.items()}):
        # The GPUs of each processor have access to each other.
        return
    first = refused[0]
    text = (
        f"{len(refused)} of {len(of_pair)} pairs of GPUs have no access to each other ({first.value}), for example "
        f"{'>'.join(first.subject)}: their copies pass through host memory, or are not possible"
    )
    remedy = "check the driver (for AMD the amdgpu-dkms package), IOMMU, ACS and Resizable BAR (large BAR) in the BIOS"
    yield Finding(WarningCode.NO_PEER_ACCESS, text, remedy, ACCESS, origin=str(first.place))


def _are_equal(direct: _Rates, staged: _Rates) -> bool:
    """Return whether all pairs are equally fast with and without direct copies."""
    common = direct.keys() & staged.keys()
    return len(common) > 0 and all(
        abs(direct[pair].bytes_per_s / staged[pair].bytes_per_s - 1) < _EQUAL for pair in common
    )


def refused_access(facts: Facts) -> Iterator[str]:
    """Yield how many pairs a file states to have no peer access, with the reason; GeForce cards have none."""
    refused = [fact for fact in facts.of(Quantity.PEER_ACCESS) if fact.value]
    if refused:
        reasons = ", ".join(dict.fromkeys(str(fact.value) for fact in refused))
        count = len({frozenset(fact.subject) for fact in refused})
        every = len({frozenset(fact.subject) for fact in facts.of(Quantity.PEER_ACCESS)})
        of_all = f" of {every}" if count < every else ""
        pairs = (
            f"one{of_all} pair{'s' if of_all else ''} of GPUs has"
            if count == 1
            else f"{count}{of_all} pairs of GPUs have"
        )
        names = set(map(str, facts.values(Quantity.GPU_MODEL)))
        is_geforce = not names or any("GeForce" in name or "RTX" in name for name in names)
        normal = "" if _are_stated_by_amd(refused) else ", which is normal for GeForce cards with NVIDIA's driver"
        is_split = _is_split({fact.subject: not fact.value for fact in facts.of(Quantity.PEER_ACCESS)})
        if not is_geforce or is_split:
            normal = ", as between sockets: 'nvidia-smi topo -m' shows them" if count < every else ""
        yield f"{pairs} no peer access ({reasons}): their copies pass through host memory{normal} ({refused[0].place})"


def _are_stated_by_amd(refused: list[Fact]) -> bool:
    """Return whether a program of AMD states the pairs without access."""
    return any(is_program_of_amd(fact.program) for fact in refused)


def states_direct_links(facts: Facts) -> bool:
    """Return whether a description of the machine shows direct links between all GPUs."""
    matrices = [one for one in facts.values(Quantity.TOPOLOGY) if isinstance(one, ClassMatrix)]
    return any(one.gpus > 1 and len(one.links) == one.gpus * (one.gpus - 1) for one in matrices)


def are_over_direct_links(facts: Facts) -> bool:
    """Return whether copies between GPUs are faster than a link of PCIe can be, so that they use NVLink or XGMI."""
    raw = pcie_link_bytes_per_s(_FASTEST_GENERATION, 16)
    return _use_direct_links(_direct(facts), raw) or _use_direct_links(_both_ways(facts), 2 * raw)


def _use_direct_links(rates: _Rates, raw: float) -> bool:
    return any(one.bytes_per_s > raw for one in rates.values())


def _model(facts: Facts, options: MachineOptions) -> tuple[GpuModel | None, str]:
    """Return the only model of the GPUs with its name; None if there is none, several, or an unknown one."""
    names = {options.gpu} if options.gpu is not None else set(map(str, facts.values(Quantity.GPU_MODEL)))
    names = names or {name for table in facts.values(Quantity.COLLECTIVE) for name in table.gpus}
    known = {gpu_model(name) for name in names if is_known_gpu(name)}
    if len(known) != 1 or not all(map(is_known_gpu, names)):
        return None, ""
    return known.pop(), min(names).removeprefix("NVIDIA ")


def _direct(facts: Facts) -> _Rates:
    """Return the rates of single copies between GPUs."""
    return {pair: one for pair, one in _singles(facts).items() if not any(map(_is_of_host, pair))}


def _of_host(facts: Facts) -> _Rates:
    """Return the rates of single copies between a GPU and host memory."""
    return {pair: one for pair, one in _singles(facts).items() if any(map(_is_of_host, pair))}


def _is_of_host(end: str) -> bool:
    """Return whether an end of a copy is host memory, also that of a processor by its number."""
    return end.startswith((HOST, _PROCESSOR))


def _singles(facts: Facts) -> _Rates:
    """Return the rates of single copies, those of the first file that has them."""
    return _of_first_file(
        (fact, fact.value.flows[0], fact.value.total_bytes_per_s)
        for fact in facts.of(Quantity.RATE)
        if len(fact.value.flows) == 1
    )


def _of_first_file(rates: Iterable[tuple[Fact, tuple[str, str], float]]) -> _Rates:
    """Return the first rate of each pair; other files may be of other machines."""
    found: dict[tuple[str, str], MeasuredRate] = {}
    path = ""
    for fact, pair, bytes_per_s in rates:
        path = path or fact.place.path
        if fact.place.path == path:
            found.setdefault(pair, _rate(fact, bytes_per_s))
    return found


def _both_ways(facts: Facts, *, of_host: bool = False) -> _Rates:
    """Return the total rates of both directions of pairs of GPUs, or of GPUs with host memory."""
    return _of_first_file(
        (fact, flows[0], fact.value.total_bytes_per_s)
        for fact in facts.of(Quantity.RATE)
        if fact.value.is_both_ways and any(map(_is_of_host, (flows := fact.value.flows)[0])) == of_host
    )


def _staged(facts: Facts, quantity: Quantity) -> _Rates:
    """Return the rates of copies through host memory, one way or both ways."""
    return _of_first_file(
        (fact, (fact.subject[0], fact.subject[1]), float(fact.value))
        for block in facts.blocks_of(Content.COPIES)
        for fact in block.of(quantity)
    )


def _rate(fact: Fact, bytes_per_s: float) -> MeasuredRate:
    return MeasuredRate(bytes_per_s, str(fact.place))
