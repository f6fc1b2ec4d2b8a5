"""Order of findings: causes that state one fact once, and causes before what they explain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fabricast.collectives.diagnosis import Cause
from fabricast.core.findings import Finding
from fabricast.core.short_text import listed
from fabricast.core.warnings import WarningCode
from fabricast.diagnosis.topology import ADDRESS, PORT_ABOVE
from fabricast.diagnosis.verdict import OF_DEVICES
from fabricast.diagnosis.weights import ACCESS, CONTRADICTION, FIRST, SYMPTOM
from fabricast.known_messages.table import message_table

#: Causes that state one fact, the most certain one first.
_SAME_FACT = (
    ("network_in_host", "no_peer_access", "no_direct_copies", Cause.HOST_MEMORY_TRANSPORT),
    (WarningCode.SLOW_ENDPOINT, "below_public_machines", WarningCode.SLOW_COPIES, WarningCode.IMPLAUSIBLE_RATE),
    ("network_in_host", Cause.HOST_MEMORY_RATE),
    ("host_differs_gpudirect", "some_without_gpudirect"),
)
#: Words of one fact that several programs state: the failure that ranks first names it.
_SAME_WORDS = (
    re.compile(r"\bdev/shm\b"),
    re.compile(r"too many open files", re.IGNORECASE),
    re.compile(r"lack of memory|oom[_-]kill|memory of its host is nearly full", re.IGNORECASE),
)
#: Causes from the reports of several ranks, and states of devices after which no operation ends.
_OF_RANKS = ("waiting_ranks", "silent_ranks", "all_ranks_wait", "reporting_ranks_wait")
_STOPPED = ("fallen off the bus", "IO_PAGE_FAULT")
#: Causes of slow runs, which explain no failure.
_OF_A_RUN_THAT_WORKS = (
    "stopped",
    "no_direct_copies",
    "tcp_between_nodes",
    "no_gpudirect",
    "some_without_gpudirect",
    "network_in_host",
)
#: Measured runs that are slow, and states of memory after which a GPU goes on.
_SLOW_RUNS = ("slower_than_forecast", "slower_than_public_machines")
_CONTAINED = re.compile(r": (?:contained ECC error|row remapping)")
_MOST_NAMES = 8
_OF_BOARD = "several at once: check bifurcation and PCIe generation in the BIOS, and the slots that the board shares"
#: GPU with its address, or an address.
_NAMED = re.compile(rf"GPU \S{{1,10}} \({ADDRESS.pattern}\)|{ADDRESS.pattern}|\bGPU \d{{1,3}}\b(?! \()")
#: Lanes in use of a narrow link.
_LANES = re.compile(r"uses x(\d{1,2})\b")
#: Causes by the state of a device, which explain slow copies of it.
_STATES = ("gpu_errors", WarningCode.DOWNGRADED_LINK)


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings in the order of their weights."""
    return sorted(_with_leading_states(_explained(_grouped(_unique(findings)))), key=lambda one: -one.rank)


