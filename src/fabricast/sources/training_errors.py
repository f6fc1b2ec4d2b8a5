"""Reader of errors by which PyTorch, Ray, JAX and Horovod state why the processes of a job stop or wait."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, takewhile

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import listed, numbered
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "PyTorch, Ray, JAX or Horovod"
#: Addition to a warning after a minute.
_GOES_ON_LATER = "a warning of Horovod: the run may go on"
#: Message, kind of the cause, and its words.
_ERRORS = (
    (
        r"killed due to memory pressure|node running low on memory|Ray killed this worker",
        "host_memory",
        "Ray ended a process, because the memory of its host is nearly full",
    ),
    (
        r"DataLoader worker .{0,60}killed by signal: Killed",
        "host_memory",
        "a process that loads data was killed, usually for lack of memory of the host",
    ),
    (
        r"DataLoader worker .{0,60}killed by signal: Bus error|dataloader's workers are out of shared memory",
        "small_shared_memory",
        "a process that loads data gets no shared memory (/dev/shm)",
    ),
    (
        r"threads to join the rendezvous, but not all of them arrived",
        "late_ranks",
        "not all devices came in time to an operation of JAX (a warning: the run may go on)",
    ),
    (
        r"by subset of ranks and are waiting for remainder of ranks",
        "late_ranks",
        f"some ranks wait in an operation of Horovod that others do not call ({_GOES_ON_LATER})",
    ),
    (
        r"has parameters that were not used in producing loss",
        "unused_parameters",
        "the processes wait for gradients of parameters that an iteration does not use",
    ),
    (
        r"Detected kernel version [\d.]{3,20}.{0,20}below the recommended minimum",
        "old_kernel",
        "this version of Linux can stop processes that share memory with GPUs",
    ),
    (
        r"[Aa]ccept failed: Too many open files|\[Errno 24\] Too many open files",
        "open_files",
        "a process has too many open files and connections",
    ),
    (
        r"(?:CUDA error: |CUDA_ERROR_INVALID_DEVICE: |hipErrorInvalidDevice.{0,20})invalid device ordinal",
        "device_numbers",
        "a process uses the number of a GPU that it does not see",
    ),
)
_WORDS = (
    "memory pressure",
    "low on memory",
    "Ray killed",
    "DataLoader worker",
    "out of shared memory",
    "join the rendezvous",
    "producing loss",
    "remainder of ranks",
    "Detected kernel version",
    "Too many open files",
    "invalid device ordinal",
    "issing ranks",
    "Missing ranks:",
    "Stalled ranks:",
    "Timed out task names",
    "mismatch between collectives",
    "in store based barrier",
    "waiting for clients",
    "waiting for workers",
    "Not all ranks joining collective",
)
#: What stands in texts about errors, and in comments of programs; and that a wait of JAX went on.
_ADVICE, _COMMENT = re.compile(r"\b[Ii]f (?:you|your|there)\b"), re.compile(r"^\s*(?:#(?!#)|//|\"\"\")")
_WENT_ON = "is unstuck"
_ONE_GPU = re.compile(r"--gpus-per-task[= ]1\b|CUDA_VISIBLE_DEVICES=\d\b(?!,)")
#: Ranks that Horovod misses: in brackets behind an operation, or one to a line with its operations.
_MISSING = re.compile(r"\[missing ranks:\s*(\d[\d, ]{0,200})\]")
_MISSING_FOR = re.compile(
    r"^(?:\[\d{1,6}(?:,\d{1,6})?\]<std\w{3}>:|[A-Za-z][\w.-]{0,60}: )?\s*(\d{1,6}): \[(\w[\w./]{0,80})"
)
#: Processes that came to the start of a job of PyTorch in time, and those that it expects.
_START = re.compile(
    r"Timed out .{0,60}in store based barrier.{0,100}\(world_size=(?P<all>\d{1,7}), \w{1,30}=(?P<came>\d{1,7}),"
    r"|Timed out after .{1,20} waiting for (?:clients|workers)\. (?P<joined>\d{1,7})/(?P<expected>\d{1,7}) \w+ joined"
)
#: Operation that ranks do not call, as PyTorch's flight recorder (torchfrtrace) states it, and lines below it.
_NOT_JOINED = re.compile(r"Not all ranks joining collective(?:.{0,200}? collective (?P<name>\w[\w:]{1,40}))?")
_OPERATION = re.compile(r"\bcollective: (\w[\w:]{1,40})")
_NOT_JOINING = re.compile(r"(?:missing ranks: |Missing ranks are )\{(\d[\d, ]{0,400})\}")
_LINES_OF_RECORD = 12
#: End of the initialisation of NCCL, which a start without all processes does not reach.
_GOES_ON = "Init COMPLETE"
#: Tasks that do not come to a barrier of JAX, one to a line.
_BARRIER = re.compile(r"Barrier_id: (\S{1,80}?)\. Timed out task names:")
_TASK = re.compile(r"/task:(\d{1,6})")
#: Two ranks with different operations, as TORCH_DISTRIBUTED_DEBUG=DETAIL states them.
_MISMATCH = re.compile(
    r"Rank (\d{1,6}) is running collective: CollectiveFingerPrint\((.{1,600}?)"
    r"but Rank (\d{1,6}) is running collective: CollectiveFingerPrint\((.{1,400})"
)
_CALL = re.compile(r"OpType=(\w{1,40})")
_PARTS = (
    ("the shape", re.compile(r"TensorShape=(\[[\d, ]{0,80}\])")),
    ("numbers of type", re.compile(r"TensorDtypes=(\w{1,20})")),
    ("data on", re.compile(r"device=(\w{1,10})")),
)
_MOST_NAMES, _MOST_RANKS = 8, 10_000


def _lines(text: Text) -> list[tuple[int, str]]:
    if not _may_be_error(text.raw):
        return []
    # The first line may be the title of a report ("# RuntimeError: ...").
    return [
        (number, line)
        for number, line in text.lines(_may_be_error)
        if _may_be_error(line) and not _is_advice(line) and (number == 1 or _COMMENT.match(line) is None)
    ]


def _may_be_error(line: str) -> bool:
    return any(word in line for word in _WORDS)


def _is_advice(line: str) -> bool:
    """Return whether a line says "if you ..." before the words of an error; errors have advice behind them."""
    advice = _ADVICE.search(line)
    return advice is not None and advice.start() < min(line.find(word) for word in _WORDS if word in line)


def _facts(text: Text) -> Iterator[Fact]:
    lines = _lines(text)
    yield from _mismatch(text, lines)
    yield from _start(text, lines)
    yield from _not_joining(text, lines)
    named = [*_missing_ranks(text, lines), *_missing_tasks(text, lines)]
    yield from named
    for pattern, kind, words in _ERRORS:
        if ("of Horovod" in words and named) or ("of JAX" in words and _WENT_ON in text.raw):
            # Other lines name the ranks, or state that they came.
            continue
        number = next((number for number, line in lines if re.search(pattern, line) is not None), None)
        if number is not None:
            more = (
                ": each sees one, whose number is 0" if kind == "device_numbers" and _ONE_GPU.search(text.raw) else ""
            )
            yield text.fact(Quantity.CAUSE, f"{words}{more}", number, _PROGRAM, subject=(kind,))


def _mismatch(text: Text, lines: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield two ranks that call different operations, or one operation with different shapes."""
    for number, line in lines:
        if (match := _MISMATCH.search(line)) is None:
            continue
        calls = [found[1] if (found := _CALL.search(part)) else "another operation" for part in (match[2], match[4])]
        words = f"rank {match[1]} calls {calls[0]}, and rank {match[3]} {calls[1]}"
        if calls[0] == calls[1]:
            words = f"{calls[0]} of rank {match[1]} and of rank {match[3]} differ"
            for name, pattern in _PARTS:
                values = [found[1] if (found := pattern.search(part)) else "" for part in (match[2], match[4])]
                if values[0] != values[1]:
                    words = f"{calls[0]} has {name} {values[0]} on rank {match[1]}, and {values[1]} on rank {match[3]}"
                    break
        yield text.fact(Quantity.CAUSE, words, number, _PROGRAM, subject=("different_calls",))
        return


