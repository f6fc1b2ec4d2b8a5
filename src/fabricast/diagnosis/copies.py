"""Measured copies compared with the topology, with each other and with public machines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import listed
from fabricast.core.warnings import CodedWarning, CopyWarning, WarningCode
from fabricast.diagnosis.answers import Answers, paths_of
from fabricast.diagnosis.matrices import (
    CHECK_ACCESS,
    MeasuredRate,
    late_copies,
    pairs_without_access,
    rates_without_topology,
    refused_access,
    slow_copies_by_file,
    slow_copies_without_topology,
    slow_gpus,
    slow_host_copies,
    slow_pairs,
    states_direct_links,
    unused_nvlinks,
)
from fabricast.diagnosis.measured import ComparedRate, below_public_machines, compared_rates
from fabricast.diagnosis.topology import REMEDIES
from fabricast.diagnosis.weights import CONTRADICTION
from fabricast.machine.machine import Machine
from fabricast.machine.options import MachineOptions
from fabricast.machine.staged import slow_staged_copies
from fabricast.pcie.machines.validation import validate_rates
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.parts import pci_address

#: Codes of causes that name a GPU, a direction or a transport.
_SPECIFIC = (
    WarningCode.SLOW_ENDPOINT,
    WarningCode.SLOW_DIRECTION,
    WarningCode.SLOWER_THAN_STAGED,
    WarningCode.SLOW_BELOW_SWITCH,
    WarningCode.SLOW_BETWEEN_SOCKETS,
)
_PAIR = re.compile(r"(\w{1,40})>(\w{1,40})")
_SLOW_GPU = re.compile(r"GPU (\d{1,3})(?= (?:reaches|sends|receives) )")
#: Share of the rate through host memory below which direct copies are slower.
_AS_FAST = 0.95
_REPEAT = "check 'lspci -vv' (LnkSta, ACSCtl) while the GPUs copy, and measure again"
_OF_ONE_GPU = (
    "compare LnkSta with LnkCap of this GPU in 'sudo lspci -vv' while it copies: fewer lanes or an older generation "
    "are of its slot, a riser or the BIOS; reseat it or exchange it with another one, and measure again"
)
#: Most files of one statement.
_MOST_FILES = 4
_MEMORY_REMEDY = (
    "check that each NUMA node has memory ('numactl --hardware') in all its channels, the binding of processes, and "
    "the NUMA setting (NPS) of the BIOS"
)
_COPY_REMEDIES = {
    WarningCode.SLOW_ENDPOINT: _OF_ONE_GPU,
    WarningCode.SLOWER_THAN_STAGED: CHECK_ACCESS,
    WarningCode.SLOW_BELOW_SWITCH: "disable ACS of the switch (BIOS, or 'setpci' on ACSCtl) and the IOMMU",
    WarningCode.SLOW_BETWEEN_SOCKETS: "compare with NCCL_P2P_LEVEL=NODE; check the NUMA setting (NPS) of the BIOS",
}


def compare_matrices(facts: Facts, options: MachineOptions, answers: Answers) -> None:
    """Add what measured copies say without a topology."""
    slow = list(slow_copies_without_topology(facts)) or list(slow_host_copies(facts))
    slow += late_copies(facts)
    slow += [one for one in slow_copies_by_file(facts) if one.origin not in {known.origin for known in slow}]
    slow = [_with_gpu_address(one, facts) for one in slow]
    without_access = list(pairs_without_access(facts, options))
    answers.findings += [*slow, *without_access]
    if not without_access:
        answers.statements += refused_access(facts)
    board = unused_nvlinks(facts, options)
    answers.findings += [] if board is None else [board]
    # Without its NVLinks, a board has no expectation for direct copies.
    rates = [
        one for one in rates_without_topology(facts, options) if board is None or not one.words.startswith("direct")
    ]
    for compared in rates:
        below = _judged(compared, answers)
        if below is not None and not slow:
            answers.findings.append(below)
    if slow or rates:
        answers.compared += len(paths_of(facts, Content.COPIES))


def _judged(compared: ComparedRate, answers: Answers, *, knows_links: bool = False) -> Finding | None:
    """Return the finding about a rate below those of public machines; add other rates to the answers."""
    # A file that states a link too narrow for its copies is named as such.
    if compared.exceeds_link and not (knows_links and compared.is_between_gpus):
        answers.uncompared.append(compared.other_link_text)
        return None
    below = below_public_machines(compared, knows_links=knows_links)
    if below is None:
        answers.within.append(str(compared))
    return below


def _with_gpu_address(finding: Finding, facts: Facts) -> Finding:
    """Return the finding about a slow GPU with its address, if its file has it: states of the GPU name addresses."""
    match = _SLOW_GPU.match(finding.text)
    blocks = (one for one in facts.blocks_of(Content.COPIES) if one.place.path == finding.origin.rpartition(":")[0])
    address = next((one.addresses[match[1]] for one in blocks if match[1] in one.addresses), "") if match else ""
    if match is None or not address:
        return finding
    return replace(finding, text=f"GPU {match[1]} ({address}){finding.text[match.end() :]}", device=f"GPU {match[1]}")


def compare_copies(machine: Machine, facts: Facts, answers: Answers) -> None:
    """Add what measured copies say, by themselves and compared with public machines."""
    with_copies = paths_of(facts, Content.COPIES)
    if not with_copies:
        return
    try:
        found = list(_of_copies(machine))
        found += late_copies(facts)
        found += [] if any(one.cause in _SPECIFIC for one in found) else _slow_gpus(machine) or slow_host_copies(facts)
        named = {one.cause for one in found} & {*_SPECIFIC, WarningCode.SLOW_COPIES}
        pairs = [] if named - {WarningCode.SLOW_DIRECTION} else list(_slow_pairs(machine))
        if named:
            # The GPU that all pairs with a slow direction have says more than these pairs.
            pairs = [one for one in pairs if one.cause == WarningCode.SLOW_ENDPOINT]
        if pairs:
            found = [one for one in found if not _is_explained(one, pairs)] + pairs
        rates = list(compared_rates(machine))
        # Links that files state as wide are not narrow.
        knows_links = any(facts.of(Quantity.CURRENT_WIDTH)) or any(
            block.program.startswith("lspci -vv") for block in facts.blocks
        )
    except InputError as error:
        slow = [_with_gpu_address(one, facts) for one in slow_copies_without_topology(facts)]
        if slow:
            # The copies are compared with each other.
            answers.findings += slow
            answers.compared += len(with_copies)
            return
        if states_direct_links(facts):
            # The rate of PCIe, which the error names, is of no copy.
            return
        text = f"{error}: the measured copies are not compared"
        answers.warnings.append(CodedWarning(WarningCode.PART_UNREADABLE, text))
        answers.uncompared.append(str(error))
        return
    answers.compared += len(with_copies)
    # A slow GPU or direction, or a slow link, explains other slow copies.
    is_explained = any(one.cause in _SPECIFIC for one in found)
    for compared in rates:
        below = _judged(compared, answers, knows_links=knows_links)
        if below is not None and not is_explained:
            found.append(below)
            is_explained = True
    by_file = list(slow_copies_by_file(facts))
    known = {match[1] for one in found if (match := _SLOW_GPU.match(one.text)) is not None}
    again = [one for one in by_file if (match := _SLOW_GPU.match(one.text)) is not None and match[1] in known]
    if again:
        # Each file shows what all show together.
        by_file = [one for one in by_file if one not in again]
        places = listed(sorted({one.origin.rpartition(":")[0] for one in again}), _MOST_FILES)
        answers.notes.append(f"the slow copies of GPU {', '.join(sorted(known))} are in {places}")
    if by_file:
        # Files that differ contradict their common calibration.
        found = [one for one in found if one.cause != WarningCode.CALIBRATION_CONTRADICTED]
    answers.findings += [*found, *by_file]


def _is_explained(finding: Finding, slow: Sequence[Finding]) -> bool:
    """Return whether slow pairs or a slow GPU explain a contradicted calibration, or pairs that are slow one way."""
    if finding.cause != WarningCode.SLOW_DIRECTION:
        return finding.cause == WarningCode.CALIBRATION_CONTRADICTED
    gpus = {match[1] for one in slow if (match := _SLOW_GPU.match(one.text)) is not None}
    return all(gpus & set(pair) for pair in _PAIR.findall(finding.text))


def _slow_gpus(machine: Machine) -> list[Finding]:
    """Return GPUs that are slow through host memory although all pairs have one path class and links of one width."""
    width = {gpu: machine.tree.vertex(gpu).width for gpu in machine.tree.accelerator_names}
    if len(set(width.values())) > 1:
        return []
    staged = {pair: MeasuredRate(fact.value, str(fact.place)) for pair, fact in machine.measured.staged.items()}
    if len({machine.tree.path_class(*pair) for pair in staged}) != 1:
        return []
    return list(slow_gpus("copies through host memory", staged, is_one_processor=True))


def _slow_pairs(machine: Machine) -> Iterator[Finding]:
    """Yield pairs of GPUs that are much slower than others of their path class."""
    gpus = set(machine.tree.accelerator_names)
    direct = {
        graph.flows[0]: MeasuredRate(graph.total_bytes_per_s, f"{graph.path}:{graph.line}")
        for graph in machine.graphs
        if len(graph.flows) == 1 and set(graph.flows[0]) <= gpus
    }
    staged = {pair: MeasuredRate(fact.value, str(fact.place)) for pair, fact in machine.measured.staged.items()}
    linked = {pair: rate for pair, rate in direct.items() if machine.tree.peer_link(*pair) is not None}
    over_pcie = {pair: rate for pair, rate in direct.items() if pair not in linked}
    for kind, rates in (("direct copies", over_pcie), ("copies through host memory", staged)):
        yield from slow_pairs(kind, rates, lambda pair: machine.tree.path_class(*pair))
    # Pairs with different numbers of links have different rates.
    stated = {pair: f"{(machine.tree.copy_bytes_per_s(*pair) or 0) / 1e9:.4g} GB/s" for pair in linked}
    is_even = len(set(stated.values())) == 1
    yield from slow_pairs("direct copies", linked, lambda pair: "" if is_even else stated[pair], are_linked=True)


def _of_copies(machine: Machine) -> Iterator[Finding]:
    """Compare measured copies with the topology and with each other."""
    for slow in slow_staged_copies(machine):
        staged = machine.measured.staged.items()
        exact = [one for pair, one in staged if pair == slow.ends]
        fact = (exact or [one for pair, one in staged if set(slow.ends) & set(pair)])[0]
        is_between = slow.code is WarningCode.SLOW_BETWEEN_SOCKETS
        remedy = _MEMORY_REMEDY if is_between else _COPY_REMEDIES.get(slow.code, _REPEAT)
        yield Finding(slow.code, slow.text, remedy, CONTRADICTION, origin=str(fact.place))
    if not machine.is_measured:
        return
    validation = validate_rates(
        machine.with_memory, machine.graphs, machine.calibration, warnings=tuple(machine.measured.warnings)
    )
    found = [warning for warning in validation.warnings if warning.code.is_contradiction]
    if any(warning.code is WarningCode.SLOWER_THAN_STAGED for warning in found):
        # What slows all direct copies explains slow GPUs, directions and classes among them.
        found = [warning for warning in found if warning.code is WarningCode.SLOWER_THAN_STAGED]
    if any(warning.code in _SPECIFIC for warning in found):
        # A slow GPU or direction explains why copies of one class differ.
        found = [warning for warning in found if warning.code is not WarningCode.CALIBRATION_CONTRADICTED]
    for warning in found:
        if warning.code is WarningCode.SLOWER_THAN_STAGED and (between := _between_processors(machine)) is not None:
            yield between
            continue
        remedy = _COPY_REMEDIES.get(warning.code, _REPEAT)
        if "nvidia-smi nvlink" in warning.text:
            remedy = REMEDIES[WarningCode.UNEQUAL_DIRECT_LINKS]
        origin = _place_of(warning, machine.graphs)
        weight = CONTRADICTION + 0.02 * (warning.code is WarningCode.SLOWER_THAN_STAGED)
        yield Finding(warning.code, _with_address(machine, warning), remedy, weight, origin=origin)


def _between_processors(machine: Machine) -> Finding | None:
    """Return that exactly the direct copies between processors are slower than those through host memory, if so."""
    staged = {pair: float(fact.value) for pair, fact in machine.measured.staged.items()}
    direct = {one.flows[0]: one for one in machine.graphs if len(one.flows) == 1 and one.flows[0] in staged}
    slower = {pair for pair, one in direct.items() if one.total_bytes_per_s < _AS_FAST * staged[pair]}
    between = {pair for pair in direct if machine.tree.path_class(*pair) == "SYS"}
    if not slower or slower != between or between == direct.keys():
        return None
    worst = min(sorted(slower), key=lambda pair: direct[pair].total_bytes_per_s / staged[pair])
    text = (
        f"direct copies of the {len(slower)} pairs between processors (SYS) are slower than their copies through host "
        f"memory, for example {'>'.join(worst)} with {direct[worst].total_bytes_per_s / 1e9:.4g} and "
        f"{staged[worst] / 1e9:.4g} GB/s; those within a processor are not"
    )
    remedy = "NCCL_P2P_LEVEL=NODE keeps copies between processors on host memory; check the NUMA setting of the BIOS"
    origin = f"{direct[worst].path}:{direct[worst].line}"
    return Finding(WarningCode.SLOWER_THAN_STAGED, text, remedy, CONTRADICTION + 0.02, origin=origin)


def _with_address(machine: Machine, warning: CodedWarning) -> str:
    """Return the text of a warning about one GPU with its address."""
    ends = warning.ends if isinstance(warning, CopyWarning) else ()
    address = machine.tree.vertex(ends[0]).label if len(ends) == 1 else ""
    if not pci_address(address) or address in warning.text:
        return warning.text
    return warning.text.replace(f"GPU {ends[0]} ", f"GPU {ends[0]} ({address}) ", 1)


def _place_of(warning: CodedWarning, graphs: Sequence[MeasuredGraph]) -> str:
    """Return the place of the slowest single copy that shows a warning, or that of the first copies."""
    ends, name = (warning.ends, warning.graph) if isinstance(warning, CopyWarning) else ((), "")
    named = next((graph for graph in graphs if graph.name == name), None)
    singles = [graph for graph in graphs if len(graph.flows) == 1]
    shown = [graph for graph in singles if graph.flows[0] == ends or (len(ends) == 1 and ends[0] in graph.flows[0])]
    if not shown and warning.code is WarningCode.SLOW_ENDPOINT:
        # A slow link between switches: the slowest copies use it.
        shown = singles
    if named is None and shown:
        named = min(shown, key=lambda graph: (graph.total_bytes_per_s, graph.flows[0][:1] != ends[:1]))
    graph = named or graphs[0]
    return f"{graph.path}:{graph.line}" if graph.line else graph.path
