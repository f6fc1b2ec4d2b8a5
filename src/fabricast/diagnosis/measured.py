"""Measured copies compared with public machines and with narrower links, without a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fabricast.core.facts import Quantity
from fabricast.core.findings import Finding
from fabricast.core.units import pcie_link_bytes_per_s
from fabricast.core.warnings import WarningCode
from fabricast.diagnosis.weights import CONTRADICTION, MINOR
from fabricast.inputs.pair_rates import BOTH_WAYS, ONE_WAY, PublicShare, direct_link_share, pcie_share, staged_share
from fabricast.machine.machine import Machine
from fabricast.machine.staging import StagedRates
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.models.parameters import default_share_of, link_generation
from fabricast.pcie.topology.memory import is_host
from fabricast.pcie.topology.parts import direct_rates
from fabricast.pcie.topology.paths import narrowest_link
from fabricast.pcie.topology.tree import PcieTree

#: Remedy of files that contradict each other.
CONTRADICTING_FILES = "use files of one machine that were written at the same time"
#: Lanes of links that are not narrow.
_FULL_WIDTH = 16

#: Shares of a link that single direct copies reach where nothing limits them.
_SHARES = (0.78, 0.92)
_OLDEST = 2
#: Factor by which the share of copies through host memory, or both ways, may be outside that of public machines.
_NEAR = 1.05
#: Number of machines from which their lowest rate is a limit, and the factor of it below that number.
_MANY, _TOLERANCE = 10, 0.9
#: Share of the link below which copies of host memory may be encrypted, and PCIe generation of GPUs that can do so.
_ENCRYPTED, _CONFIDENTIAL = 0.15, 5


@dataclass(frozen=True)
class ComparedRate:
    """Median measured rate of a kind of copies, and that of public machines."""

    words: str  # Kind of copies
    bytes_per_s: float  # Median over the pairs in bytes/s
    link_bytes_per_s: float  # Raw rate of the link in bytes/s
    share: PublicShare  # Share of it on public machines
    place: str  # File of the measurement
    link: str  # Link in words
    generation: int | None = None  # PCIe generation of the link, for direct copies over PCIe

    @property
    def is_below(self) -> bool:
        """Whether the rate is below the range of public machines."""
        # The range of few machines is no limit.
        tolerance = 1.0 if self.share.machines >= _MANY else _TOLERANCE
        return self.bytes_per_s < self.share.lowest * self.link_bytes_per_s * tolerance

    @property
    def is_between_gpus(self) -> bool:
        """Whether the copies are between GPUs, not with host memory."""
        return self.words not in ("copies from host memory", "copies to host memory")

    @property
    def exceeds_link(self) -> bool:
        """Whether copies are faster than their link of PCIe, so that it is another one, or they pass over another."""
        ways = 2 if "both ways" in self.words else 1
        return self.link.startswith("PCIe") and self.bytes_per_s > ways * self.link_bytes_per_s

    @property
    def other_link_text(self) -> str:
        """The statement that the copies pass over another link."""
        if not self.is_between_gpus:
            reason = (
                "they pass over another link, such as NVLink to the processor (POWER9), with which no public machine "
                "is compared"
            )
        else:
            reason = "the link of the GPUs is faster than stated ('lspci -vv', LnkSta; --link), or they use NVLink"
        return (
            f"{self.words} reach {self.bytes_per_s / 1e9:.3g} GB/s (median), more than the "
            f"{self.link_bytes_per_s / 1e9:.3g} GB/s of {self.link}: {reason}"
        )

    def __str__(self) -> str:
        ends = [f"{share * self.link_bytes_per_s / 1e9:.3g}" for share in (self.share.lowest, self.share.highest)]
        reach = " to ".join(dict.fromkeys(ends))
        lowest = self.share.lowest * self.link_bytes_per_s
        # Below the range of few machines, but within the tolerance for it.
        below = f"{100 * (1 - self.bytes_per_s / lowest):.0f} % below the " if self.bytes_per_s < lowest else ""
        rate = f"{self.bytes_per_s / 1e9:.3g}"
        below = "above the " if float(rate) > float(ends[1]) else below
        reached = f"{self.words} reach {rate} GB/s (median)"
        return f"{reached}, {below}{reach} GB/s expected from {self.share.words}, scaled to {self.link}"


def compared_rates(machine: Machine) -> Iterator[ComparedRate]:
    """Yield the measured rates of single copies between GPUs, by kind, with those of public machines."""
    tree = machine.tree
    gpus, staged = set(tree.accelerator_names), set(tree.staged_pairs)
    singles = [graph for graph in machine.graphs if len(graph.flows) == 1 and set(graph.flows[0]) <= gpus]
    linked = [graph for graph in singles if tree.peer_link(*graph.flows[0]) is not None]
    over_links = {graph.flows[0] for graph in linked}
    direct = [graph for graph in singles if graph.flows[0] not in over_links | staged]
    generation, raw = link_generation(tree), tree.link_bytes_per_s
    link = f"PCIe Gen{generation} x{_width(machine)}" if generation is not None else "such links"
    # Copies between NUMA nodes are slower on many processors.
    near = [graph for graph in direct if tree.path_class(*graph.flows[0]) != "SYS"] or direct
    if direct and raw is not None:
        capacities = _capacities(tree, [graph.flows[0] for graph in near])
        widest = max(capacities.values())
        rate = float(np.median([graph.total_bytes_per_s for graph in near if capacities[graph.flows[0]] == widest]))
        yield ComparedRate(
            "direct copies", rate, raw * widest, pcie_share(generation), direct[0].path, link, generation
        )
    through = machine.staged_bytes_per_s | {
        graph.flows[0]: graph.total_bytes_per_s for graph in singles if graph.flows[0] in staged
    }
    capacities = _capacities(tree, through)
    widest = max(capacities.values(), default=1.0)
    through = {pair: rate for pair, rate in through.items() if capacities[pair] == widest}
    if through and raw is not None:
        rates = StagedRates(machine)
        share = staged_share(generation, ONE_WAY, old_geforce=rates.is_old_geforce, gpus=len(tree.accelerator_names))
        fact = next(iter(machine.measured.staged.values()), None)
        place = fact.place.path if fact is not None else singles[0].path
        yield ComparedRate(
            "copies through host memory", float(np.median(list(through.values()))), raw * widest, share, place, link
        )
    host = [graph for graph in machine.graphs if len(graph.flows) == 1 and is_host(machine.with_memory, graph.flows)]
    of_link = link if generation is not None else f"NVLink-C2C of {(raw or 0) / 1e9:.3g} GB/s"
    for words, part in (
        ("copies from host memory", [graph for graph in host if graph.flows[0][1] in gpus]),
        ("copies to host memory", [graph for graph in host if graph.flows[0][0] in gpus]),
    ):
        if part and raw is not None:
            rate = float(np.median([graph.total_bytes_per_s for graph in part]))
            yield ComparedRate(words, rate, raw, default_share_of(tree), part[0].path, of_link, generation)
    nominal = direct_rates(tree.peer_links, of_one_copy=True)
    known = [graph for graph in linked if graph.flows[0] in nominal]
    direction = ONE_WAY if known else BOTH_WAYS
    known = known or [graph for graph in machine.graphs if graph.flows[0] in nominal and _is_both_ways(graph)]
    if known:
        kind = str(tree.peer_link(*known[0].flows[0]))
        share = direct_link_share(kind, direction)
        rate = float(np.median([nominal[graph.flows[0]] for graph in known]))
        reached = float(np.median([graph.total_bytes_per_s for graph in known]))
        if share.machines:
            words = f"{kind} of {rate / 1e9:.3g} GB/s"
            both = "" if direction == ONE_WAY else ", both ways together,"
            yield ComparedRate(f"copies over {kind}{both}", reached, rate, share, known[0].path, words)


def _capacities(tree: PcieTree, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Return the capacity of the narrowest link of each pair, relative to the link of the topology.

    Pairs with a narrower link are slower, which is another cause.
    """
    number = tree.endpoint_number
    return {pair: narrowest_link(tree, [(number[pair[0]], number[pair[1]])]) for pair in pairs}


