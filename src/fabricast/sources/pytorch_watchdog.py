"""Reports of PyTorch's watchdog: which rank of a job stopped, and whether all ranks wait in one operation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from fabricast.core.facts import Fact, Quantity
from fabricast.core.short_text import numbered
from fabricast.sources.text import Text

#: Rank, process group and operation of a report.
_REPORT = re.compile(
    r"\[(?:PG (?:ID )?(?P<first>[^\s\]]{1,40})[^\]\n]{0,80}? )?Rank (?P<rank>\d{1,6})\]"
    r"\s?(?:\[?PG (?:ID |GUID )?(?P<group>[^\s\]]{1,40})[^\n]{0,80}?)?\s?Watchdog caught[^\n]{0,80}?"
    r"SeqNum=(?P<operation>\d{1,12})(?:, OpType=(?P<call>\w{1,40}))?(?:, NumelIn=(?P<numbers>\d{1,20}))?"
)
#: Ranks that print a line.
_PRINTS = re.compile(r"\[rank(\d{1,6})\]:|\brank (\d{1,6}) nranks ")
#: Process group and rank of PyTorch, the operation at which it waits (not in all messages), and its last one.
_LAST_WORK = re.compile(
    r"\[PG (?:ID \S{1,40} PG )?(?:ID |GUID )?([^\s\]]{1,80}) Rank (\d{1,6})\]"
    r"(?:[^\n]{0,120}? at (?:NCCL )?work(?: sequence id)?: (\d{1,12}))?[^\n]{0,240}?"
    r"[Ll]ast enqueued (?:NCCL )?work: (-?\d{1,12})"
)
_RANK_OF_JOB = re.compile(r"\[rank(\d{1,6})\]:")
#: Largest difference of the numbers of operations that a rank has begun in one group.
_MOST_PENDING = 64
#: Difference between ranks from which reports without the name of a group are of several groups.
_FARTHEST = 10_000
#: Share of the ranks of a group above which one that does not report is an exception, and number of names.
_MOST, _MOST_NAMES = 0.7, 8
#: Kind of a cause whose ranks may be all of the job, or all but the last.
REPORTING_RANKS_WAIT = "reporting_ranks_wait"
#: Operation and line of each rank.
Reports = dict[int, tuple[int, int]]


def stopped_ranks(text: Text, ranks: int | None) -> Iterator[Fact]:
    """Yield what the reports of the ranks of a process group say together; `ranks` is their number, if it is known."""
    groups: dict[str, Reports] = {}
    #: Groups without a name in which a rank reports operations that it cannot all have begun: they are several groups.
    mixed: set[str] = set()
    calls: dict[str, dict[int, str]] = {}
    for number, line in text.lines(lambda line: "Watchdog caught" in line):
        if "Watchdog caught" in line and (match := _REPORT.search(line)) is not None:
            name, rank = match["first"] or match["group"] or "", int(match["rank"])
            report = int(match["operation"]), number
            group = groups.setdefault(name, {})
            if not name and rank in group and abs(group[rank][0] - report[0]) > _MOST_PENDING:
                mixed.add(name)
            if rank not in group or report < group[rank]:
                group[rank] = report
                size = f" of {match['numbers']} elements" if match["numbers"] else ""
                calls.setdefault(name, {})[rank] = f"{match['call'] or ''}{size}"
    for name, group in groups.items():
        operations = [operation for operation, _ in group.values()]
        if name in mixed or (not name and max(operations) - min(operations) > _FARTHEST):
            # Each group counts its operations by itself, and no rank is so far ahead of another one in a group.
            continue
        cause = _cause(group, calls[name], ranks, _printing(text))
        if cause is not None:
            kind, words = cause
            yield text.fact(Quantity.CAUSE, words, min(group.values())[1], "NCCL", subject=(kind,))
            return
    yield from _late_ranks(text)


def _printing(text: Text) -> set[int]:
    """Return the ranks that print a line of the text."""
    lines = text.lines(lambda line: "[rank" in line or " nranks " in line)
    return {int(found[1] or found[2]) for _, line in lines if (found := _PRINTS.search(line)) is not None}


def _cause(group: Reports, calls: dict[int, str], ranks: int | None, printing: set[int]) -> tuple[str, str] | None:
    """Return kind and words of the cause that the reports of a group show."""
    low, high = (choose((*found, rank) for rank, found in group.items()) for choose in (min, max))
    if low[0] < high[0]:
        late, ahead = (sorted(rank for rank, found in group.items() if found[0] == one[0]) for one in (low, high))
        wait = "wait" if len(late) > 1 else "waits"
        who, others = (numbered("rank", one, _MOST_NAMES) for one in (late, ahead))
        words = f"{who} {wait} at operation {low[0]:,}, {others} at {high[0]:,} (SeqNum)"
        if calls[late[0]] != calls[ahead[0]] and calls[late[0]] and calls[ahead[0]]:
            words += f", {calls[late[0]]} and {calls[ahead[0]]}"
        return "waiting_ranks", f"{words}: one of them stopped, or left out a call"
    # Pages that break lines cut the name of a call off.
    named = {rank: call for rank, call in calls.items() if call}
    usual = Counter(named.values()).most_common(1)[0][0] if named else ""
    other = next((rank for rank in sorted(named) if named[rank] != usual), None)
    if other is not None:
        words = f"operation {low[0]:,} is {calls[other]} on rank {other}, and {usual} on most ranks"
        return "waiting_ranks", f"{words}: the program calls other operations there"
    # Ranks after the last one that reports are unknown without the number of ranks.
    total = max(group) + 1 if ranks is None or ranks <= max(group) else ranks
    missing = set(range(total)) - group.keys()
    # The last ranks may be of a host whose output the text lacks.
    silent = sorted(rank for rank in missing if rank in printing or rank < max(group))
    if silent and len(group) >= max(_MOST * total, 2):
        names = numbered("rank", silent, _MOST_NAMES)
        do = "do" if len(silent) > 1 else "does"
        return (
            "silent_ranks",
            f"{len(group)} of {total} ranks report that operation {low[0]:,} did not end; {names} {do} not",
        )
    if not missing and ranks == total > 1:
        return "all_ranks_wait", f"all {total} ranks wait in the same operation {low[0]:,}: its data do not arrive"
    if not missing and ranks is None and total > 1:
        return REPORTING_RANKS_WAIT, f"ranks 0 to {total - 1}, all that report, wait in the same operation {low[0]:,}"
    return None


def _late_ranks(text: Text) -> Iterator[Fact]:
    """Yield the note that a rank states an earlier last operation than that at which others wait."""
    waits: dict[str, tuple[int, int]] = {}
    waiting_ranks: set[int] = set()
    last: dict[str, Reports] = {}
    for number, line in text.lines(lambda line: "ast enqueued" in line):
        if (match := _LAST_WORK.search(line)) is None:
            continue
        # Groups number their ranks themselves; the prefix of a line names the rank of the job.
        prefix = _RANK_OF_JOB.search(line)
        group, rank, work = match[1], int(prefix[1] if prefix is not None else match[2]), int(match[4])
        last.setdefault(group, {}).setdefault(rank, (work, number))
        # A rank waits at an operation that it enqueued itself.
        if match[3] is not None and int(match[3]) <= work:
            waits[group] = min(waits.get(group, (1 << 62, 0)), (int(match[3]), rank))
            waiting_ranks.add(rank)
    for group, (operation, waiting) in waits.items():
        # A rank that waits in another group is delayed by that one.
        late = {
            rank: found for rank, found in last[group].items() if found[0] < operation and rank not in waiting_ranks
        }
        if late:
            rank = min(late)
            count = f" ({len(late)} ranks in all)" if len(late) > 1 else ""
            words = (
                f"rank {waiting} waits at operation {operation:,}, and rank {rank}{count} states {late[rank][0]:,} as "
                f"its last one (process group {group}): look at the program of rank {rank} first"
            )
            yield text.fact(Quantity.NOTE, words, late[rank][1], "PyTorch")
            return
