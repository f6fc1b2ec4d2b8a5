"""Faults of links, peer access and network cards that files state, with remedies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from fabricast.collectives.diagnosis import STOCK_DRIVER, has_stock_driver
from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Fact, Facts, Kind, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import listed
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.diagnosis.answers import Answers
from fabricast.diagnosis.measured import CONTRADICTING_FILES
from fabricast.diagnosis.programs_of_amd import is_of_amd
from fabricast.diagnosis.weights import ACCESS, LINK, MINOR
from fabricast.inputs.pair_rates import SWITCHED
from fabricast.machine.access import refused_links
from fabricast.machine.gpus import downgraded_links
from fabricast.machine.machine import Machine
from fabricast.pcie.topology.path_classes import ClassMatrix
from fabricast.pcie.topology.tree import PcieTree

#: End of a warning about a narrow link, which concerns forecasts only.
#: Words of the note that all hosts have one topology.
SAME_ON_ALL = "is the same on all"
_IN_FORECASTS = "; the forecast uses the smaller width"
#: Remedy of a warning about the topology.
REMEDIES = {
    WarningCode.DOWNGRADED_LINK: "reseat the card, replace the riser or use another slot; check 'lspci -vv' (LnkSta)",
    WarningCode.UNEQUAL_DIRECT_LINKS: "check 'nvidia-smi nvlink -s' and '-e', the fabric manager "
    "('systemctl status nvidia-fabricmanager') and Xid messages ('dmesg | grep Xid')",
    WarningCode.ACCESS_CONTROL: "disable ACS of these ports (BIOS, or 'setpci' on ACSCtl) and the IOMMU",
    WarningCode.NO_PEER_ACCESS: "check driver, IOMMU, ACS and virtualisation; direct copies need peer access",
    WarningCode.SMALL_PAYLOAD: "raise MaxPayload in the BIOS, or boot with pci=pcie_bus_perf ('lspci -vv', DevCtl)",
    WarningCode.SLOW_LINKS: "check 'lspci -vv' (LnkSta) while the GPUs copy",
    WarningCode.CARD_ON_OTHER_SOCKET: "move a card to that NUMA node, or bind the job to the GPUs that have one nearer",
    WarningCode.FILES_CONTRADICT: CONTRADICTING_FILES,
    WarningCode.GPU_MODELS_DIFFER: "use files of one machine",
}
_UNEQUAL_HOSTS = (
    "compare both hosts: 'nvidia-smi nvlink -s', 'nvidia-smi -q' (fabric state), 'lspci -tv', and settings of the BIOS"
)
#: Class or links of each pair, by the names of both.
_Cells = tuple[tuple[str, str], ...]
#: Begin of the text of a narrow link.
_THE_LINK = "the link of "
#: Words of a narrow link that the port above explains, and the remedy.
PORT_ABOVE, _OTHER_SLOT = "the port above it", "use a slot with more lanes, or another bifurcation of the BIOS"
_MINOR_CODES = (WarningCode.FILES_CONTRADICT, WarningCode.GPU_MODELS_DIFFER)
_ACCESS_CODES = (WarningCode.NO_PEER_ACCESS, WarningCode.CARD_ON_OTHER_SOCKET)
#: PCI address in the text of a warning.
ADDRESS = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")


def unequal_topologies(facts: Facts) -> Iterator[Finding]:
    """Yield hosts whose matrix differs from that of most hosts, with the first pair that differs."""
    matrices = _matrices_of_hosts(facts)
    counts = Counter(cells for _, cells in matrices.values())
    if len(counts) < 2:
        return
    usual, most = counts.most_common(1)[0]
    alike = [host for host, (_, cells) in matrices.items() if cells == usual]
    who = f"{most} other hosts" if most > 1 else alike[0]
    for host, (fact, cells) in matrices.items():
        here, there = dict(cells), dict(usual)
        differing = [pair for pair in {**there, **here} if here.get(pair) != there.get(pair)]
        if differing:
            first = differing[0]
            more = f", and {len(differing) - 1} other pairs differ" if len(differing) > 1 else ""
            text = f"{host}: {first} is {here.get(first, 'missing')}, on {who} {there.get(first, 'missing')}{more}"
            yield Finding("host_differs_topology", text, _UNEQUAL_HOSTS, LINK, origin=str(fact.place), host=host)


def equal_topologies(facts: Facts) -> Iterator[str]:
    """Yield that all hosts have the same matrix."""
    matrices = _matrices_of_hosts(facts)
    if len(matrices) > 1 and len({cells for _, cells in matrices.values()}) == 1:
        yield f"{next(iter(matrices.values()))[0].program} {SAME_ON_ALL} {len(matrices)} hosts"


def _matrices_of_hosts(facts: Facts) -> dict[str, tuple[Fact, _Cells]]:
    """Return the matrix of each host that a text names."""
    return {
        fact.host: (fact, _cells(fact.value))
        for fact in facts.of(Quantity.TOPOLOGY)
        if fact.host and isinstance(fact.value, ClassMatrix)
    }


def _cells(matrix: ClassMatrix) -> _Cells:
    """Return the class or links of each pair, by the names of both."""
    short = {"NVLink": "NV"}.get(matrix.kind, matrix.kind)
    words = {**matrix.classes, **{pair: f"{short}{count}" for pair, count in matrix.links.items()}}
    names = matrix.names
    return tuple(sorted((f"{names[one]}-{names[other]}", word) for (one, other), word in words.items() if one < other))


def of_topology(machine: Machine, answers: Answers) -> Iterator[Finding]:
    """Yield faults that the files of a topology state; what is no fault becomes a statement or a note."""
    answers.statements += _gpus_without_card(machine.tree)
    yield from _links_without_access(machine)
    for warning in machine.tree.warnings:
        if warning.code is WarningCode.PEER_ACCESS_ASSUMED or (
            warning.code is WarningCode.NO_PEER_ACCESS and has_stock_driver(machine)
        ):
            # A state of the machine, no fault.
            linked = "; pairs with NVLink copy over it" if machine.tree.peer_links else ""
            answers.notes.append(f"{STOCK_DRIVER}{linked} ({_origin(machine.facts, warning)})")
        elif (
            warning.code is WarningCode.NO_PEER_ACCESS
            and not machine.models
            and not is_of_amd(machine.facts)
            and _has_only_staged_pairs(machine)
        ):
            text = f"{warning.text}; this is normal for GeForce cards: state the model (--gpu)"
            answers.statements.append(f"{text} ({_origin(machine.facts, warning)})")
        elif warning.code is WarningCode.CARD_ON_OTHER_SOCKET and not _has_several_nodes(machine.facts):
            # Copies within a node use no network card.
            answers.statements.append(f"{warning.text} ({_origin(machine.facts, warning)})")
        elif warning.code in REMEDIES:
            weight = MINOR if warning.code in _MINOR_CODES else ACCESS if warning.code in _ACCESS_CODES else LINK
            origin = _origin(machine.facts, warning)
            remedy = _OTHER_SLOT if PORT_ABOVE in warning.text else REMEDIES[warning.code]
            text = _with_number(machine.tree, warning.text).replace(_IN_FORECASTS, "")
            yield Finding(warning.code, text, remedy, weight, origin=origin)


def _links_without_access(machine: Machine) -> Iterator[Finding]:
    """Yield that pairs with direct links have no peer access, without which no copy uses the links."""
    refused = refused_links(machine.tree, machine.facts)
    if not refused:
        return
    pair, fact = next(iter(refused.items()))
    pairs = {frozenset(one) for one in refused}
    more = f" and {len(pairs) - 1} other pairs" if len(pairs) > 1 else ""
    text = (
        f"GPUs {' and '.join(pair)}{more} have {machine.tree.peer_link(*pair)}, but no peer access ({fact.value}): "
        "their copies pass through host memory"
    )
    remedy = "check the bridge ('nvidia-smi nvlink -s'), the driver ('nvidia-smi topo -p2p n'), and the container or "
    remedy += "virtual machine"
    yield Finding("unused_links", text, remedy, ACCESS + 0.3, origin=str(fact.place))


def missing_links(error: InputError) -> Finding:
    """Return the finding about GPUs that always have direct links, although a file shows none."""
    place = f"{error.path}:{error.line}" if error.line else str(error.path)
    remedy = REMEDIES[WarningCode.UNEQUAL_DIRECT_LINKS]
    return Finding("missing_direct_links", error.reason, remedy, LINK, origin=place)


def with_unused_links(machine: Machine, findings: Sequence[Finding]) -> list[Finding]:
    """Return findings; NCCL's hops through host memory are a fault where the topology has direct links."""
    unused = [one for one in findings if one.cause == "no_direct_copies"]
    if not unused or not machine.tree.peer_links:
        return list(findings)
    link = machine.tree.peer_links[0]
    text = (
        f"NCCL uses host memory (SHM) although the topology has {link.kind} between GPUs "
        f"{' and '.join(link.endpoints[:2])}: a setting, the container or the links prevent it"
    )
    remedy = f"unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL; {REMEDIES[WarningCode.UNEQUAL_DIRECT_LINKS]}"
    kept = [one for one in findings if one.cause != "no_direct_copies"]
    return [*kept, Finding("unused_links", text, remedy, ACCESS + 0.3, origin=unused[0].origin)]


