"""Warnings and errors of NCCL in the order of a log, each meaning once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import shortened
from fabricast.diagnosis.nccl_hosts import is_of_one_host, uses_infiniband
from fabricast.diagnosis.weights import ACCESS, FIRST, MINOR
from fabricast.known_messages.table import KnownProblem, message_table
from fabricast.nccl.records import NcclLog

#: Maximum number of characters of a quoted message.
_MOST_QUOTED = 240
#: Advice that does not serve where it was followed.
_TEST_WITHOUT_P2P = "test with NCCL_P2P_DISABLE=1; "
#: Address of the peer in a message.
_PEER = re.compile(r"\bpeer (\d{1,3}(?:\.\d{1,3}){3})\b")
#: Error that a message names, as CUDA prints it.
_NAMES_ERROR = re.compile(r"failure \d{1,4} '")
#: Events of network cards, and memory that older ROCm lacks: warnings of NCCL that change nothing for a run.
_HARMLESS = re.compile(
    r"async event : (?:port active|client reregistration|(?:GID table|LID|P_Key|SM) change)|cuMem support requires VMM"
)


def nccl_problems(facts: Facts) -> Iterator[Finding]:
    """Yield the warnings and errors of NCCL, each meaning once, with the remedy that is known."""
    found: dict[str, tuple[KnownProblem | None, Fact]] = {}
    excluded = {fact.place.path for fact in facts.of(Quantity.NCCL_RUN) if _needs_no_verbs(fact.value, facts)}
    single = {fact.place.path for fact in facts.of(Quantity.NCCL_RUN) if is_of_one_host(fact.value)}
    for fact in facts.of(Quantity.NCCL_PROBLEM):
        if _HARMLESS.search(fact.value):
            continue
        problem = message_table("nccl").problem(fact.value)
        if problem is not None and problem.name == "no_verbs" and fact.place.path in excluded:
            # The user chose TCP, or nothing shows several hosts.
            continue
        if problem is not None and _is_about_plugin(problem, fact) and fact.place.path in single:
            continue
        meaning = "" if problem is None else problem.meaning
        if problem is not None and problem.is_general and _NAMES_ERROR.search(fact.value) is not None:
            # The message that names the error says more than that a call failed.
            known = found.get(meaning)
            if known is not None and _NAMES_ERROR.search(known[1].value) is None:
                del found[meaning]
        found.setdefault(meaning, (problem, fact))
    found = {meaning: one for meaning, one in found.items() if one[0] is None or not set(one[0].same_as) & found.keys()}
    found = {meaning: (_as_warning(one, fact, facts), fact) for meaning, (one, fact) in found.items()}
    failures = [one for one, _ in found.values() if one is not None and one.is_failure]
    logs = facts.values(Quantity.NCCL_RUN)
    is_tested = any(log.environment.get("NCCL_P2P_DISABLE") == "1" for log in logs)
    is_explained = any(not one.is_consequence for one in failures)
    for number, (problem, fact) in enumerate(found.values(), start=1):
        quoted = shortened(fact.value, _MOST_QUOTED)
        if problem is not None and problem.is_general and is_explained:
            continue
        if problem is None:
            if all(one.is_consequence for one in failures):
                remedy = "the meaning of this message is not known here; search for it with the version of NCCL"
                # Without another cause, it is why the run failed.
                cause, weight = ("nccl_error", FIRST - number / 100) if failures else ("nccl_warning", MINOR)
                yield Finding(cause, f'NCCL warns: "{quoted}"', remedy, weight, origin=str(fact.place))
            continue
        weight = ACCESS - 0.01 * problem.is_consequence
        if problem.is_failure:
            # The first message of a log is the cause of those after it; consequences follow.
            weight = FIRST - number / 100 - 0.5 * problem.is_consequence - 0.3 * problem.is_general
        cause = "nccl_error" if problem.is_failure else "nccl_warning"
        host = f" ({fact.subject[0]}{_peer_of(fact.value, facts)})" if fact.subject else ""
        remedy = problem.remedy_for(is_infiniband=uses_infiniband(facts))
        remedy = remedy.replace(_TEST_WITHOUT_P2P, "") if is_tested else remedy
        yield Finding(cause, f'{problem.meaning}{host}: "{quoted}"', remedy, weight, origin=str(fact.place))


def _is_about_plugin(problem: KnownProblem, fact: Fact) -> bool:
    """Return whether a message states that the plugin for EFA finds no network."""
    is_late = problem.name == "ofi_failed" and "initialization failed" in fact.value
    return problem.name == "ofi_no_provider" or is_late


def _peer_of(message: str, facts: Facts) -> str:
    """Return the host at whose address a message names the peer; empty if no log states it."""
    peer = _PEER.search(message)
    if peer is None:
        return ""
    for log in facts.values(Quantity.NCCL_RUN):
        for host, one in log.hosts.items():
            if one.interface is not None and one.interface[0].partition(":")[2] == peer[1]:
                return f", peer {host}"
    return ""


def _as_warning(problem: KnownProblem | None, fact: Fact, facts: Facts) -> KnownProblem | None:
    """Return a problem after which the run went on, also over TCP, as a warning; others as they are."""
    if problem is None:
        return None
    tables = [one.value for one in facts.of(Quantity.COLLECTIVE) if one.place.path == fact.place.path]
    if any(table.rows and table.rows[-1].line > fact.place.line for table in tables):
        return problem.model_copy(update={"is_failure": False})
    runs = [run.value for run in facts.of(Quantity.NCCL_RUN) if run.place.path == fact.place.path]
    if any(log.lines.get("initialised", 0) > fact.place.line for log in runs):
        return problem.model_copy(update={"is_failure": False})
    if problem.name not in ("card_failed", "ofi_refused", "ofi_failed"):
        return problem
    return problem.model_copy(update={"is_failure": False}) if any(log.network == "Socket" for log in runs) else problem


def _needs_no_verbs(log: NcclLog, facts: Facts) -> bool:
    """Return whether a run chose TCP, or no file shows that it has several hosts."""
    if log.environment.get("NCCL_IB_DISABLE") == "1":
        return True
    has_hosts = log.nodes > 1 or any(via.startswith("NET") for via in log.transports.values())
    return not has_hosts and not any(table.hosts > 1 for table in facts.values(Quantity.COLLECTIVE))
