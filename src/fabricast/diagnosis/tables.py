"""Tables of nccl-tests compared with forecasts on PCIe, and with public nodes and clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import pandas as pd

from fabricast.collectives.diagnosis import Cause, diagnose_collective, has_stock_driver
from fabricast.collectives.evidence.pcie_reference import pcie_rates
from fabricast.collectives.forecast import CollectiveForecast, forecast_prepared
from fabricast.collectives.question import Question, prepare
from fabricast.core.errors import InputError
from fabricast.core.facts import Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.number_text import size_text
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.diagnosis.answers import Answers
from fabricast.diagnosis.cluster_forecasts import cluster_forecast, compare_with_forecast, why_no_forecast
from fabricast.diagnosis.clusters import ComparedTable, compare_with_public, run_of
from fabricast.diagnosis.curves import falling_rate, slower_than_larger
from fabricast.diagnosis.measured import CONTRADICTING_FILES
from fabricast.diagnosis.settings import costly_settings, settings_without_forecast
from fabricast.diagnosis.verdict import LACKS_GPUS, LACKS_TOPOLOGY, ONE_RANK, is_refuted, is_within, within_text
from fabricast.diagnosis.weights import MINOR
from fabricast.machine.machine import Machine
from fabricast.nccl.records import NcclLog, NcclTestsTable
from fabricast.sources.nccl_tests import MOST_TABLES

#: Processor of the second forecast where none is stated: NCCL counts links between sockets of both differently.
_OTHER_PROCESSOR = "Intel Xeon"
#: Gain from which a cause explains times beyond the forecast, and size in bytes from which rates of host memory count.
_EXPLAINS, _LARGE = 1.2, 2.0**20
#: Size in bytes from which a table without a topology is compared with any machine with its GPUs, and the share of the
#: slowest one below which it is probably slow.
_LARGE_TABLE, _OF_LOWEST = 2.0**26, 0.5
#: Causes that only the model knows, and which a user may leave as they are.
PROPOSALS = (Cause.PROTOCOL_CHOICE, Cause.NO_GRAPH_FOUND, Cause.RING_ORDER, Cause.CHUNK_SIZE)


def compare_tables(machine: Machine | None, facts: Facts, answers: Answers) -> None:
    """Add what tables of nccl-tests say, compared with their forecast on PCIe or with public nodes and clusters."""
    tables = list(facts.of(Quantity.COLLECTIVE))
    for fact in tables[:MOST_TABLES]:
        try:
            if fact.value.ranks == 1:
                raise InputError(ONE_RANK)
            if not fact.value.rows or fact.value.operation is None:
                answers.damaged.append(_table_problem(fact))
                continue
            answers.findings += [one for one in (slower_than_larger(fact), falling_rate(fact)) if one is not None]
            if machine is None:
                raise InputError(_reason_of_table(fact, facts))
            found, assumed, within, doubtful = _of_collective(machine, fact)
        except InputError as error:
            # A rank by itself sends nothing to others.
            if fact.value.ranks != 1:
                if _compare_with_public(fact, facts, machine, answers):
                    continue
                _compare_with_pcie(fact, machine, answers)
            # Tables of several hosts, of other GPUs or over NVLink: the rest of the bundle is compared.
            text = f"{fact.place}: the table is not compared: {error.reason}"
            answers.warnings.append(CodedWarning(WarningCode.LOG_ROWS_EXCLUDED, text))
            is_verb = error.reason.startswith(("is ", "has ", "lacks ", "lists ", "does "))
            answers.uncompared.append(f"the table of {fact.place} {error.reason}" if is_verb else error.reason)
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


def _reason_of_table(fact: Fact, facts: Facts) -> str:
    """Return why a table cannot be compared without a topology, if neither public machines nor a forecast serve."""
    table: NcclTestsTable = fact.value
    if not table.gpus:
        return LACKS_GPUS
    if table.hosts > 1:
        reason = why_no_forecast(fact, facts)
        because = f": {reason.partition(':')[0]}" if reason else ""
        return f"is of {table.hosts} hosts, and neither public machines nor a forecast serve{because}"
    return LACKS_TOPOLOGY


def _table_problem(fact: Fact) -> str:
    """Return why a table cannot be compared with anything."""
    table: NcclTestsTable = fact.value
    if not table.rows:
        line, reason = table.excluded[0] if table.excluded else (table.line, "has no row")
        return f"{fact.place.path}:{line}: no valid row of nccl-tests: {reason}"
    return (
        f"{fact.place}: the table is not compared: does not name its operation; add the line '# Collective test "
        f"starting: ...' of its program, or use 'fabricast collective --log {fact.place.path} --operation NAME'"
    )


def _compare_with_pcie(fact: Fact, machine: Machine | None, answers: Answers) -> None:
    """Add what public machines with these GPUs over PCIe reach; without a topology, only half of it is doubtful."""
    table: NcclTestsTable = fact.value
    if table.hosts > 1 or table.operation is None or not table.gpus or not table.rows:
        return
    row = table.rows[-1]
    others = pcie_rates(table.gpus[0], table.operation) if row.size_bytes >= _LARGE_TABLE else []
    if not others:
        return
    others.sort(key=lambda one: one.gb_per_s)
    rates = [f"{one.gb_per_s:.3g} GB/s ({one.gpus} GPUs, {one.path})" for one in others]
    text = (
        f"{table.operation} of {size_text(float(row.size_bytes))} reaches {row.bus_bytes_per_s / 1e9:.3g} GB/s of bus "
        f"bandwidth; public machines with this GPU over PCIe: {', '.join(rates)}"
    )
    if row.bus_bytes_per_s / 1e9 < _OF_LOWEST * min(one.gb_per_s for one in others):
        more = LACKS_TOPOLOGY.replace("lacks", "add")
        if machine is not None:
            count = len(machine.tree.accelerator_names)
            more = f"the topology has {count} GPUs, the table {table.ranks}"
            more = "its times are not forecast on the topology" if count == table.ranks else more
        answers.doubtful.append(f"{text}; {more}")
    else:
        answers.notes.append(text)


def _compare_with_public(fact: Fact, facts: Facts, machine: Machine | None, answers: Answers) -> bool:
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
            finding = Finding(WarningCode.FILES_CONTRADICT, text, CONTRADICTING_FILES, MINOR, origin=str(fact.place))
            answers.findings.append(finding)
            return True
        if forecast is not None:
            if compared is not None and forecast.is_doubtful:
                answers.notes.append(compared.text)
            compared = forecast
    if compared is None:
        return False
    answers.findings += _with_settings(fact, facts, machine, compared)
    answers.notes += compared.notes
    if compared.is_neighbour:
        answers.uncompared.append(f"no public machine is of this class; {compared.text}")
        answers.notes.append(
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
    run = run_of(fact, facts)

    def forecast(other: NcclLog) -> pd.DataFrame | None:
        found = cluster_forecast(fact, facts, other, machine)
        return None if found is None else found.table

    costly = list(costly_settings(fact, run, forecast))
    if not costly and (compared.is_slower or compared.is_doubtful):
        costly = list(settings_without_forecast(run))
    yield from costly


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
    found = _behind_causes(found)
    is_slower = any(one.cause == Cause.SLOWER_THAN_FORECAST for one in found)
    if is_slower and _may_be_host_memory(forecast, found):
        # The range is that of known rates of host memory.
        found = [one for one in found if one.cause == Cause.HOST_MEMORY_RATE]
        return found, forecast.warnings, [], [within_text(forecast)]
    if (
        is_slower
        and not is_within(forecast)
        and any(one.text.startswith("the processor is unknown") for one in forecast.warnings)
    ):
        of_intel = replace(machine, options=replace(machine.options, cpu=_OTHER_PROCESSOR))
        other = forecast_prepared(prepare(of_intel, table.operation, Question(table=fact, run=run)))
        if is_within(other):
            text = (
                f"{within_text(other)} with a processor of Intel, and faster with one of AMD: no file states it (--cpu)"
            )
            return [], forecast.warnings, [], [text]
    if not is_slower:
        # The machine does what is expected of it: only changes with a forecast gain are findings.
        found = [one for one in found if one.rank > 1]
    costly = list(_settings_of_collective(machine, fact, run))
    if costly:
        # Their choices follow from the settings.
        found = [one for one in found if one.cause not in (*PROPOSALS, Cause.HOST_MEMORY_RATE)]
    elif run is not None and (is_slower or any(one.cause == Cause.HOST_MEMORY_RATE for one in found)):
        costly = list(settings_without_forecast(run))
        found = [one for one in found if not costly or one.cause != Cause.HOST_MEMORY_RATE]
    found += costly
    if is_slower:
        return found, forecast.warnings, [], []
    text = within_text(forecast)
    return (found, forecast.warnings, [text], []) if is_within(forecast) else (found, forecast.warnings, [], [text])


def _behind_causes(found: Sequence[Finding]) -> list[Finding]:
    """Return findings; times beyond the forecast come after a setting that explains a large part of them."""
    causes = [one for one in found if one.cause not in (*PROPOSALS, Cause.SLOWER_THAN_FORECAST)]
    if any(one.rank > _EXPLAINS for one in causes):
        found = [replace(one, rank=1.0) if one.cause == Cause.SLOWER_THAN_FORECAST else one for one in found]
    return sorted(found, key=lambda one: -one.rank)


def _may_be_host_memory(forecast: CollectiveForecast, found: Sequence[Finding]) -> bool:
    """Return whether only large sizes are slow, and an unknown rate of host memory may be why."""
    causes = [one.cause for one in found if one.cause in (Cause.SLOWER_THAN_FORECAST, Cause.HOST_MEMORY_RATE)]
    slow = [one.sizes for one in found if one.cause == Cause.SLOWER_THAN_FORECAST]
    is_unknown = not forecast.communicator.knows_host_memory and Cause.HOST_MEMORY_RATE in causes
    return is_unknown and all(sizes is not None and sizes[0] >= _LARGE for sizes in slow)


def _settings_of_collective(machine: Machine, fact: Fact, run: Fact | None) -> Iterator[Finding]:
    """Yield the settings of a run that cost time in the forecast of a PCIe machine."""
    if run is None:
        return

    def forecast(other: NcclLog) -> pd.DataFrame:
        question = Question(table=fact, run=replace(run, value=other))
        return forecast_prepared(prepare(machine, fact.value.operation, question)).table

    yield from costly_settings(fact, run, forecast)


def _rows(table: NcclTestsTable, finding: Finding) -> str:
    """Return the first and last line of the rows of a range of sizes, or the line of the header."""
    low, high = finding.sizes or (0.0, float("inf"))
    lines = [row.line for row in table.rows if low <= row.size_bytes <= high] or [table.line]
    first, last = min(lines), max(lines)
    return str(first) if first == last else f"{first}-{last}"