def stated_links(facts: Facts) -> Iterator[Finding]:
    """Yield narrow and old links that reports about GPUs state, if no file describes the topology."""
    for block in facts.blocks_of(Content.GPUS):
        for warning in downgraded_links(block):
            text = f"{block.host}: {warning.text}".removeprefix(": ").replace(_IN_FORECASTS, "")
            origin = _origin(facts.where([block]), warning)
            yield Finding(warning.code, text, REMEDIES[warning.code], LINK, origin=origin, host=block.host)


def _has_only_staged_pairs(machine: Machine) -> bool:
    """Return whether no pair of GPUs has peer access."""
    count = len(machine.tree.accelerator_names)
    return len(set(machine.tree.staged_pairs)) == count * (count - 1) and not machine.has_direct_copies


def _with_number(tree: PcieTree, text: str) -> str:
    """Return a text about the link of a PCI address with the number of its GPU, or the kind of another device."""
    if not text.startswith(_THE_LINK):
        return text
    address = ADDRESS.search(text)
    named = {tree.vertex(name).label: name for name in tree.endpoint_names}
    name = None if address is None else named.get(address[0])
    if address is None or name is None:
        return text
    kind = "network card" if tree.vertex(name).network_card else f"GPU {name}"
    return text.replace(address[0], f"{kind} ({address[0]})", 1)


