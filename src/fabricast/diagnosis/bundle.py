"""Diagnosis of all files of a machine: every measurement is compared with its expectation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fabricast.collectives.diagnosis import Cause, diagnose_collective
from fabricast.collectives.forecast import forecast_prepared
from fabricast.collectives.question import Question, prepare
from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Fact, Facts, Kind, Quantity
from fabricast.core.findings import Finding
from fabricast.core.warnings import CodedWarning, CopyWarning, WarningCode
from fabricast.diagnosis.logs import log_findings, wrong_results
from fabricast.diagnosis.source_texts import source_text
from fabricast.diagnosis.weights import ACCESS, CONTRADICTION, LINK
from fabricast.machine.build import MACHINE_CONTENTS, machine_from
from fabricast.machine.machine import Machine
from fabricast.machine.options import MachineOptions
from fabricast.machine.staged import slow_staged_copies
from fabricast.nccl.records import NcclTestsTable
from fabricast.pcie.machines.validation import validate_rates
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.tree import PcieTree
from fabricast.sources.formats import names_of
from fabricast.sources.nccl_tests import MOST_TABLES

__all__ = ["Diagnosis", "diagnose_facts"]

#: Maximum number of findings.
MOST_FINDINGS = 10
#: Remedy of a warning about the topology.
_REMEDIES = {
    WarningCode.DOWNGRADED_LINK: "reseat the card, replace the riser or use another slot; check 'lspci -vv' (LnkSta)",
    WarningCode.ACCESS_CONTROL: "disable ACS of these ports (BIOS, or 'setpci' on ACSCtl) and the IOMMU",
    WarningCode.NO_PEER_ACCESS: "check driver, IOMMU, ACS and virtualisation; direct copies need peer access",
    WarningCode.SMALL_PAYLOAD: "raise MaxPayload in the BIOS, or boot with pci=pcie_bus_perf ('lspci -vv', DevCtl)",
    WarningCode.SLOW_LINKS: "check 'lspci -vv' (LnkSta) while the GPUs copy",
    WarningCode.CARD_ON_OTHER_SOCKET: "move a card to that socket, or bind the job to the GPUs of the card's socket",
    WarningCode.FILES_CONTRADICT: "use files of one machine that were written at the same time",
    WarningCode.GPU_MODELS_DIFFER: "use files of one machine",
}
_ACCESS_CODES = (WarningCode.NO_PEER_ACCESS, WarningCode.CARD_ON_OTHER_SOCKET)
#: Codes of causes that name a GPU, a direction or a transport.
_SPECIFIC = (
    WarningCode.SLOW_ENDPOINT,
    WarningCode.SLOW_DIRECTION,
    WarningCode.SLOWER_THAN_STAGED,
    WarningCode.SLOW_BELOW_SWITCH,
    WarningCode.SLOW_BETWEEN_SOCKETS,
)
_REPEAT = "check 'lspci -vv' (LnkSta, ACSCtl) while the GPUs copy, and measure again"
_COPY_REMEDIES = {
    WarningCode.SLOW_BELOW_SWITCH: "disable ACS of the switch (BIOS, or 'setpci' on ACSCtl) and the IOMMU",
    WarningCode.SLOW_BETWEEN_SOCKETS: "compare with NCCL_P2P_LEVEL=NODE; check the NUMA setting (NPS) of the BIOS",
}
#: PCI address in the text of a warning.
_ADDRESS = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")


@dataclass(frozen=True)
class Diagnosis:
    """Findings about a machine.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    sources : tuple of str
        What was recognised in each file.
    findings : tuple of Finding
        At most ten findings, most costly first.
    omitted : int
        Number of further findings.
    warnings : tuple of CodedWarning
        Assumptions.
    measured, compared : int
        Number of files with measured copies and of tables of nccl-tests, and how many are compared with their
        expectation.
    damaged : int
        Number of files of known programs that cannot be read completely.
    """

    tree: PcieTree
    sources: tuple[str, ...]
    findings: tuple[Finding, ...]
    omitted: int
    warnings: tuple[CodedWarning, ...]
    measured: int
    compared: int
    damaged: int


def diagnose_facts(facts: Facts, options: MachineOptions) -> Diagnosis:
    """Compare every measured pair and collective operation of a machine with its expectation."""
    _check_any_usable(facts)
    machine = machine_from(facts, options)
    findings: list[Finding] = [*_of_topology(machine), *log_findings(facts), *wrong_results(facts)]
    warnings: list[CodedWarning] = list(machine.warnings)
    with_copies = _paths_of(facts, Content.COPIES)
    compared = 0
    try:
        findings += _of_copies(machine)
        compared += len(with_copies)
    except InputError as error:
        warnings.append(CodedWarning(WarningCode.PART_UNREADABLE, f"{error}: the measured copies are not compared"))
    for fact in machine.tables[:MOST_TABLES]:
        try:
            found, assumed = _of_collective(machine, fact)
        except InputError as error:
            # Tables of several hosts, of other GPUs or over NVLink: the rest of the bundle is compared.
            text = f"{fact.place}: the table is not compared: {error.reason}"
            warnings.append(CodedWarning(WarningCode.LOG_ROWS_EXCLUDED, text))
            continue
        findings += found
        warnings += assumed
        compared += 1
    all_tables = len(machine.tables) + sum(fact.value for fact in facts.of(Quantity.UNREAD_TABLES))
    if all_tables > MOST_TABLES:
        text = f"{all_tables - MOST_TABLES:,} of {all_tables:,} tables of nccl-tests are not compared"
        warnings.append(CodedWarning(WarningCode.LOG_ROWS_EXCLUDED, text))
    ranked = sorted(_unique(findings), key=lambda one: -one.gain)
    return Diagnosis(
        machine.tree,
        tuple(source_text(file) for file in facts.files),
        tuple(ranked[:MOST_FINDINGS]),
        max(len(ranked) - MOST_FINDINGS, 0),
        tuple(dict.fromkeys(warnings)),
        len(with_copies) + all_tables,
        compared,
        _damaged_files(facts),
    )


def _check_any_usable(facts: Facts) -> None:
    """Raise an error if no file can be used."""
    if any(block.facts and block.content in MACHINE_CONTENTS for block in facts.blocks):
        return
    if facts.problems:
        raise facts.problems[0]
    file = facts.files[0]
    text = "is empty" if file.is_empty else f"was written by no known program, expected {names_of(*MACHINE_CONTENTS)}"
    if file.blocks:
        text = f"has {file.blocks[0].content} ({file.blocks[0].program}){file.blocks[0].hint}"
    raise InputError(f"{text}{file.hint}", path=file.path)


def _damaged_files(facts: Facts) -> int:
    return sum(bool(file.problem or file.hint or any(block.problems for block in file.blocks)) for file in facts.files)


def _paths_of(facts: Facts, content: Content) -> set[str]:
    """Return the files with facts of a content."""
    return {block.place.path for block in facts.blocks_of(content) if block.facts}


def _unique(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with different causes and texts: several tables repeat those of the machine."""
    kept: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = (finding.cause, finding.text)
        if key not in kept or kept[key].gain < finding.gain:
            kept[key] = finding
    return list(kept.values())