def _is_both_ways(graph: MeasuredGraph) -> bool:
    return len(graph.flows) == 2 and graph.flows[0] == graph.flows[1][::-1]


def _width(machine: Machine) -> int:
    return max((machine.tree.vertex(name).width or 0 for name in machine.tree.accelerator_names), default=0)


def below_public_machines(compared: ComparedRate, *, knows_links: bool = False) -> Finding | None:
    """Return a finding for rates below those of public machines, with the narrower links that would explain them.

    If files state the links, a narrower one is no explanation.
    """
    if not compared.is_below:
        return None
    text, remedy = str(compared), "check 'lspci -vv' (LnkSta, ACSCtl) while the GPUs copy, and the IOMMU"
    is_encrypted = compared.bytes_per_s < _ENCRYPTED * compared.link_bytes_per_s
    if is_encrypted and compared.words.endswith("host memory") and (compared.generation or 0) >= _CONFIDENTIAL:
        remedy += "; GPUs in confidential computing ('nvidia-smi conf-compute -f') copy through encrypted buffers"
    if compared.words.startswith("copies over"):
        remedy = "check 'nvidia-smi nvlink -s' and '-e', and whether peer access is on ('nvidia-smi topo -p2p r')"
    if "through host memory" in compared.words:
        # Neither the IOMMU nor access control concern them.
        remedy = (
            "compare LnkSta with LnkCap in 'sudo lspci -vv' while the GPUs copy (slots with x8, an older generation in "
            "the BIOS); then memory in all channels and NUMA settings"
        )
    links = _narrower(compared) if compared.generation is not None and not knows_links else []
    if links:
        text += f"; this is the rate of a link of {' or '.join(links)}"
        remedy = (
            "compare LnkSta with LnkCap in 'sudo lspci -vv' while the GPUs copy: slot, riser, bifurcation or chipset"
        )
    return Finding("below_public_machines", text, remedy, CONTRADICTION - 0.05, origin=compared.place)


