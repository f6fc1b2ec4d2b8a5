"""Known errors of Open MPI, UCX, libfabric and perftest, with their meaning and remedy."""

from __future__ import annotations

from collections.abc import Iterator

from fabricast.core.facts import Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import shortened
from fabricast.diagnosis.nccl_hosts import uses_infiniband
from fabricast.diagnosis.weights import ACCESS, FIRST, MINOR
from fabricast.known_messages.table import KnownProblem, message_table

_MOST_QUOTED = 300
_TABLE = message_table("mpi")


def mpi_problems(facts: Facts) -> Iterator[Finding]:
    """Yield the errors of MPI, each meaning once; errors after which a run has results are notes."""
    aborted, results = _aborted(facts), _last_results(facts)
    found: dict[str, tuple[KnownProblem | None, Fact]] = {}
    nccl_names_sharp = any("SHARP" in message for message in facts.values(Quantity.NCCL_PROBLEM))
    for fact in facts.of(Quantity.MPI_PROBLEM):
        problem = _TABLE.problem(fact.value)
        if not _is_survived(fact, aborted, results) and not _is_guess(problem, facts):
            if nccl_names_sharp and problem is not None and problem.name == "no_sharp":
                # The library of SHARP prints its lines for NCCL.
                continue
            found.setdefault("" if problem is None else problem.meaning, (problem, fact))
    found = {meaning: one for meaning, one in found.items() if one[0] is None or not set(one[0].same_as) & found.keys()}
    # Slurm ends the other tasks after the first that fails: that one is the cause.
    ordered = sorted(found.values(), key=lambda one: one[0] is not None and one[0].name == "cancelled")
    explanations = [one for one, _ in ordered if one is not None and not one.is_consequence]
    has_others = any(facts.of(Quantity.NCCL_PROBLEM))
    # What follows from a warning is no failure.
    are_warnings = bool(explanations) and not any(one.is_failure for one in explanations)
    for number, (problem, fact) in enumerate(ordered, start=1):
        is_failure = fact.place.path in aborted and (problem is None or problem.is_failure)
        is_later = bool(explanations) and (problem is None or problem.is_consequence)
        is_general = problem is not None and problem.is_general
        is_later |= has_others and is_general
        is_failure = is_failure and not (are_warnings and is_later and problem is not None)
        weight = MINOR if problem is None else ACCESS
        if is_failure:
            weight = FIRST - number / 100 - 0.5 * is_later - 0.3 * is_general
        meaning = "an error whose meaning is not known here" if problem is None else problem.meaning
        host = f" ({fact.subject[0]})" if fact.subject else ""
        remedy = (
            "search for the message with the version of the library"
            if problem is None
            else problem.remedy_for(is_infiniband=uses_infiniband(facts))
        )
        cause = f"mpi_{'error' if is_failure else 'warning'}"
        text = f'{meaning}{host}: "{shortened(fact.value, _MOST_QUOTED)}"'
        yield Finding(cause, text, remedy, weight - 0.01 * is_later, origin=str(fact.place))


def mpi_notes(facts: Facts) -> Iterator[str]:
    """Yield the errors after which a run has results: Open MPI and UCX try the next interface or device."""
    aborted, results = _aborted(facts), _last_results(facts)
    for fact in facts.of(Quantity.MPI_PROBLEM):
        problem = _TABLE.problem(fact.value)
        if problem is not None and _is_guess(problem, facts):
            yield f'{problem.meaning}: "{shortened(fact.value, _MOST_QUOTED)}" ({fact.place})'
        elif _is_survived(fact, aborted, results):
            yield f'the run has results after the error "{shortened(fact.value, _MOST_QUOTED)}" ({fact.place})'


def _aborted(facts: Facts) -> set[str]:
    """Return the files that state the end of a run."""
    return {fact.place.path for fact in facts.of(Quantity.MPI_ABORTED)}


def _is_guess(problem: KnownProblem | None, facts: Facts) -> bool:
    """Return whether a message is a guess of PyTorch about a GPU, in files that state no failure."""
    is_guess = problem is not None and problem.name == "guessed_gpu"
    others = any(_TABLE.problem(message) is not problem for message in facts.values(Quantity.MPI_PROBLEM))
    return is_guess and not (others or any(facts.of(Quantity.NCCL_PROBLEM, Quantity.MPI_ABORTED)))


def _is_survived(fact: Fact, aborted: set[str], results: dict[str, int]) -> bool:
    """Return whether a run that was not aborted has results below an error, which does not slow it down."""
    problem = _TABLE.problem(fact.value)
    if problem is not None and problem.is_costly:
        return False
    return fact.place.path not in aborted and results.get(fact.place.path, 0) > fact.place.line


def _last_results(facts: Facts) -> dict[str, int]:
    """Return the last line with a result in each file."""
    last: dict[str, int] = {}
    for table in facts.of(Quantity.COLLECTIVE):
        last[table.place.path] = max([last.get(table.place.path, 0), *(row.line for row in table.value.rows)])
    for fact in facts.of(Quantity.MESSAGE_TIME, Quantity.OPERATION_TIME):
        last[fact.place.path] = max(last.get(fact.place.path, 0), fact.place.line)
    return last
