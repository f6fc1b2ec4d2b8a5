"""Diagnosis of all files of a machine: every measurement is compared with its expectation."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from fabricast.collectives.diagnosis import STOCK_DRIVER, has_stock_driver
from fabricast.core.errors import InputError, NoAcceleratorError
from fabricast.core.facts import Content, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import listed
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.diagnosis.answers import Answers, paths_of
from fabricast.diagnosis.copies import compare_copies, compare_matrices
from fabricast.diagnosis.device_states import card_states, gpu_states
from fabricast.diagnosis.fabric import fabric_findings
from fabricast.diagnosis.hosts import different_values, missing_devices, with_hosts_of_files
from fabricast.diagnosis.matrices import are_over_direct_links, names_model
from fabricast.diagnosis.measured import without_refuted_links
from fabricast.diagnosis.messages import (
    agreement,
    alike_operations,
    count_of_files,
    different_paths,
    falling_rates,
    has_unknown_pairs,
    incomparable_tables,
    late_rendezvous,
    longer_than_larger,
    messages_within_hosts,
    odd_message_files,
    short_files,
    slow_message_files,
    slow_protocols,
    sudden_steps,
)
from fabricast.diagnosis.mpi_problems import mpi_notes, mpi_problems
from fabricast.diagnosis.nccl_messages import nccl_problems
from fabricast.diagnosis.nccl_runs import log_findings
from fabricast.diagnosis.ports import (
    compare_tcp_with_interfaces,
    compare_with_ports,
    messages_over_tcp,
    rate_words,
    slow_gpu_buffers,
    unequal_packets,
    unequal_tcp_rates,
    unusable_addresses,
)
from fabricast.diagnosis.programs_of_amd import is_of_amd, is_program_of_amd, with_programs_of_amd
from fabricast.diagnosis.ranking import ranked
from fabricast.diagnosis.runs import slightly_slower_runs, slow_runs, uneven_rows
from fabricast.diagnosis.settings import switched_off_links, with_settings_in_use
from fabricast.diagnosis.source_texts import is_used, source_texts
from fabricast.diagnosis.stated_causes import shared_gpus, stated_causes, wrong_results
from fabricast.diagnosis.statements import stated
from fabricast.diagnosis.tables import PROPOSALS, compare_tables
from fabricast.diagnosis.topology import (
    SAME_ON_ALL,
    equal_topologies,
    links_of_gpus,
    missing_links,
    of_topology,
    stated_links,
    unequal_topologies,
    with_unused_links,
)
from fabricast.diagnosis.verdict import CLEAN_STATES, ONE_RANK, POSSIBLE, Verdict, VerdictKind, verdict_of
from fabricast.diagnosis.weights import MINOR
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.machine.build import machine_from
from fabricast.machine.direct_links import MissingLinksError
from fabricast.machine.machine import Machine
from fabricast.machine.options import MachineOptions
from fabricast.pcie.topology.tree import PcieTree
from fabricast.sources.kernel_log import DRIVER_FAILURES
from fabricast.sources.nccl_log import SETTINGS

_MOST_UNREAD = 3
#: Maximum number of findings.
MOST_FINDINGS = 10
#: Beginning of the names of options, which state facts as files do.
_OF_OPTIONS = "--"
#: Causes that a driver without peer access explains.
_NO_DIRECT_COPIES = ("no_direct_copies", "no_peer_access")
#: Programs that most users have; the documentation lists all.
_EXAMPLES = (
    "for example output of nvidia-smi topo -m, nvidia-smi -q, lspci -vv, dmesg, p2pBandwidthLatencyTest, nccl-tests, "
    "NCCL_DEBUG=INFO, ibstat, osu_bw or mpirun"
)
#: Quantities of measurements, and the answer about programs that print none.
_MEASURED = (Quantity.RATE, Quantity.TABLE, Quantity.MESSAGE_TIME, Quantity.OPERATION_TIME, Quantity.COLLECTIVE)
_CUT_TABLES = "nothing is measured: the program left its tests out, or its tables are cut; the lines below list why"
#: Note about hops that the unmodified driver of these GPUs does not permit.
_UNEXPECTED_P2P = (
    "NCCL copies directly between GPUs (P2P), which NVIDIA's driver does not permit for GPUs of this model: with a "
    "modified or early driver such copies may hang or be wrong; test with NCCL_P2P_DISABLE=1"
)
#: Contents that say something without a topology.
_WITHOUT_TOPOLOGY = (
    Content.COLLECTIVES,
    Content.GPUS,
    Content.STATES,
    Content.NCCL_LOG,
    Content.COPIES,
    Content.RUN_ERRORS,
)


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
    notes : tuple of str
        What explains the numbers, and what would decide a doubtful answer.
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
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    omitted: int
    warnings: tuple[CodedWarning, ...]
    measured: int
    compared: int
    damaged: int
    tree: PcieTree | None = None

    def __repr__(self) -> str:
        lines = (line for lines in self.causes() for line in lines)
        return "\n".join([str(self.verdict), *self.remedies(), *lines])

    def _repr_html_(self) -> str:
        causes = "".join(f"<li>{'<br>'.join(map(escape, lines))}</li>" for lines in self.causes())
        answer = "<br>".join(map(escape, [str(self.verdict), *self.remedies()]))
        return f"<p><strong>{answer}</strong></p><ul style='list-style: none'>{causes}</ul>"

    def remedies(self) -> list[str]:
        """Return a line with the remedy of each cause that the verdict names."""
        answer = str(self.verdict)
        return [f"try: {one.remedy} [{one.cause}]" for one in self.findings if one.is_in(answer)]

    def causes(self) -> list[list[str]]:
        """Return the lines of each further cause: text, evidence and remedy; the verdict names those before them."""
        answer = str(self.verdict)
        further = [one for one in self.findings if not one.is_in(answer)]
        first = len(self.findings) - len(further) + 1
        return [one.lines(number) for number, one in enumerate(further, start=first)]

    @property
    def table(self) -> pd.DataFrame:
        """Causes in their order: cause, text, host, device, file, line (0: none), remedy, gain.

        Host and device are empty where the files name none. The gain is the forecast ratio of the time now to the time
        after the remedy; NaN where nothing is forecast.
        """
        rows = []
        for one in self.findings:
            file, _, line = one.origin.rpartition(":")
            has_line = line.isdigit() and bool(file)
            rows.append(
                {
                    "cause": one.cause,
                    "text": one.text,
                    "host": one.host,
                    "device": one.device or _device_of(one.text),
                    "file": file if has_line else one.origin,
                    "line": int(line) if has_line else 0,
                    "remedy": one.remedy,
                    "gain": one.gain,
                }
            )
        columns = ["cause", "text", "host", "device", "file", "line", "remedy", "gain"]
        return pd.DataFrame(rows, columns=columns)

    def as_dict(self) -> dict[str, Any]:
        """Return verdict, causes, statements, notes, sources and warnings as values of JSON."""
        return {
            "verdict": self.verdict.kind.value,
            "text": self.verdict.text,
            "causes": self.table.replace({np.nan: None}).to_dict("records"),
            "further_causes": self.omitted,
            "statements": list(self.statements),
            "notes": list(self.notes),
            "sources": list(self.sources),
            "warnings": [{"code": one.code.value, "text": one.text} for one in self.warnings],
        }

    @property
    def has_causes(self) -> bool:
        """Whether there is a cause of lost time or a damaged file: exit code 1 of the command.

        Other choices of NCCL that the model prefers are proposals; hops through host memory by themselves are no fault,
        nor are messages that another path may explain.
        """
        if self.verdict.kind is VerdictKind.DOUBTFUL:
            return bool(self.damaged)
        possible = [one for one in self.findings if one.cause in POSSIBLE and one.rank <= MINOR]
        faults = [one for one in self.findings if one.cause not in PROPOSALS and one not in possible]
        return bool(self.damaged or any(one.cause != "no_direct_copies" or one.rank > MINOR for one in faults))


#: Note about a test over UDP.
_LOST_DATAGRAMS = re.compile(r"iperf over UDP: .*, (?!0 %)[\d.]{1,8} % of the datagrams lost")
#: GPU by number, or device by address.
_DEVICE = re.compile(r"\bGPU \d{1,3}\b|\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")


def _device_of(text: str) -> str:
    """Return the GPU or address with which a text begins, if it names one early; else nothing."""
    match = _DEVICE.search(text[:40])
    return match[0] if match is not None else ""


def diagnose_facts(facts: Facts, options: MachineOptions) -> Diagnosis:
    """Name the causes that files state, that measurements show, and that the model adds; see `Diagnosis`."""
    _check_any_usable(facts)
    if options.gpu is not None:
        # A misspelt model would be no expectation, without a word.
        gpu_model(options.gpu)
    answers, hosts = Answers(), with_hosts_of_files(facts)
    stated_gpu = _gpu_of_sentences(facts, options)
    if stated_gpu:
        options = replace(options, gpu=stated_gpu)
        answers.notes.append(f"no output names the GPUs: {stated_gpu} of the text is used")
    answers.findings += [*nccl_problems(facts), *wrong_results(facts), *gpu_states(facts), *card_states(hosts)]
    answers.findings += [
        *stated_causes(facts),
        *shared_gpus(facts),
        *log_findings(facts),
        *slow_runs(facts),
        *switched_off_links(facts),
    ]
    answers.findings += missing_devices(hosts)
    answers.notes += different_values(hosts)
    answers.findings += [*unusable_addresses(hosts), *unequal_packets(facts), *unequal_topologies(facts)]
    of_fabric, damaged_fabrics = fabric_findings(facts)
    answers.findings += mpi_problems(facts)
    answers.findings += [*slow_message_files(facts), *odd_message_files(facts), *longer_than_larger(facts)]
    answers.findings += [*late_rendezvous(facts), *slow_protocols(facts), *sudden_steps(facts), *of_fabric]
    answers.within += [*agreement(facts), *alike_operations(facts)]
    answers.notes += [*equal_topologies(facts), *short_files(facts), *incomparable_tables(facts)]
    answers.notes += falling_rates(facts)
    answers.notes += [
        *different_paths(facts),
        *messages_within_hosts(facts),
        *slightly_slower_runs(facts),
        *uneven_rows(facts),
    ]
    answers.findings += messages_over_tcp(facts)
    answers.findings += slow_gpu_buffers(facts)
    answers.findings += unequal_tcp_rates(facts)
    compare_with_ports(facts, answers)
    compare_tcp_with_interfaces(facts, answers)
    answers.damaged += damaged_fabrics
    answers.statements += [*stated(facts), *mpi_notes(facts)]
    machine: Machine | None = None
    missing = ""
    try:
        machine = machine_from(facts, options)
    except InputError as error:
        is_only = facts.blocks_of(Content.TOPOLOGY) and not facts.blocks_of(*_WITHOUT_TOPOLOGY)
        is_only = is_only and not any(facts.of(Quantity.MESSAGE_TIME, Quantity.OPERATION_TIME))
        states_access = any(facts.of(Quantity.PEER_ACCESS))
        has_cards = isinstance(error, NoAcceleratorError) and any("network card" in one for one in answers.statements)
        if is_only and not (answers.findings or states_access or has_cards or isinstance(error, MissingLinksError)):
            raise
        missing = CLEAN_STATES if is_only and has_cards else _missing(facts, options, error)
        if isinstance(error, MissingLinksError):
            answers.findings.append(missing_links(error))
        elif isinstance(error, NoAcceleratorError):
            answers.notes.append(f"{error}: its topology is not used")
        elif facts.blocks_of(Content.TOPOLOGY):
            answers.damaged.append(missing)
            answers.warnings.append(CodedWarning(WarningCode.PART_UNREADABLE, f"{error}; the topology is left out"))
    if _lacks_access(machine) if machine is not None else _names_stock_driver(options.gpu):
        # A state of these GPUs, no fault.
        kept = [one for one in answers.findings if one.cause not in _NO_DIRECT_COPIES]
        if machine is None and len(kept) < len(answers.findings):
            answers.notes.append(STOCK_DRIVER)
        answers.findings = kept
        if any(via.startswith("P2P/") for log in facts.values(Quantity.NCCL_RUN) for via in log.transports.values()):
            answers.notes.append(_UNEXPECTED_P2P)
    if machine is None:
        answers.findings += stated_links(facts)
        compare_matrices(facts, options, answers)
    if machine is not None:
        answers.findings += of_topology(machine, answers)
        pcie = _assumed_of_pcie(machine.tree)
        answers.warnings += [one for one in machine.warnings if one not in pcie]
        compare_copies(machine, facts, answers)
        answers.findings = without_refuted_links(machine, answers.findings)
        answers.findings = with_unused_links(machine, answers.findings)
    compare_tables(machine, facts, answers)
    tables = list(facts.of(Quantity.COLLECTIVE))
    all_tables = len(tables) + sum(fact.value for fact in facts.of(Quantity.UNREAD_TABLES))
    messages = count_of_files(facts)
    measured = len(paths_of(facts, Content.COPIES)) + all_tables + messages
    findings = with_settings_in_use(ranked(answers.findings), facts)
    if machine is not None and not measured and not findings:
        # Programs of AMD print no ports and switches: paths over PCIe are assumed.
        has_paths = not all(is_program_of_amd(fact.program) for fact in facts.of(Quantity.TOPOLOGY))
        answers.statements.append(links_of_gpus(machine.tree, has_paths=has_paths))
    if not measured and not facts.blocks_of(Content.NCCL_LOG) and any(SAME_ON_ALL in note for note in answers.notes):
        missing = CLEAN_STATES
    if machine is not None and not missing and _has_copies_without_rates(facts):
        missing = _CUT_TABLES
    damaged = max(_damaged_files(facts), len(answers.damaged))
    verdict = verdict_of(
        findings,
        answers.within,
        answers.uncompared,
        doubtful=answers.doubtful,
        measured=measured,
        missing="" if answers.compared and missing != _CUT_TABLES else missing,
        damaged=answers.damaged,
        over_pcie=machine is not None and not machine.tree.peer_links,
        only_messages=measured == messages,
    )
    if is_of_amd(facts):
        verdict = replace(verdict, text=with_programs_of_amd(verdict.text))
        findings = [replace(one, remedy=with_programs_of_amd(one.remedy)) for one in findings]
    return Diagnosis(
        verdict,
        source_texts(file for file in facts.files if not file.path.startswith(_OF_OPTIONS)),
        tuple(dict.fromkeys(answers.statements)),
        tuple(dict.fromkeys(answers.notes)),
        tuple(findings[:MOST_FINDINGS]),
        max(len(findings) - MOST_FINDINGS, 0),
        tuple(dict.fromkeys(answers.warnings)),
        measured,
        answers.compared,
        damaged,
        None if machine is None else machine.tree,
    )


def _assumed_of_pcie(tree: PcieTree) -> list[CodedWarning]:
    """Return the assumptions about PCIe that say nothing where direct links join all pairs of GPUs."""
    pairs = itertools.combinations(tree.accelerator_names, 2)
    are_joined = len(tree.peer_links) > 0 and all(tree.peer_link(*pair) is not None for pair in pairs)
    codes = (WarningCode.TOPOLOGY_NOTE, WarningCode.INTER_SOCKET_CAPACITY_ASSUMED) if are_joined else ()
    return [one for one in tree.warnings if one.code in codes]


def _has_copies_without_rates(facts: Facts) -> bool:
    """Return whether no copies, messages or operations have rates, though a program that measures copies ran."""
    measured = (
        *_MEASURED,
        Quantity.STAGED_RATE,
        Quantity.STAGED_RATE_BOTH_WAYS,
        Quantity.COPY_ROWS,
        Quantity.PAIR_ROWS,
    )
    return any(block.facts for block in facts.blocks_of(Content.COPIES)) and not any(facts.of(*measured))


def _missing(facts: Facts, options: MachineOptions, error: InputError) -> str:
    """Return what would answer the question of files without a usable topology."""
    if facts.blocks_of(Content.TOPOLOGY):
        return str(error)
    is_nothing_measured = not any(facts.of(*_MEASURED))
    has_copies = any(block.facts for block in facts.blocks_of(Content.COPIES))
    if all(block.content is Content.PEER_ACCESS for block in facts.blocks if block.facts):
        return (
            "the files state which GPUs may copy directly, not how they are connected: add 'nvidia-smi topo -m', and "
            "measured copies (p2pBandwidthLatencyTest)"
        )
    if has_copies and any("within the memory of a GPU" in note for note in facts.values(Quantity.NOTE)):
        return "the copies stay within the memory of a GPU, and no link limits them: copies between GPUs show links"
    if has_copies and is_nothing_measured:
        return _CUT_TABLES
    if has_copies and _are_within_gpus(facts):
        return "the copies stay within the memory of each GPU, and no link limits them: copies between GPUs show links"
    if are_over_direct_links(facts):
        return "the copies use direct links (NVLink or XGMI), whose number no file states: add 'nvidia-smi topo -m'" + (
            "" if options.gpu is not None else " and --gpu MODEL"
        )
    if has_copies and names_model(facts, options):
        return (
            "the copies of the file are of kinds that public machines lack (over direct links such as NVLink, "
            "NVLink-C2C or XGMI, by kernels (SM), or within a GPU): add 'nvidia-smi topo -m'"
        )
    if has_copies:
        return (
            "the files name no known model of GPU, by which the rates of links are expected: add --gpu MODEL, and "
            "'nvidia-smi topo -m' or 'lspci -vv' for the paths"
        )
    if any(facts.of(Quantity.COLLECTIVE)):
        return ""
    if any(facts.of(Quantity.OPERATION_TIME)) and not any(facts.of(Quantity.MESSAGE_TIME)):
        which = "one table of an operation of MPI has" if count_of_files(facts) == 1 else "these operations of MPI have"
        counts = sorted({fact.value.processes for fact in facts.of(Quantity.OPERATION_TIME)} - {None})
        if len(counts) > 1:
            return (
                f"the operations of MPI are of {counts[0]} to {counts[-1]} processes, on which their times depend: "
                "add the same test with an equal number, on other hosts or with another library"
            )
        return f"{which} no expectation: add the same test of other hosts, of another library, or of other settings"
    if facts.blocks_of(Content.OPERATIONS) and not any(facts.of(Quantity.MESSAGE_TIME)):
        return "the tests of operations of MPI print no row: add their whole output"
    if any(facts.of(Quantity.MESSAGE_TIME)):
        which = "a single test has nothing to be compared with"
        if count_of_files(facts) > 1 and has_unknown_pairs(facts):
            which = "a test of several pairs does not print their number, by which files are compared"
        elif any(different_paths(facts)):
            which = "the files are of different paths between processes"
        elif count_of_files(facts) > 1:
            which = "the files have different tests, or no size and number of processes in common"
        ports = words = ""
        if not any(facts.of(Quantity.PORT_RATE)):
            ports, words = ", or 'ibstat' for the rate of the ports", rate_words(facts)
        add = f"add the same test between other hosts{ports}"
        return f"{which}{words}: {add}; 'fabricast fit' prints the parameters of each"
    if facts.blocks_of(Content.MESSAGES):
        return "the tests of messages have no times that can be compared: the lines below list why"
    if facts.blocks_of(Content.NETWORK):
        return (
            "no port or cable of the network is slower than most others: 'fabricast map --network' finds the hot links "
            "of a job"
        )
    if facts.blocks_of(Content.RUN_ERRORS) and not facts.blocks_of(Content.NCCL_LOG):
        has_errors = any(facts.of(Quantity.MPI_PROBLEM))
        what = "the errors of the file did not end the run" if has_errors else "the file states no error of a run"
        return f"{what}, and nothing that is measured can be compared"
    if any(DRIVER_FAILURES in note for note in facts.values(Quantity.NOTE)):
        return "the kernel log has messages of drivers about failures whose meaning is not known here, as quoted below"
    notes = facts.values(Quantity.NOTE)
    if any(' states: "' in note and note.startswith(("the fabric manager", "the IMEX")) for note in notes):
        return "the log of a service states errors whose meaning is not known here, which the lines below quote"
    if any("corrected PCIe error" in note and "fewer than" in note for note in notes):
        return "few corrected errors of a PCIe link are stated: count them in the whole kernel log ('dmesg | grep AER')"
    if any(": page fault" in note for note in facts.values(Quantity.NOTE)):
        return "the files state accesses to memory that a GPU does not have (page faults), as quoted below"
    if any(": Xid " in note for note in facts.values(Quantity.NOTE)):
        return "the files state errors of GPUs that programs cause, or whose meaning is not known here (Xid)"
    if not any(block.content not in (Content.GPUS, Content.STATES) for block in facts.blocks if block.facts):
        # Whether links that are down are a fault depends on the cards.
        down = next((note for note in facts.values(Quantity.NOTE) if "states NVLinks" in note), "")
        lost = next((note for note in facts.values(Quantity.NOTE) if _LOST_DATAGRAMS.search(note)), "")
        if lost:
            return (
                "a test over UDP lost datagrams: nothing slows a sender of UDP down, so that its rate, the buffers of "
                "the receiver or the network may be the reason; a test over TCP, or UDP with a lower -b, shows which"
            )
        if any(facts.of(Quantity.TCP_RATE)) and not any(facts.of(Quantity.INTERFACE_RATE)):
            return "a rate over TCP has nothing to be compared with: add 'ethtool INTERFACE', the rate of the link"
        return down or _unread(facts) or _stated_failure(facts) or CLEAN_STATES
    logs = facts.values(Quantity.NCCL_RUN)
    returned = next((log for log in logs if "returned" in log.lines and "initialised" not in log.lines), None)
    if returned is not None:
        where = f"line {returned.lines['returned']}"
        return (
            f"the log of NCCL passes an error up ({where}), and lacks its message: add the lines before it (NCCL WARN)"
        )
    begun = [log for log in logs if log.ranks or log.transports or log.network]
    if begun and all(log.ranks == 1 for log in begun):
        return f"the log of NCCL {ONE_RANK}"
    if begun and not any("initialised" in log.lines for log in begun):
        if any("no verbs" in log.lines and log.network == "Socket" for log in begun):
            is_excluded = any(log.environment.get("NCCL_IB_DISABLE") == "1" for log in begun)
            change = "unset NCCL_IB_DISABLE=1" if is_excluded else "pass /dev/infiniband to the container"
            hops = {via for log in begun for via in log.transports.values()}
            if all(log.nodes == 1 for log in begun) and not any(via.startswith("NET") for via in hops):
                return (
                    "the log of NCCL states no fault, and no end of its initialisation ('Init COMPLETE'): add the "
                    "output up to the error or hang; on one host, test with NCCL_P2P_DISABLE=1 and look for "
                    "IO_PAGE_FAULT in 'dmesg' (IOMMU, access control); between hosts, it uses TCP, since it finds no "
                    f"InfiniBand or RoCE card: {change} if they have one, and name the interface (NCCL_SOCKET_IFNAME)"
                )
            return (
                "the log of NCCL ends within its initialisation; it finds no InfiniBand or RoCE card and uses TCP: if "
                f"the hosts have cards, {change}; NCCL_SOCKET_IFNAME names the interface"
            )
        return (
            "the log of NCCL states no fault, and no end of its initialisation ('Init COMPLETE'): add the output up to "
            "the error or hang; if it hangs there, test with NCCL_P2P_DISABLE=1 on one host, and between hosts name "
            "the interface (NCCL_SOCKET_IFNAME)"
        )
    if logs and any(log.nodes > 1 or log.network for log in logs):
        return "the log of NCCL states no fault, and has no measured times: add the table of nccl-tests"
    if logs and not any(log.ranks or log.transports for log in logs):
        if all(block.program == SETTINGS for block in facts.blocks_of(Content.NCCL_LOG)):
            return (
                "the text has settings of NCCL, and none of its messages: add its output (NCCL_DEBUG=INFO) up to the "
                "error or hang, and a table of nccl-tests"
            )
        return (
            "the log of NCCL has no error, no hop between GPUs and no times: add its output (NCCL_DEBUG=INFO) up to "
            "the error or hang, and a table of nccl-tests"
        )
    if any("initialised" in log.lines for log in logs) and not facts.blocks_of(Content.TOPOLOGY):
        return (
            "the log of NCCL states no fault, and has no measured times: add the table of nccl-tests and 'nvidia-smi "
            "topo -m'; if it hangs after 'Init COMPLETE', test with NCCL_P2P_DISABLE=1, and look for Xid and "
            "IO_PAGE_FAULT in 'dmesg'"
        )
    return str(error)


def _gpu_of_sentences(facts: Facts, options: MachineOptions) -> str:
    """Return the model of GPUs of measured copies that only sentences name; empty if an output or option names one."""
    is_named = any(facts.of(Quantity.GPU_MODEL)) or any(table.gpus for table in facts.values(Quantity.COLLECTIVE))
    if options.gpu is not None or is_named or not facts.blocks_of(Content.COPIES):
        return ""
    # Copies of several files may be of several machines: each file then names the model itself.
    of_copies = [file for file in facts.files if any(block.content is Content.COPIES for block in file.blocks)]
    files = of_copies if len(of_copies) > 1 else facts.files
    names = {file.stated_gpu for file in files if file.stated_gpu or len(of_copies) > 1}
    return names.pop() if len(names) == 1 else ""


def _stated_failure(facts: Facts) -> str:
    """Return that an author states a failure whose cause no output states; empty if none does."""
    file = next((file for file in facts.files if file.failure), None)
    if file is None:
        return ""
    words = f'the author states a failure ("{file.failure}")'
    return f"{words}, and the output in {file.path} states no cause: add its messages"


def _unread(facts: Facts) -> str:
    """Return that files or parts were not read, which may state a fault; empty if all were."""
    unknown = [file.path for file in facts.files if not (file.is_empty or any(block.facts for block in file.blocks))]
    if unknown:
        return f"the files that were read state no fault of a device, and {listed(unknown, _MOST_UNREAD)} was not read"
    if facts.problems:
        return f"the parts that were read state no fault of a device: {facts.problems[0]}"
    return ""


def _are_within_gpus(facts: Facts) -> bool:
    """Return whether every measured copy has one GPU as source and target."""
    tables = facts.values(Quantity.TABLE)
    pairs = (Quantity.RATE, Quantity.STAGED_RATE, Quantity.STAGED_RATE_BOTH_WAYS, Quantity.COPY_ROWS)
    if not tables or any(facts.values(quantity) for quantity in pairs):
        return False
    # Tables of host memory have one row of the host and one column of each GPU.
    is_between = [table["test"].str.contains("host_to_device|device_to_host").any() for table in tables]
    return not any(is_between) and all((table["row"] == table["column"]).all() for table in tables)


def _lacks_access(machine: Machine) -> bool:
    """Return whether the unmodified driver of the GPUs permits no direct copies, and no file states otherwise."""
    return has_stock_driver(machine) and bool(machine.tree.staged_pairs) and not machine.has_direct_copies


def _names_stock_driver(gpu: str | None) -> bool:
    """Return whether the unmodified driver of a GPU model permits no direct copies."""
    return gpu is not None and is_known_gpu(gpu) and not gpu_model(gpu).has_stock_peer_access


def _check_any_usable(facts: Facts) -> None:
    """Raise an error if no file can be used."""
    if any(block.facts and block.content is not Content.CLUSTER and is_used(block) for block in facts.blocks):
        return
    if facts.problems:
        raise facts.problems[0]
    file = facts.files[0]
    text = "is empty" if file.is_empty else f"was written by no known program, expected {_EXAMPLES}"
    if file.blocks:
        block = file.blocks[0]
        text = f"has {block.text or f'{block.content} ({block.program})'}{block.hint}"
    raise InputError(f"{text}{file.hint}", path=file.path)


def _damaged_files(facts: Facts) -> int:
    used = [file for file in facts.files if not file.is_unused]
    return sum(bool(file.problem or file.hint or any(block.problems for block in file.blocks)) for file in used)