def _grouped(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings; the same narrow link of several GPUs is one cause, and rather one of the board."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        is_link = one.cause == WarningCode.DOWNGRADED_LINK and len(_NAMED.findall(one.text)) == 1
        key = (one.cause, _NAMED.sub("", one.text)) if is_link else (one.cause, f"{one.text} {one.origin}")
        groups.setdefault(key, []).append(one)
    kept = []
    for same in groups.values():
        first = same[0]
        if len(same) > 1:
            names = [found[0] for one in same if (found := _NAMED.search(one.text)) is not None]
            text = first.text.replace(names[0], listed(names, _MOST_NAMES)).replace("the link of", "each link of")
            first = replace(first, text=text, remedy=f"{_OF_BOARD}; {first.remedy}")
        if first.cause == WarningCode.DOWNGRADED_LINK and (lanes := _LANES.search(first.text)) is not None:
            # The narrowest link first.
            first = replace(first, rank=first.rank - int(lanes[1]) / 1000)
        kept.append(first)
    return kept


def _unique(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with different causes and texts; of those that state one fact, the first."""
    found = {finding.cause for finding in findings}
    same = {cause for group in _SAME_FACT for cause in [one for one in group if one in found][1:]}
    findings = _of_different_facts([finding for finding in findings if finding.cause not in same])
    # A port with few lanes explains the narrow link that another file states.
    explained = {address for one in findings if PORT_ABOVE in one.text for address in ADDRESS.findall(one.text)[:1]}
    kept: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        is_narrow = finding.cause == WarningCode.DOWNGRADED_LINK and PORT_ABOVE not in finding.text
        if is_narrow and explained & set(ADDRESS.findall(finding.text)):
            continue
        # Devices may have the same address on several hosts.
        path = _path(finding) if finding.cause in OF_DEVICES else ""
        key = (finding.cause, finding.text, path)
        if key not in kept or kept[key].rank < finding.rank:
            kept[key] = finding
    return list(kept.values())


def _of_different_facts(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings without those that state the same of a host in the words of another program."""
    kept: list[Finding] = []
    for finding in sorted(findings, key=lambda one: -one.rank):
        if not any(_is_same_fact(finding, other) for other in kept):
            kept.append(finding)
    return [finding for finding in findings if finding in kept]


def _is_same_fact(one: Finding, other: Finding) -> bool:
    """Return whether causes of one host name the same; one cause in two files may be of two hosts."""
    if one.host != other.host or (one.cause == other.cause and _path(one) != _path(other)):
        return False
    return any(words.search(one.text) and words.search(other.text) for words in _SAME_WORDS)


def _path(finding: Finding) -> str:
    return finding.origin.rpartition(":")[0]


def _explained(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings; slow copies below a switch come after the access control that explains them."""
    causes = {finding.cause for finding in findings}
    if any(finding.cause in ("nccl_error", "mpi_error") for finding in findings):
        # The run failed: it does not hang, and its transport is no reason.
        findings = [one for one in findings if one.cause not in _OF_A_RUN_THAT_WORKS]
    if any(finding.cause in _OF_RANKS for finding in findings):
        # The reports of all ranks name more than each of them.
        unfinished = message_table("nccl").named("unfinished").meaning
        findings = [one for one in findings if unfinished not in one.text]
    if "slow_host" in causes:
        # One of its slow runs is enough.
        runs = [one for one in findings if one.cause == "slower_than_public_machines"]
        further = [one for one in runs[1:] if _class_of(one) == _class_of(runs[0])]
        findings = [one for one in findings if one not in further]
    if any(finding.cause == "silent_ranks" for finding in findings):
        # A process that the kernel ended does not report.
        findings = [replace(one, rank=FIRST - 0.44) if "lack of memory" in one.text else one for one in findings]
    failures = [one for one in findings if FIRST - 1 < one.rank < FIRST]
    if failures and all(one.rank < FIRST - 0.43 or one.cause == "waiting_ranks" for one in failures):
        # Only consequences are stated: a device that stopped is why.
        findings = [replace(one, rank=FIRST - 0.001) if _has_stopped(one) else one for one in findings]
    if any(finding.cause != "stopped" and finding.rank >= ACCESS for finding in findings):
        # What a file states may be why the run stopped.
        findings = [replace(one, rank=SYMPTOM) if one.cause == "stopped" else one for one in findings]
    if WarningCode.SLOWER_THAN_STAGED in causes:
        # Host memory is the faster path here.
        findings = [one for one in findings if one.cause != Cause.HOST_MEMORY_TRANSPORT]
    if WarningCode.DOWNGRADED_LINK in causes:
        # A narrow link of one GPU makes its copies differ from those of its class.
        code = WarningCode.CALIBRATION_CONTRADICTED
        findings = [replace(one, rank=SYMPTOM) if one.cause == code else one for one in findings]
    if WarningCode.ACCESS_CONTROL not in causes:
        return list(findings)
    slow = (
        WarningCode.SLOW_BELOW_SWITCH,
        WarningCode.SLOWER_THAN_STAGED,
        WarningCode.SLOW_COPIES,
        WarningCode.CALIBRATION_CONTRADICTED,
        "below_public_machines",
    )
    return [replace(one, rank=SYMPTOM) if one.cause in slow else one for one in findings]


def _class_of(finding: Finding) -> str:
    """Return the class of public machines with which a run is compared: other classes are of other runs."""
    return finding.text.partition(" public machine")[2].partition(":")[0]


def _has_stopped(finding: Finding) -> bool:
    """Return whether a fault of a device ends the operations of a run: others may be older than the run."""
    return finding.cause == "gpu_errors" and any(words in finding.text for words in _STOPPED)


def _is_slow_port(finding: Finding) -> bool:
    return finding.cause == "network_port" and "runs at " in finding.text


def _with_leading_states(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings; a stated fault of a device precedes the slow copies of the same device, which it explains."""
    slow = {found for one in findings if one.rank >= CONTRADICTION - 0.1 for found in ADDRESS.findall(one.text)}
    if any(one.cause in _SLOW_RUNS for one in findings) and any(_is_slow_port(one) for one in findings):
        # Errors that a GPU contains cost a run no time, a slow port does.
        findings = [replace(one, rank=SYMPTOM) if _CONTAINED.search(one.text) is not None else one for one in findings]
    return [
        replace(one, rank=CONTRADICTION + 0.05)
        if one.cause in _STATES and slow & set(ADDRESS.findall(one.text)) and one.rank < CONTRADICTION
        else one
        for one in findings
    ]