def _gpus_without_card(tree: PcieTree) -> Iterator[str]:
    """Yield the GPUs that have no network card below their switches, if others have one."""
    cards = [name for name in tree.endpoint_names if tree.vertex(name).network_card]
    near = {gpu: any(tree.path_class(gpu, card) in SWITCHED for card in cards) for gpu in tree.accelerator_names}
    without = [gpu for gpu, has_card in near.items() if not has_card]
    if without and len(without) < len(near):
        over_nvlink = ", or over NVLink and another GPU (PXN)" if tree.peer_links else ""
        yield (
            f"GPU {', '.join(without)}: no network card below their PCIe switches, the other "
            f"{len(near) - len(without)} GPUs have one: between nodes these GPUs send over the processors{over_nvlink}"
        )


def _has_several_nodes(facts: Facts) -> bool:
    """Return whether a log is of several nodes."""
    runs, tables = facts.values(Quantity.NCCL_RUN), facts.values(Quantity.COLLECTIVE)
    return any(log.nodes > 1 for log in runs) or any(table.hosts > 1 for table in tables)


def _origin(facts: Facts, warning: CodedWarning) -> str:
    """Return the line of the first device that a warning names, or the files that state its kind."""
    if warning.code is WarningCode.NO_PEER_ACCESS:
        refused = [fact for fact in facts.of(Quantity.PEER_ACCESS) if fact.value]
        if refused:
            return str(min(refused, key=lambda fact: fact.kind).place)
    if warning.code is WarningCode.UNEQUAL_DIRECT_LINKS:
        return ", ".join(str(fact.place) for fact in facts.of(Quantity.TOPOLOGY))
    address = ADDRESS.search(warning.text)
    if address is not None:
        if warning.code is WarningCode.DOWNGRADED_LINK:
            named = [fact for fact in facts.of(Quantity.GPU_ADDRESS) if fact.value == address[0]]
            for width in facts.of(Quantity.CURRENT_WIDTH):
                if any((one.program, one.subject) == (width.program, width.subject) for one in named):
                    return str(width.place)
            if described := _place_of_device(facts, address[0]):
                return described
        for fact in facts.of(Quantity.GPU_ADDRESS):
            if fact.value == address[0] and fact.kind is Kind.STATED:
                return str(fact.place)
        if described := _place_of_device(facts, address[0]):
            return described
    blocks = [block.place.path for block in facts.blocks_of(Content.TOPOLOGY, Content.GPUS) if block.facts]
    return ", ".join(dict.fromkeys(blocks))