def _start(text: Text, lines: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the processes of PyTorch that do not come to the start of a job; more than expected are of another one."""
    for number, line in lines:
        if (match := _START.search(line)) is None:
            continue
        came, expected = int(match["came"] or match["joined"]), int(match["all"] or match["expected"])
        words = f"{came} of {expected} processes came to the start of the job in time"
        if came > expected:
            words = f"{came} processes came to the start of a job of {expected}: some are of another job or start"
        elif came == expected:
            continue
        if any(_GOES_ON in later for later in text.after(number)):
            # Another attempt succeeded.
            return
        kind = "missing_processes" if came < expected else "other_job"
        yield text.fact(Quantity.CAUSE, words, number, _PROGRAM, subject=(kind,))
        return


def _not_joining(text: Text, lines: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the ranks that do not call the first operation about which the flight recorder of PyTorch complains."""
    for number, line in lines:
        if (match := _NOT_JOINED.search(line)) is None:
            continue
        block = "\n".join(islice(text.after(number - 1), _LINES_OF_RECORD))
        missing, operation = _NOT_JOINING.search(block), _OPERATION.search(block)
        name = match["name"] or (operation[1] if operation is not None else "")
        which = f" ({name.rpartition(':')[2]})" if name else ""
        if missing is not None:
            ranks = {int(rank) for rank in missing[1].split(",") if rank.strip()}
            words = f"{_names('rank', ranks)} not call an operation{which} for which the others wait"
            yield text.fact(Quantity.CAUSE, words, number, _PROGRAM, subject=("missing_ranks",))
        return


def _missing_ranks(text: Text, lines: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the ranks that do not call an operation of Horovod; ranks that miss each other call different ones."""
    ranks: set[int] = set()
    first = 0
    for number, line in lines:
        if (match := _MISSING.search(line)) is not None:
            ranks |= {int(rank) for rank in match[1].split(",") if rank.strip().isdigit()}
            first = first or number
    if ranks:
        words = f"{_names('rank', ranks)} not call operations for which the others wait ({_GOES_ON_LATER})"
        yield text.fact(Quantity.CAUSE, words, first, _PROGRAM, subject=("late_ranks",))
        return
    starts = [number for number, line in text.lines() if "Missing ranks:" in line or "Stalled ranks:" in line]
    if not starts:
        return
    # The number of a rank looks like the label that launchers print before a line.
    waits: dict[int, str] = {}
    raw = text.raw.splitlines()
    for start in starts:
        below = (_MISSING_FOR.match(line) for line in raw[start : start + _MOST_RANKS])
        waits |= {int(match[1]): match[2] for match in takewhile(bool, below) if match is not None}
    if len(waits) > 1:
        parts = [f"rank {rank} lacks {operation}" for rank, operation in sorted(waits.items())]
        words = f"the ranks call different operations: {listed(parts, 2)}"
        yield text.fact(Quantity.CAUSE, words, starts[0], _PROGRAM, subject=("different_calls",))
    elif waits:
        words = f"{_names('rank', waits)} not call operations for which the others wait ({_GOES_ON_LATER})"
        yield text.fact(Quantity.CAUSE, words, starts[0], _PROGRAM, subject=("late_ranks",))


def _missing_tasks(text: Text, lines: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the tasks of JAX that do not come to a barrier."""
    for start, line in lines:
        if (match := _BARRIER.search(line)) is None:
            continue
        tasks: set[int] = set()
        for number, below in text.lines():
            if number > start:
                if (task := _TASK.search(below)) is None:
                    break
                tasks.add(int(task[1]))
        if tasks:
            words = f"{_names('task', tasks)} not come to the barrier {match[1]}"
            yield text.fact(Quantity.CAUSE, words, start, _PROGRAM, subject=("missing_ranks",))
        return


def _names(kind: str, numbers: set[int] | dict[int, str]) -> str:
    return f"{numbered(kind, sorted(numbers), _MOST_NAMES)} {'does' if len(numbers) == 1 else 'do'}"


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "python train.py > train.log 2>&1",
    "HorovodBroadcast_weights_0 [missing ranks: 0]",
    lambda text: next(_facts(text), None) is not None,
    lambda text: iter([Reading(list(_facts(text)))]),
    "training.log",
    versions="ranks that do not come to an operation or call another one, processes that lack memory",
)