def _of_topology(machine: Machine) -> Iterator[Finding]:
    for warning in machine.tree.warnings:
        if warning.code in _REMEDIES:
            weight = ACCESS if warning.code in _ACCESS_CODES else LINK
            origin = _origin(machine.facts, warning)
            yield Finding(warning.code, warning.text, _REMEDIES[warning.code], weight, origin=origin)


def _origin(facts: Facts, warning: CodedWarning) -> str:
    """Return the line of the first device that a warning names, or the files that state its kind."""
    if warning.code is WarningCode.NO_PEER_ACCESS:
        refused = [fact for fact in facts.of(Quantity.PEER_ACCESS) if fact.value]
        if refused:
            return str(min(refused, key=lambda fact: fact.kind).place)
    address = _ADDRESS.search(warning.text)
    if address is not None:
        for fact in facts.of(Quantity.GPU_ADDRESS):
            if fact.value == address[0] and fact.kind is Kind.STATED:
                return str(fact.place)
        for fact in facts.of(Quantity.TOPOLOGY):
            line = _line_of_device(fact, address[0])
            if line:
                return f"{fact.place.path}:{line}"
    described = [block.place.path for block in facts.blocks_of(Content.TOPOLOGY, Content.GPUS) if block.facts]
    return ", ".join(dict.fromkeys(described))


def _line_of_device(fact: Fact, address: str) -> int:
    """Return the line of a device in a description; 0 if it has none."""
    waiting = list(getattr(fact.value, "sockets", ()))
    while waiting:
        device = waiting.pop()
        if device.bus_id.lower() == address:
            return int(device.line)
        waiting += device.children
    return 0


def _of_copies(machine: Machine) -> Iterator[Finding]:
    """Compare measured copies with the topology and with each other."""
    for slow in slow_staged_copies(machine):
        fact = next(one for pair, one in machine.measured.staged.items() if set(slow.ends) & set(pair))
        yield Finding(slow.code, slow.text, _REPEAT, CONTRADICTION, origin=str(fact.place))
    if not machine.is_measured:
        return
    validation = validate_rates(
        machine.with_memory, machine.graphs, machine.calibration, warnings=tuple(machine.measured.warnings)
    )
    found = [warning for warning in validation.warnings if warning.code.is_contradiction]
    if any(warning.code in _SPECIFIC for warning in found):
        # A slow GPU or direction explains why copies of one class differ.
        found = [warning for warning in found if warning.code is not WarningCode.CALIBRATION_CONTRADICTED]
    for warning in found:
        remedy = _COPY_REMEDIES.get(warning.code, _REPEAT)
        origin = _place_of(warning, machine.graphs)
        yield Finding(warning.code, warning.text, remedy, CONTRADICTION, origin=origin)


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


def _of_collective(machine: Machine, fact: Fact) -> tuple[list[Finding], tuple[CodedWarning, ...]]:
    """Compare one table of nccl-tests with its forecast."""
    table: NcclTestsTable = fact.value
    if table.operation is None:
        raise InputError("does not name its operation")
    runs = machine.nccl_runs
    run = next((one for one in runs if one.place.path == fact.place.path), next(iter(runs), None))
    forecast = forecast_prepared(prepare(machine, table.operation, Question(table=fact, run=run)))
    found = [
        replace(one, text=f"{table.operation}: {one.text}", origin=f"{fact.place.path}:{_rows(table, one)}")
        for one in diagnose_collective(forecast)
    ]
    if not any(one.cause == Cause.SLOWER_THAN_FORECAST for one in found):
        # The machine does what is expected of it: only changes with a forecast gain are findings.
        found = [one for one in found if one.gain > 1]
    return found, forecast.warnings


def _rows(table: NcclTestsTable, finding: Finding) -> str:
    """Return the first and last line of the rows of a range of sizes, or the line of the header."""
    low, high = finding.sizes or (0.0, float("inf"))
    lines = [row.line for row in table.rows if low <= row.size_bytes <= high] or [table.line]
    first, last = min(lines), max(lines)
    return str(first) if first == last else f"{first}-{last}"
