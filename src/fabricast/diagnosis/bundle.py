"""Diagnosis of all files of a machine: every measurement is compared with its expectation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pandas as pd

from fabricast.collectives.diagnosis import STOCK_DRIVER, Cause, diagnose_collective, has_stock_driver
from fabricast.collectives.forecast import forecast_prepared
from fabricast.collectives.question import Question, prepare
from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Fact, Facts, Kind, Quantity
from fabricast.core.findings import Finding
from fabricast.core.warnings import CodedWarning, CopyWarning, WarningCode
from fabricast.diagnosis.cluster_forecasts import cluster_forecast, compare_with_forecast
from fabricast.diagnosis.clusters import ComparedTable, compare_with_public, log_of
from fabricast.diagnosis.curves import slower_than_larger
from fabricast.diagnosis.fabric import fabric_findings
from fabricast.diagnosis.matrices import CHECK_ACCESS, rates_without_topology, slow_copies_without_topology
from fabricast.diagnosis.measured import (
    CONTRADICTING_FILES,
    below_public_machines,
    compared_rates,
    without_refuted_links,
)
from fabricast.diagnosis.messages import count_of_files, late_rendezvous, slow_message_files
from fabricast.diagnosis.runs import slow_runs
from fabricast.diagnosis.settings import costly_settings, settings_without_forecast, switched_off_links
from fabricast.diagnosis.source_texts import is_used, source_text
from fabricast.diagnosis.statements import (
    card_states,
    gpu_states,
    log_findings,
    nccl_problems,
    stated,
    stated_causes,
    wrong_results,
)
from fabricast.diagnosis.verdict import Verdict, is_refuted, is_within, verdict_of, within_text
from fabricast.diagnosis.weights import ACCESS, CONTRADICTION, LINK, MINOR, SYMPTOM
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.inputs.pair_rates import SWITCHED
from fabricast.machine.build import MACHINE_CONTENTS, machine_from
from fabricast.machine.gpus import downgraded_links
from fabricast.machine.machine import Machine
from fabricast.machine.options import MachineOptions
from fabricast.machine.staged import slow_staged_copies
from fabricast.nccl.records import NcclLog, NcclTestsTable
from fabricast.pcie.machines.validation import validate_rates
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.parts import pci_address
from fabricast.pcie.topology.tree import PcieTree
from fabricast.sources.formats import names_of
from fabricast.sources.nccl_tests import MOST_TABLES

__all__ = ["Diagnosis", "diagnose_facts"]

#: Maximum number of findings.
MOST_FINDINGS = 10
#: Remedy of a warning about the topology.
_REMEDIES = {
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
#: Begin of the text of a narrow link.
_THE_LINK = "the link of "
#: Words of a narrow link that the port above explains, and the remedy.
_PORT_ABOVE, _OTHER_SLOT = "the port above it", "use a slot with more lanes, or another bifurcation of the BIOS"
#: Causes that state one fact, the most certain one first.
_SAME_FACT = (
    ("network_in_host", "no_peer_access", "no_direct_copies", Cause.HOST_MEMORY_TRANSPORT),
    (WarningCode.SLOW_ENDPOINT, "below_public_machines", WarningCode.SLOW_COPIES, WarningCode.IMPLAUSIBLE_RATE),
    ("network_in_host", Cause.HOST_MEMORY_RATE),
)
#: Causes that a driver without peer access explains.
_NO_DIRECT_COPIES = ("no_direct_copies", "no_peer_access")
#: Causes that only the model knows, and which a user may leave as they are.
_PROPOSALS = (Cause.PROTOCOL_CHOICE, Cause.NO_GRAPH_FOUND, Cause.RING_ORDER, Cause.CHUNK_SIZE)
#: Contents that say something without a topology.
_WITHOUT_TOPOLOGY = (Content.COLLECTIVES, Content.GPUS, Content.STATES, Content.NCCL_LOG, Content.COPIES)
_MINOR_CODES = (WarningCode.FILES_CONTRADICT, WarningCode.GPU_MODELS_DIFFER)
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
_MEMORY_REMEDY = (
    "check that each NUMA node has memory ('numactl --hardware') in all its channels, the binding of processes, and "
    "the NUMA setting (NPS) of the BIOS"
)
_COPY_REMEDIES = {
    WarningCode.SLOWER_THAN_STAGED: CHECK_ACCESS,
    WarningCode.SLOW_BELOW_SWITCH: "disable ACS of the switch (BIOS, or 'setpci' on ACSCtl) and the IOMMU",
    WarningCode.SLOW_BETWEEN_SOCKETS: "compare with NCCL_P2P_LEVEL=NODE; check the NUMA setting (NPS) of the BIOS",
}
#: Causes by the state of a device, which explain slow copies of it.
_STATES = ("gpu_errors", WarningCode.DOWNGRADED_LINK)
#: PCI address in the text of a warning.
_ADDRESS = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Findings about a machine.

    Parameters
    ----------
    verdict : Verdict
        Answer in one line; it never contradicts the findings.
    sources : tuple of str
        What was recognised in each file.
    statements : tuple of str
        What the files state about runs and GPUs, with place.
    findings : tuple of Finding
        At most ten causes: what files state, then what measurements say by themselves, then what the model says.
    omitted : int
        Number of further findings.
    warnings : tuple of CodedWarning
        Assumptions.
    measured, compared : int
        Number of files with measured copies and of tables of nccl-tests, and how many are compared with their
        expectation.
    damaged : int
        Number of files of known programs that cannot be read completely.
    tree : PcieTree or None
        Topology; None if the files describe none.
    """

    verdict: Verdict
    sources: tuple[str, ...]
    statements: tuple[str, ...]
    findings: tuple[Finding, ...]
    omitted: int
    warnings: tuple[CodedWarning, ...]
    measured: int
    compared: int
    damaged: int
    tree: PcieTree | None = None

    def __repr__(self) -> str:
        causes = [f"{number}. {one.text} [{one.cause}]" for number, one in enumerate(self.findings, 1)]
        return "\n".join([str(self.verdict), *causes])

    @property
    def has_causes(self) -> bool:
        """Whether there is a cause of lost time or a damaged file: exit code 1 of the command.

        Other choices of NCCL that the model prefers are proposals; hops through host memory by themselves are no fault.
        """
        faults = [one for one in self.findings if one.cause not in _PROPOSALS]
        return bool(self.damaged or any(one.cause != "no_direct_copies" or one.gain > MINOR for one in faults))


