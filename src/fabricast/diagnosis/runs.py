"""Several runs of one operation compared with each other: a slow host in runs of pairs, and runs of the same hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fabricast.core.facts import Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.number_text import size_text
from fabricast.core.short_text import listed
from fabricast.diagnosis.clusters import log_of
from fabricast.diagnosis.settings import FORECAST_SETTINGS
from fabricast.diagnosis.weights import CONTRADICTION, MINOR, SYMPTOM
from fabricast.nccl.costs import Operation
from fabricast.nccl.records import NcclTestsTable

#: Share of the rate of the fastest run below which a run is slow, and below which a note says so.
_SLOW, _NOTED = 0.8, 0.95
#: Number of runs of pairs that name hosts, and number from which all pairs but one may not be slow.
_FEWEST_PAIRS, _MANY_PAIRS = 2, 3
#: Number of hosts from which one differs from the others, and share of their rate from which runs are alike.
_FEWEST_HOSTS, _ALIKE = 3, 0.93
#: Number of nodes from which all_reduce of large sizes is a ring on every public cluster, and most hosts in a text.
_RING_NODES, _MOST_HOSTS = 4, 4
#: Size in bytes from which rates of links decide.
_LARGE = 2.0**24
#: Size in bytes from which results in place and out of place are compared, their number, and the ratios of equal and
#: of very different ones.
_LARGE_ROW, _FEWEST_ROWS, _EVEN, _UNEVEN = 1 << 26, 4, 0.1, 1.25


def slow_runs(facts: Facts) -> Iterator[Finding]:
    """Yield the host that all slow pairs of hosts have in common, and runs that another run of the same hosts beats."""
    groups: dict[tuple[object, ...], list[Fact]] = {}
    for fact in _with_hosts(facts):
        groups.setdefault((fact.value.operation, fact.value.ranks, fact.value.gpus[:1]), []).append(fact)
    for runs in groups.values():
        yield from _of_pairs([fact for fact in runs if fact.value.hosts == 2])
        yield from _of_single_hosts([fact for fact in runs if fact.value.hosts == 1], facts)
        by_hosts: dict[frozenset[str], list[Fact]] = {}
        for fact in runs:
            by_hosts.setdefault(frozenset(fact.value.host_names), []).append(fact)
        for same in by_hosts.values():
            yield from _of_same_hosts(same)
    by_gpu: dict[tuple[object, ...], list[Fact]] = {}
    for runs in groups.values():
        table = runs[0].value
        if (
            table.operation is Operation.ALL_REDUCE
            and table.hosts >= _RING_NODES
            and not (table.ranks or 1) % table.hosts
        ):
            by_gpu.setdefault((table.gpus[:1], (table.ranks or 0) // table.hosts), []).append(_fastest(runs))
    for runs in by_gpu.values():
        yield from _of_fewer_nodes(runs)


def _with_hosts(facts: Facts) -> Iterator[Fact]:
    """Yield the tables of known operations with rows and names of hosts."""
    for fact in facts.of(Quantity.COLLECTIVE):
        table: NcclTestsTable = fact.value
        if table.operation is not None and table.rows and table.host_names:
            yield fact


def _rates(runs: Sequence[Fact]) -> tuple[int, list[float]] | None:
    """Return the largest common size and the bus bandwidth of each run in bytes/s; None without a large one."""
    common = set.intersection(*({row.size_bytes for row in fact.value.rows} for fact in runs))
    size = max(common, default=0)
    if size < _LARGE:
        return None
    return size, [next(row.bus_bytes_per_s for row in fact.value.rows if row.size_bytes == size) for fact in runs]


def _of_pairs(runs: Sequence[Fact]) -> Iterator[Finding]:
    """Yield the host in all slow pairs and in no fast one, or both hosts of the only slow pair."""
    found = _rates(runs) if len(runs) >= _FEWEST_PAIRS else None
    if found is None:
        return
    size, rates = found
    slow = [number for number, rate in enumerate(rates) if rate < _SLOW * max(rates)]
    fast = [number for number in range(len(runs)) if number not in slow]
    if not slow or len(slow) >= len(runs) - 1 > _MANY_PAIRS:
        return
    healthy = {host for number in fast for host in runs[number].value.host_names}
    suspects = sorted(set.intersection(*(set(runs[number].value.host_names) for number in slow)) - healthy)
    if not suspects or (len(suspects) > 1 and len(slow) > 1):
        return
    worst = min(slow, key=lambda number: rates[number])
    with_it = _span([rates[number] for number in slow])
    without = _span([rates[number] for number in fast])
    measured = f"{runs[worst].value.operation} of {size_text(size)} reaches {with_it} GB/s of bus bandwidth"
    if len(suspects) > 1:
        pairs = f"{len(fast)} other pairs" if len(fast) > 1 else "the other pair"
        text = f"{' or '.join(suspects)} is slow: {measured} between them, {without} GB/s in {pairs}"
        remedy = f"run each of {' and '.join(suspects)} with a host of a fast pair, which shows the slow one"
    else:
        (host,) = suspects
        pairs = (
            f"all {len(slow)} slow pairs of hosts"
            if len(slow) > 1
            else "the slow pair, and its other host in a fast one"
        )
        text = f"{host} is in {pairs}: {measured} with it, {without} GB/s in the {len(fast)} pairs without it"
        remedy = f"check {host}: 'ibstat', 'dmesg', 'nvidia-smi -q', 'sudo lspci -vv' of its cards, and its environment"
    host = suspects[0] if len(suspects) == 1 else ""
    yield Finding("slow_host", text, remedy, CONTRADICTION + 0.2, origin=str(runs[worst].place), host=host)


def _of_single_hosts(runs: Sequence[Fact], facts: Facts) -> Iterator[Finding]:
    """Yield the hosts whose GPUs are slower together than those of the others, each measured by itself."""
    fastest: dict[str, Fact] = {}
    for fact in runs:
        (host,) = fact.value.host_names
        fastest[host] = _fastest([fastest.get(host, fact), fact])
    hosts = sorted(fastest)
    found = _rates([fastest[host] for host in hosts]) if len(hosts) >= _FEWEST_HOSTS else None
    if found is None:
        return
    size, rates = found
    usual = float(np.median(rates))
    slow = [host for host, rate in zip(hosts, rates, strict=True) if rate < _ALIKE * usual]
    others = [rate for rate in rates if rate >= _ALIKE * usual]
    # Others that differ as much among themselves say nothing.
    if not slow or len(slow) > len(hosts) // 2 or min(others) < _ALIKE * max(others):
        return
    table = fastest[slow[0]].value
    span = _span([rates[hosts.index(host)] for host in slow])
    text = (
        f"{listed(slow, _MOST_HOSTS)}: {table.operation} of {size_text(size)} reaches {span} GB/s of bus bandwidth, "
        f"{_span(others)} GB/s on the {len(others)} other hosts"
    )
    settings = {host: _settings(fact, facts) for host, fact in fastest.items()}
    if not {settings[host] for host in slow} & {settings[host] for host in hosts if host not in slow}:
        # Other causes name the setting or version; a run with the same ones shows whether the host is slow.
        remedy = "run again with the version and the settings of the other hosts, then compare"
        text += ", whose version of NCCL or settings differ"
        yield Finding("slower_than_other_run", text, remedy, SYMPTOM + 0.1, origin=str(fastest[slow[0]].place))
        return
    who = slow[0] if len(slow) == 1 else "these hosts"
    remedy = f"check {who}: 'nvidia-smi -q' (throttling), 'nvidia-smi nvlink -s', 'dmesg', and its variables (NCCL_*)"
    weight, host = CONTRADICTION + 0.2, slow[0] if len(slow) == 1 else ""
    yield Finding("slow_host", text, remedy, weight, origin=str(fastest[slow[0]].place), host=host)


def _settings(fact: Fact, facts: Facts) -> tuple[object, ...]:
    """Return the version of NCCL and the settings of a run that change its rates."""
    run = log_of(fact, facts)
    if run is None:
        return (fact.value.library,)
    return (run.version, *sorted(item for item in run.environment.items() if item[0] in FORECAST_SETTINGS))


def _of_same_hosts(runs: Sequence[Fact]) -> Iterator[Finding]:
    """Yield runs that are much slower than the fastest run of the same hosts."""
    for fact, rate, best in _below_best(runs):
        if rate < _SLOW * best.rate:
            text = (
                f"{fact.value.operation} of {size_text(best.size)} reaches {rate / 1e9:.3g} GB/s of bus bandwidth, "
                f"{best.rate / 1e9:.3g} GB/s in {best.path} on the same hosts"
            )
            remedy = "compare settings, versions and transports of both runs (NCCL_DEBUG=INFO), and what changed since"
            yield Finding("slower_than_other_run", text, remedy, SYMPTOM + 0.1, origin=str(fact.place))


class _Best(NamedTuple):
    """Fastest run at the largest common size: its file, the size in bytes, and its bus bandwidth in bytes/s."""

    path: str
    size: int
    rate: float


def _below_best(runs: Sequence[Fact]) -> Iterator[tuple[Fact, float, _Best]]:
    """Yield the runs of other files than the fastest run, with their bus bandwidth in bytes/s."""
    found = _rates(runs) if len(runs) > 1 else None
    if found is None:
        return
    size, rates = found
    fastest = max(range(len(runs)), key=lambda number: rates[number])
    best = _Best(runs[fastest].place.path, size, rates[fastest])
    for fact, rate in zip(runs, rates, strict=True):
        if fact.place.path != best.path:
            yield fact, rate, best


def slightly_slower_runs(facts: Facts) -> Iterator[str]:
    """Yield runs that are some percent slower than the fastest run of the same hosts."""
    groups: dict[tuple[object, ...], list[Fact]] = {}
    for fact in _with_hosts(facts):
        table: NcclTestsTable = fact.value
        groups.setdefault((table.operation, table.ranks, frozenset(table.host_names)), []).append(fact)
    for runs in groups.values():
        for fact, rate, best in _below_best(runs):
            if _SLOW <= rate / best.rate < _NOTED:
                yield (
                    f"{fact.value.operation} of {size_text(best.size)} in {fact.place.path} has "
                    f"{rate / 1e9:.3g} GB/s of bus bandwidth, {100 * (1 - rate / best.rate):.0f} % less than on the "
                    f"same hosts in {best.path}"
                )


def uneven_rows(facts: Facts) -> Iterator[str]:
    """Yield the large size of a table whose two results, out of place and in place, differ as no other size's do."""
    for fact in facts.of(Quantity.COLLECTIVE):
        rows = [one for one in fact.value.rows if one.in_place_s and one.size_bytes >= _LARGE_ROW]
        ratios = [one.in_place_s / one.time_s for one in rows]
        far = [place for place, ratio in enumerate(ratios) if not 1 / _UNEVEN < ratio < _UNEVEN]
        if (
            len(far) == 1
            and len(rows) >= _FEWEST_ROWS
            and all(abs(ratio - 1) < _EVEN for place, ratio in enumerate(ratios) if place != far[0])
        ):
            row, ratio = rows[far[0]], ratios[far[0]]
            in_place = row.bus_bytes_per_s / ratio / 1e9
            yield (
                f"{fact.value.operation or 'the operation'} of {size_text(row.size_bytes)} has "
                f"{row.bus_bytes_per_s / 1e9:.3g} GB/s of bus bandwidth out of place and {in_place:.3g} GB/s in place, "
                f"which agree at all other large sizes: something disturbed one of them; repeat it ({fact.place.path}:"
                f"{row.line})"
            )