def _narrower(compared: ComparedRate) -> list[str]:
    """Return the links, narrower or older than that of the GPU, over which copies of a kind have a rate."""
    is_single = "both ways" not in compared.words and "through host memory" not in compared.words
    share = compared.share
    low, high = _SHARES if is_single else (share.lowest / _NEAR, share.highest * _NEAR)
    return [
        f"Gen{generation} x{width}"
        for generation in range(compared.generation or _OLDEST, _OLDEST - 1, -1)
        for width in (16, 8, 4, 2)
        if low <= compared.bytes_per_s / (link := pcie_link_bytes_per_s(generation, width)) <= high
        and link < compared.link_bytes_per_s
    ]


def without_refuted_links(machine: Machine, findings: Sequence[Finding]) -> list[Finding]:
    """Return findings; a narrow link over which faster copies were measured is a contradiction of files."""
    tree = machine.tree
    fastest: dict[str, float] = {}
    singles = {graph.flows[0]: graph.total_bytes_per_s for graph in machine.graphs if len(graph.flows) == 1}
    for pair, rate in {**singles, **machine.staged_bytes_per_s}.items():
        if tree.peer_link(*pair) is None:
            for end in pair:
                fastest[end] = max(fastest.get(end, 0.0), rate)
    kept = []
    for one in findings:
        gpu = _gpu_of(machine, one.text) if one.cause == WarningCode.DOWNGRADED_LINK else None
        link = None if gpu is None else _link_bytes_per_s(tree, gpu)
        if gpu is None or link is None or fastest.get(gpu, 0.0) <= link:
            kept.append(one)
            continue
        text = (
            f"GPU {gpu} copies {fastest[gpu] / 1e9:.3g} GB/s, more than the {link / 1e9:.3g} GB/s of the link that "
            f"{one.origin} states: the files are of different times or machines"
        )
        kept.append(Finding(WarningCode.FILES_CONTRADICT, text, CONTRADICTING_FILES, MINOR, origin=one.origin))
    return kept


def _gpu_of(machine: Machine, text: str) -> str | None:
    """Return the GPU whose PCI address a text has; None if it has none. Addresses of files are the labels of GPUs."""
    names = machine.tree.accelerator_names
    labels = {gpu: machine.tree.vertex(gpu).label for gpu in names}
    if not any(":" in label for label in labels.values()):
        # Measurements may state the addresses that the topology lacks.
        labels = {fact.subject[0]: fact.value for fact in machine.facts.of(Quantity.GPU_ADDRESS) if fact.subject}
    return next((gpu for gpu, label in labels.items() if gpu in names and ":" in label and label in text), None)


def _link_bytes_per_s(tree: PcieTree, gpu: str) -> float | None:
    """Return the raw rate of the link of a GPU in bytes/s; None if it is unknown."""
    vertex = tree.vertex(gpu)
    if vertex.generation is None or vertex.width is None or vertex.width >= _FULL_WIDTH:
        return None
    return pcie_link_bytes_per_s(vertex.generation, vertex.width)