@dataclass
class _Answers:
    """Answers so far."""

    findings: list[Finding] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    warnings: list[CodedWarning] = field(default_factory=list)
    within: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)
    uncompared: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    compared: int = 0


def diagnose_facts(facts: Facts, options: MachineOptions) -> Diagnosis:
    """Name the causes that files state, that measurements show, and that the model adds; see `Diagnosis`."""
    _check_any_usable(facts)
    answers = _Answers()
    answers.findings += [*nccl_problems(facts), *wrong_results(facts), *gpu_states(facts), *card_states(facts)]
    answers.findings += [*stated_causes(facts), *log_findings(facts), *slow_runs(facts), *switched_off_links(facts)]
    of_fabric, damaged_fabrics = fabric_findings(facts)
    answers.findings += [*slow_message_files(facts), *late_rendezvous(facts), *of_fabric]
    answers.damaged += damaged_fabrics
    answers.statements += stated(facts)
    machine: Machine | None = None
    missing = ""
    try:
        machine = machine_from(facts, options)
    except InputError as error:
        if facts.blocks_of(Content.TOPOLOGY) and not (answers.findings or facts.blocks_of(*_WITHOUT_TOPOLOGY)):
            raise
        missing = _missing(facts, error)
        if facts.blocks_of(Content.TOPOLOGY):
            answers.damaged.append(missing)
            answers.warnings.append(CodedWarning(WarningCode.PART_UNREADABLE, f"{error}; the topology is left out"))
    if _lacks_access(machine) if machine is not None else _names_stock_driver(options.gpu):
        # A state of these GPUs, no fault.
        kept = [one for one in answers.findings if one.cause not in _NO_DIRECT_COPIES]
        if machine is None and len(kept) < len(answers.findings):
            answers.statements.append(STOCK_DRIVER)
        answers.findings = kept
    if machine is None:
        for block in facts.blocks_of(Content.GPUS):
            for warning in downgraded_links(block):
                remedy, origin = _REMEDIES[warning.code], _origin(facts, warning)
                answers.findings.append(Finding(warning.code, warning.text, remedy, LINK, origin=origin))
        _compare_matrices(facts, options, answers)
    if machine is not None:
        answers.findings += _of_topology(machine, answers)
        answers.warnings += machine.warnings
        _compare_copies(machine, facts, answers)
        answers.findings = without_refuted_links(machine, answers.findings)
    _compare_tables(machine, facts, answers)
    tables = list(facts.of(Quantity.COLLECTIVE))
    all_tables = len(tables) + sum(fact.value for fact in facts.of(Quantity.UNREAD_TABLES))
    measured = len(_paths_of(facts, Content.COPIES)) + all_tables + count_of_files(facts)
    findings = _with_leading_states(_explained(_unique(answers.findings)))
    ranked = sorted(findings, key=lambda one: -one.gain)
    damaged = max(_damaged_files(facts), len(answers.damaged))
    verdict = verdict_of(
        ranked,
        answers.within,
        answers.uncompared,
        doubtful=answers.doubtful,
        measured=measured,
        missing="" if answers.compared else missing,
        damaged=answers.damaged,
        over_pcie=machine is not None and not machine.tree.peer_links,
    )
    return Diagnosis(
        verdict,
        tuple(source_text(file) for file in facts.files),
        tuple(dict.fromkeys(answers.statements)),
        tuple(ranked[:MOST_FINDINGS]),
        max(len(ranked) - MOST_FINDINGS, 0),
        tuple(dict.fromkeys(answers.warnings)),
        measured,
        answers.compared,
        damaged,
        None if machine is None else machine.tree,
    )