def _fastest(runs: Sequence[Fact]) -> Fact:
    """Return the run with the highest bus bandwidth of its largest size."""
    return max(runs, key=lambda fact: fact.value.rows[-1].bus_bytes_per_s)


def _of_fewer_nodes(runs: Sequence[Fact]) -> Iterator[Finding]:
    """Yield runs whose rate is far below that of fewer nodes, on which the rate of a ring hardly depends."""
    found = _rates(runs) if len(runs) > 1 else None
    if found is None:
        return
    size, rates = found
    order = sorted(range(len(runs)), key=lambda number: runs[number].value.hosts)
    best = order[0]
    for number in order[1:]:
        table, fewer = runs[number].value, runs[best].value
        if rates[number] < _SLOW * rates[best]:
            more = sorted(set(table.host_names) - set(fewer.host_names))
            text = (
                f"all_reduce of {size_text(size)} reaches {rates[number] / 1e9:.3g} GB/s of bus bandwidth on "
                f"{table.hosts} nodes, {rates[best] / 1e9:.3g} GB/s on {fewer.hosts}: the rate of a ring hardly "
                "depends on their number"
            )
            remedy = "run halves of the nodes, then pairs"
            remedy += f", first those of {listed(more, _MOST_HOSTS)}" if more else ""
            remedy += ": a slow host is in each slow half; if both halves are fast, the network between them is slow"
            yield Finding("slower_than_fewer_nodes", text, remedy, MINOR, origin=str(runs[number].place))
        elif rates[number] > rates[best]:
            best = number


def _span(rates: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{rate / 1e9:.3g}" for rate in (min(rates), max(rates)))
    return " to ".join(ends)