def _place_of_device(facts: Facts, address: str) -> str:
    """Return file and line of a device in the first description that has it; empty if none has."""
    for fact in facts.of(Quantity.TOPOLOGY):
        if line := _line_of_device(fact, address):
            return f"{fact.place.path}:{line}"
    return ""


def _line_of_device(fact: Fact, address: str) -> int:
    """Return the line of a device in a description; 0 if it has none."""
    waiting = list(getattr(fact.value, "sockets", ()))
    while waiting:
        device = waiting.pop()
        if device.bus_id.lower() == address:
            return int(device.line)
        waiting += device.children
    return 0


#: Way between two GPUs by its class of 'nvidia-smi topo -m'.
_WAYS = {
    "PIX": "below one switch",
    "PXB": "below several switches",
    "PHB": "below one host bridge",
    "NODE": "within one NUMA node",
    "SYS": "between NUMA nodes",
}


def links_of_gpus(tree: PcieTree, *, has_paths: bool = True) -> str:
    """Return how many GPUs a topology has, and between how many pairs of them there are direct links or which paths."""
    gpus = len(tree.accelerator_names)
    pairs = {frozenset(pair) for link in tree.peer_links for pair in combinations(link.endpoints, 2)}
    every = gpus * (gpus - 1) // 2
    if gpus == 1:
        return "1 GPU"
    if not pairs and any(one.code is WarningCode.PEER_LINKS_UNKNOWN for one in tree.warnings):
        return f"{gpus} GPUs, whose direct links (NVLink) the program does not print"
    if not pairs and not has_paths:
        return f"{gpus} GPUs, whose copies pass over PCIe"
    if not pairs:
        ways = Counter(tree.path_class(*pair) for pair in combinations(tree.accelerator_names, 2))
        counts = [(f"{ways[one]} pair{'s' if ways[one] > 1 else ''}", one) for one in _WAYS if one in ways]
        words = [f"{count} {_WAYS[one]} ({one})" for count, one in counts]
        return f"{gpus} GPUs, whose copies pass over PCIe: {', '.join(words)}"
    kinds = listed(sorted({link.kind for link in tree.peer_links}), 3)
    return f"{gpus} GPUs, {kinds} between {'all' if len(pairs) == every else f'{len(pairs)} of {every}'} pairs"