def _missing(facts: Facts, error: InputError) -> str:
    """Return what would answer the question of files without a usable topology."""
    if facts.blocks_of(Content.TOPOLOGY):
        return str(error)
    if facts.blocks_of(Content.COPIES):
        return (
            "the files name no known model of GPU, by which the rates of links are expected: add --gpu MODEL, and "
            "'nvidia-smi topo -m' or 'lspci -vv' for the paths"
        )
    if any(facts.of(Quantity.COLLECTIVE)):
        return ""
    if any(facts.of(Quantity.MESSAGE_TIME)):
        return (
            "one file of messages has no expectation: add the same test of other hosts, or 'fabricast fit' for its "
            "parameters"
        )
    if facts.blocks_of(Content.NETWORK):
        return "all ports and cables of the network are alike: 'fabricast map --network' finds the hot links of a job"
    logs = facts.values(Quantity.NCCL_RUN)
    if logs and any(log.nodes > 1 or log.network for log in logs):
        return "the log of NCCL has no measured times: add the table of nccl-tests, or a log of all hosts"
    return str(error)


def _with_leading_states(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings; a stated fault of a device precedes the slow copies of the same device, which it explains."""
    slow = {found for one in findings if one.gain >= CONTRADICTION - 0.1 for found in _ADDRESS.findall(one.text)}
    return [
        replace(one, gain=CONTRADICTION + 0.05)
        if one.cause in _STATES and slow & set(_ADDRESS.findall(one.text)) and one.gain < CONTRADICTION
        else one
        for one in findings
    ]


def _lacks_access(machine: Machine) -> bool:
    """Return whether the unmodified driver of the GPUs permits no direct copies, and no file states otherwise."""
    return has_stock_driver(machine) and bool(machine.tree.staged_pairs) and not machine.has_direct_copies


def _names_stock_driver(gpu: str | None) -> bool:
    """Return whether the unmodified driver of a GPU model permits no direct copies."""
    return gpu is not None and is_known_gpu(gpu) and not gpu_model(gpu).has_stock_peer_access


def _compare_matrices(facts: Facts, options: MachineOptions, answers: _Answers) -> None:
    """Add what measured copies say without a topology."""
    slow = list(slow_copies_without_topology(facts))
    answers.findings += slow
    rates = list(rates_without_topology(facts, options))
    for compared in rates:
        below = below_public_machines(compared)
        if below is None:
            answers.within.append(str(compared))
        elif not slow:
            answers.findings.append(below)
    if slow or rates:
        answers.compared += len(_paths_of(facts, Content.COPIES))


def _compare_copies(machine: Machine, facts: Facts, answers: _Answers) -> None:
    """Add what measured copies say, by themselves and compared with public machines."""
    with_copies = _paths_of(facts, Content.COPIES)
    if not with_copies:
        return
    try:
        found = list(_of_copies(machine))
        rates = list(compared_rates(machine))
        # Links that files state as wide are not narrow.
        knows_links = any(facts.of(Quantity.CURRENT_WIDTH)) or any(
            block.program.startswith("lspci -vv") for block in facts.blocks
        )
    except InputError as error:
        text = f"{error}: the measured copies are not compared"
        answers.warnings.append(CodedWarning(WarningCode.PART_UNREADABLE, text))
        answers.uncompared.append(str(error))
        return
    answers.compared += len(with_copies)
    # A slow GPU or direction, or a slow link, explains other slow copies.
    is_explained = any(one.cause in _SPECIFIC for one in found)
    for compared in rates:
        below = below_public_machines(compared, knows_links=knows_links)
        if below is None:
            answers.within.append(str(compared))
        elif not is_explained:
            found.append(below)
            is_explained = True
    answers.findings += found


def _compare_tables(machine: Machine | None, facts: Facts, answers: _Answers) -> None:
    """Add what tables of nccl-tests say, compared with their forecast on PCIe or with public nodes and clusters."""
    tables = list(facts.of(Quantity.COLLECTIVE))
    for fact in tables[:MOST_TABLES]:
        try:
            if not fact.value.rows or fact.value.operation is None:
                answers.damaged.append(_table_problem(fact))
                continue
            itself = slower_than_larger(fact)
            answers.findings += [] if itself is None else [itself]
            if machine is None:
                raise InputError(_reason_of_table(fact.value))
            found, assumed, within, doubtful = _of_collective(machine, fact)
        except InputError as error:
            if _compare_with_public(fact, facts, machine, answers):
                continue
            # Tables of several hosts, of other GPUs or over NVLink: the rest of the bundle is compared.
            text = f"{fact.place}: the table is not compared: {error.reason}"
            answers.warnings.append(CodedWarning(WarningCode.LOG_ROWS_EXCLUDED, text))
            answers.uncompared.append(error.reason)
            continue
        answers.findings += found
        answers.warnings += assumed
        answers.within += within
        answers.doubtful += doubtful
        answers.compared += 1
    unread = len(tables) - MOST_TABLES + sum(fact.value for fact in facts.of(Quantity.UNREAD_TABLES))
    if unread > 0:
        text = f"{unread:,} of {unread + MOST_TABLES:,} tables of nccl-tests are not compared"
        answers.warnings.append(CodedWarning(WarningCode.LOG_ROWS_EXCLUDED, text))


def _reason_of_table(table: NcclTestsTable) -> str:
    """Return why a table cannot be compared without a topology, if neither public machines nor a forecast serve."""
    if not table.gpus:
        return "lists no GPUs, and no file has a topology"
    if table.hosts > 1:
        return f"is of {table.hosts} hosts, whose nodes and network neither public machines nor a forecast have"
    return "lacks a topology ('nvidia-smi topo -m')"


def _table_problem(fact: Fact) -> str:
    """Return why a table cannot be compared with anything."""
    table: NcclTestsTable = fact.value
    if not table.rows:
        line, reason = table.excluded[0] if table.excluded else (table.line, "has no row")
        return f"{fact.place.path}:{line}: no valid row of nccl-tests: {reason}"
    return (
        f"{fact.place}: the table is not compared: does not name its operation; add the line '# Collective test "
        "starting: ...' of its program"
    )


def _compare_with_public(fact: Fact, facts: Facts, machine: Machine | None, answers: _Answers) -> bool:
    """Add what a table says, compared with public machines of its class or a forecast; return whether one exists."""
    compared: ComparedTable | None = None
    # A described cluster precedes public machines, but says little about a run on one of its nodes.
    if not facts.values(Quantity.CLUSTER) or fact.value.hosts <= 1:
        with suppress(InputError):
            compared = compare_with_public(fact, facts)
    if compared is None or compared.is_neighbour:
        # Models come last: a forecast is asked only where nothing of the class was measured.
        try:
            forecast = compare_with_forecast(fact, facts, machine)
        except InputError as error:
            text = f"the cluster of a file does not fit the table of {fact.place}: {error.reason}"
            remedy = _REMEDIES[WarningCode.FILES_CONTRADICT]
            answers.findings.append(Finding(WarningCode.FILES_CONTRADICT, text, remedy, MINOR, origin=str(fact.place)))
            return True
        if forecast is not None:
            if compared is not None and forecast.is_doubtful:
                answers.statements.append(compared.text)
            compared = forecast
    if compared is None:
        return False
    answers.findings += _with_settings(fact, facts, machine, compared)
    answers.statements += compared.notes
    if compared.is_neighbour:
        answers.uncompared.append(f"no public machine is of this class; {compared.text}")
        answers.statements.append(
            "'fabricast collective --node NAME --nic CARDS --log FILE' compares it with a forecast (hgx_h100, 8x400)"
        )
    elif compared.is_doubtful:
        answers.doubtful.append(compared.text)
    elif not compared.is_slower:
        answers.within.append(compared.text)
    answers.compared += 1
    return True


def _with_settings(fact: Fact, facts: Facts, machine: Machine | None, compared: ComparedTable) -> Iterator[Finding]:
    """Yield the findings about a table of nodes, and the settings of its log that cost time."""
    yield from compared.findings
    if compared.is_neighbour or any(one.cause == "nvls_excluded" for one in compared.findings):
        return
    log = log_of(fact, facts)

    def forecast(other: NcclLog) -> pd.DataFrame | None:
        found = cluster_forecast(fact, facts, other, machine)
        return None if found is None else found.table

    costly = list(costly_settings(fact, log, forecast))
    if not costly and (compared.is_slower or compared.is_doubtful):
        costly = list(settings_without_forecast(fact, log))
    yield from costly


def _check_any_usable(facts: Facts) -> None:
    """Raise an error if no file can be used."""
    if any(block.facts and block.content is not Content.CLUSTER and is_used(block) for block in facts.blocks):
        return
    if facts.problems:
        raise facts.problems[0]
    file = facts.files[0]
    text = "is empty" if file.is_empty else f"was written by no known program, expected {names_of(*MACHINE_CONTENTS)}"
    if file.blocks:
        block = file.blocks[0]
        text = f"has {block.text or f'{block.content} ({block.program})'}{block.hint}"
    raise InputError(f"{text}{file.hint}", path=file.path)


def _damaged_files(facts: Facts) -> int:
    return sum(bool(file.problem or file.hint or any(block.problems for block in file.blocks)) for file in facts.files)


def _paths_of(facts: Facts, content: Content) -> set[str]:
    """Return the files with facts of a content."""
    return {block.place.path for block in facts.blocks_of(content) if block.facts}


def _unique(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with different causes and texts; of those that state one fact, the first."""
    found = {finding.cause for finding in findings}
    same = {cause for group in _SAME_FACT for cause in [one for one in group if one in found][1:]}
    findings = [finding for finding in findings if finding.cause not in same]
    # A port with few lanes explains the narrow link that another file states.
    explained = {address for one in findings if _PORT_ABOVE in one.text for address in _ADDRESS.findall(one.text)[:1]}
    kept: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        is_narrow = finding.cause == WarningCode.DOWNGRADED_LINK and _PORT_ABOVE not in finding.text
        if is_narrow and explained & set(_ADDRESS.findall(finding.text)):
            continue
        key = (finding.cause, finding.text)
        if key not in kept or kept[key].gain < finding.gain:
            kept[key] = finding
    return list(kept.values())


def _explained(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings; slow copies below a switch come after the access control that explains them."""
    causes = {finding.cause for finding in findings}
    if WarningCode.DOWNGRADED_LINK in causes:
        # A narrow link of one GPU makes its copies differ from those of its class.
        code = WarningCode.CALIBRATION_CONTRADICTED
        findings = [replace(one, gain=SYMPTOM) if one.cause == code else one for one in findings]
    if WarningCode.ACCESS_CONTROL not in causes:
        return list(findings)
    slow = (
        WarningCode.SLOW_BELOW_SWITCH,
        WarningCode.SLOWER_THAN_STAGED,
        WarningCode.SLOW_COPIES,
        WarningCode.CALIBRATION_CONTRADICTED,
        "below_public_machines",
    )
    return [replace(one, gain=SYMPTOM) if one.cause in slow else one for one in findings]


def _of_topology(machine: Machine, answers: _Answers) -> Iterator[Finding]:
    answers.statements += _gpus_without_card(machine.tree)
    for warning in machine.tree.warnings:
        if warning.code is WarningCode.PEER_ACCESS_ASSUMED or (
            warning.code is WarningCode.NO_PEER_ACCESS and has_stock_driver(machine)
        ):
            # A state of the machine, no fault.
            answers.statements.append(f"{STOCK_DRIVER} ({_origin(machine.facts, warning)})")
        elif warning.code is WarningCode.NO_PEER_ACCESS and not machine.models and _has_only_staged_pairs(machine):
            text = f"{warning.text}; this is normal for GeForce cards: state the model (--gpu)"
            answers.statements.append(f"{text} ({_origin(machine.facts, warning)})")
        elif warning.code is WarningCode.CARD_ON_OTHER_SOCKET and not _has_several_nodes(machine.facts):
            # Copies within a node use no network card.
            answers.statements.append(f"{warning.text} ({_origin(machine.facts, warning)})")
        elif warning.code in _REMEDIES:
            weight = MINOR if warning.code in _MINOR_CODES else ACCESS if warning.code in _ACCESS_CODES else LINK
            origin = _origin(machine.facts, warning)
            remedy = _OTHER_SLOT if _PORT_ABOVE in warning.text else _REMEDIES[warning.code]
            yield Finding(warning.code, _with_number(machine.tree, warning.text), remedy, weight, origin=origin)


def _has_only_staged_pairs(machine: Machine) -> bool:
    """Return whether no pair of GPUs has peer access."""
    count = len(machine.tree.accelerator_names)
    return len(set(machine.tree.staged_pairs)) == count * (count - 1) and not machine.has_direct_copies


def _with_number(tree: PcieTree, text: str) -> str:
    """Return a text about the link of a PCI address with the number of its GPU, or the kind of another device."""
    if not text.startswith(_THE_LINK):
        return text
    address = _ADDRESS.search(text)
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
        yield (
            f"GPU {', '.join(without)}: no network card below their PCIe switches, the other "
            f"{len(near) - len(without)} GPUs have one: between nodes these GPUs send over the processors, or over "
            "NVLink and another GPU (PXN)"
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
    address = _ADDRESS.search(warning.text)
    if address is not None:
        if warning.code is WarningCode.DOWNGRADED_LINK:
            named = [fact for fact in facts.of(Quantity.GPU_ADDRESS) if fact.value == address[0]]
            for width in facts.of(Quantity.CURRENT_WIDTH):
                if any((one.program, one.subject) == (width.program, width.subject) for one in named):
                    return str(width.place)
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
        staged = machine.measured.staged.items()
        exact = [one for pair, one in staged if pair == slow.ends]
        fact = (exact or [one for pair, one in staged if set(slow.ends) & set(pair)])[0]
        remedy = _MEMORY_REMEDY if slow.code is WarningCode.SLOW_BETWEEN_SOCKETS else _REPEAT
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
        remedy = _COPY_REMEDIES.get(warning.code, _REPEAT)
        if "nvidia-smi nvlink" in warning.text:
            remedy = _REMEDIES[WarningCode.UNEQUAL_DIRECT_LINKS]
        origin = _place_of(warning, machine.graphs)
        weight = CONTRADICTION + 0.02 * (warning.code is WarningCode.SLOWER_THAN_STAGED)
        yield Finding(warning.code, _with_address(machine, warning), remedy, weight, origin=origin)


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


def _of_collective(
    machine: Machine, fact: Fact
) -> tuple[list[Finding], tuple[CodedWarning, ...], list[str], list[str]]:
    """Compare one table of nccl-tests with its forecast; the last values say that it is as expected, or nearly."""
    table: NcclTestsTable = fact.value
    if table.operation is None:
        raise InputError("does not name its operation")
    runs = machine.nccl_runs
    run = next((one for one in runs if one.place.path == fact.place.path), next(iter(runs), None))
    forecast = forecast_prepared(prepare(machine, table.operation, Question(table=fact, run=run)))
    found = [
        replace(one, text=f"{table.operation}: {one.text}", origin=f"{fact.place.path}:{_rows(table, one)}")
        for one in diagnose_collective(forecast)
        if not is_refuted(forecast, one)
    ]
    if has_stock_driver(machine) and not machine.has_direct_copies:
        # What the driver does not permit is no cause that a setting changes.
        found = [one for one in found if one.cause != Cause.HOST_MEMORY_TRANSPORT]
    is_slower = any(one.cause == Cause.SLOWER_THAN_FORECAST for one in found)
    if not is_slower:
        # The machine does what is expected of it: only changes with a forecast gain are findings.
        found = [one for one in found if one.gain > 1]
    costly = list(_settings_of_collective(machine, fact, run))
    if costly:
        # Their choices follow from the settings.
        found = [one for one in found if one.cause not in (*_PROPOSALS, Cause.HOST_MEMORY_RATE)]
    elif run is not None and (is_slower or any(one.cause == Cause.HOST_MEMORY_RATE for one in found)):
        costly = list(settings_without_forecast(fact, run.value))
        found = [one for one in found if not costly or one.cause != Cause.HOST_MEMORY_RATE]
    found += costly
    if is_slower:
        return found, forecast.warnings, [], []
    text = within_text(forecast)
    return (found, forecast.warnings, [text], []) if is_within(forecast) else (found, forecast.warnings, [], [text])


def _settings_of_collective(machine: Machine, fact: Fact, run: Fact | None) -> Iterator[Finding]:
    """Yield the settings of a run that cost time in the forecast of a PCIe machine."""
    if run is None:
        return

    def forecast(other: NcclLog) -> pd.DataFrame:
        question = Question(table=fact, run=replace(run, value=other))
        return forecast_prepared(prepare(machine, fact.value.operation, question)).table

    yield from costly_settings(fact, run.value, forecast)


def _rows(table: NcclTestsTable, finding: Finding) -> str:
    """Return the first and last line of the rows of a range of sizes, or the line of the header."""
    low, high = finding.sizes or (0.0, float("inf"))
    lines = [row.line for row in table.rows if low <= row.size_bytes <= high] or [table.line]
    first, last = min(lines), max(lines)
    return str(first) if first == last else f"{first}-{last}"
