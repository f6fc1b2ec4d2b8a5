"""Times of messages between processes as facts, and the rows of numbers that benchmarks print."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from fabricast.core.errors import InputError
from fabricast.core.facts import Fact, Kind, Quantity
from fabricast.maxrate.measurements import LARGEST_BYTES, LONGEST_S, MOST_PROCESSES, SHORTEST_S
from fabricast.maxrate.message_times import MessageTime
from fabricast.sources.text import Reading, Text

_NUMBER = r"[-+]?((\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][-+]?\d{1,3})?|nan|inf)"
#: Words at the end of rows whose data OSU checked.
VALIDATED = ("Pass", "Fail")
#: Commands of launchers, with the variables before them, and of tests by themselves.
_COMMAND = re.compile(
    r"(?:\b[A-Z][A-Z0-9_]{2,40}=\S{1,200}\s{1,4}){0,10}"
    r"\b(?:mpirun|mpiexec|orterun|prterun|srun|jsrun|aprun)\b\S{0,20}\s.{0,600}\bosu_\w{2,30}.{0,100}"
    r"|(?:^|[$#>]\s?|\./)osu_\w{2,30}(?:\s.{0,100})?$"
)
#: Commands and words that place all processes on one host, and words about several.
_ONE_HOST = re.compile(
    r"\bsrun\b[^\n|;]{0,120}?\s(?:(?-i:-N) ?1|--nodes[= ]1)(?![\d-])|(?:--host|-host|-H|-hosts)[ =]localhost\b(?!,)"
    r"|\b(?:on|within|in) (?:one|the same|a single) (?:single )?(?:node|host)\b"
    r"|\bsingle[- ]node\b|\b(?:intra-?|in-)node\b",
    re.IGNORECASE,
)
_SEVERAL_HOSTS = re.compile(
    r"\binter-?node\b|\b(?:between|across|two|2|multiple|several) (?:the )?(?:two )?(?:nodes|hosts)\b"
    r"|(?-i:-N) ?[2-9]\b|ppr:1:node",
    re.IGNORECASE,
)
#: Words of prose that may follow a number in program output.
_WORDS_BEHIND_NUMBERS = frozenset({"processes", "process", "bytes", "repetitions", "usecs", "additional", "pairs"})


def one_host(text: Text, program: str) -> list[Fact]:
    """Return that all processes are on one host, if a command or a sentence states it and none names several."""
    if _SEVERAL_HOSTS.search(text.raw) is not None:
        return []
    stated = (number for number, line in text.lines() if _ONE_HOST.search(line) is not None)
    return [text.fact(Quantity.ONE_HOST, True, number, program) for number in islice(stated, 1)]


def commands(text: Text, program: str) -> list[Fact]:
    """Return the commands that start a test of messages."""
    lines = (
        (number, match[0].strip()) for number, line in text.lines() if (match := _COMMAND.search(line)) is not None
    )
    return [text.fact(Quantity.COMMAND, words, number, program) for number, words in lines]


def message_reading(text: Text, program: str, times: Iterable[MessageTime | InputError]) -> Reading:
    """Return the times that a parser yields as facts, without those of empty messages."""
    reading = Reading(program=program)
    cut, empty = cut_row(text), None
    try:
        for time in times:
            if isinstance(time, InputError):
                reading.problems.append(_problem(text, program, time))
            elif time.line == cut:
                reading.problems.append(text.error("the file ends within this row, which is not used", cut))
            elif time.size_bytes == 0:
                empty = time.line
            else:
                _check(time)
                reading.facts.append(
                    text.fact(Quantity.MESSAGE_TIME, time, time.line, program, unit="s", kind=Kind.MEASURED)
                )
    except InputError as error:
        raise _problem(text, program, error) from error
    if not reading.facts:
        what = "only messages of 0 B" if empty else f"no measurements of {program}"
        raise (
            reading.problems[0]
            if reading.problems
            else text.error(f"contains {what}, expected at least one size above 0 B", empty)
        )
    return reading


def cut_row(text: Text) -> int | None:
    """Return the last line if it ends within a number: without end of line, and with fewer decimals than before it."""
    lines = [(number, line.split()) for number, line in text.lines() if line.strip()]
    if text.raw.endswith("\n") or len(lines) < 2:
        return None
    (_, before), (number, last) = lines[-2:]
    decimals = [len(words[-1].partition(".")[2]) for words in (before, last)]
    is_row = all(re.fullmatch(_NUMBER, words[-1]) is not None for words in (before, last))
    return number if is_row and (decimals[1] < decimals[0] or len(last) < len(before)) else None


def wrong_rows(text: Text, program: str) -> list[Fact]:
    """Return the first row whose data a benchmark states to be wrong, if there is one."""
    wrong = [(number, line.split()[0]) for number, line in text.lines(lambda line: "Fail" in line) if _is_wrong(line)]
    if not wrong:
        return []
    number, size = wrong[0]
    words = f"{len(wrong)} of the checked rows have wrong data, the first of {size} B"
    words = f"messages of {size} B have wrong data" if len(wrong) == 1 else words
    return [text.fact(Quantity.WRONG_RESULTS, words, number, program)]


def _is_wrong(line: str) -> bool:
    words = line.split()
    return words[-1:] == ["Fail"] and re.fullmatch(_NUMBER, words[0]) is not None


def _problem(text: Text, program: str, error: InputError) -> InputError:
    return text.error(f"is not valid {program} output: {error.reason}", error.line)


def _check(time: MessageTime) -> None:
    if not (0 < time.size_bytes <= LARGEST_BYTES and SHORTEST_S <= time.time_s <= LONGEST_S):
        raise InputError(
            f"size is {time.size_bytes:g} and time is {time.time_s:g} s, expected positive numbers up to "
            f"{LARGEST_BYTES:g} bytes and from {SHORTEST_S:g} to {LONGEST_S:g} s",
            line=time.line,
        )
    if time.processes is not None and not 1 <= time.processes <= MOST_PROCESSES:
        raise InputError(f"number of processes is {time.processes}, expected 1 to {MOST_PROCESSES:,}", line=time.line)


def numbers_of(text: str, line: int) -> list[float] | None:
    """Return the numbers of a table row; None for other lines."""
    words = text.split()
    if words and words[-1] in VALIDATED:
        # OSU output with validation.
        words.pop()
    if not words or not re.fullmatch(_NUMBER, words[0]):
        return None
    for word in words:
        if not re.fullmatch(_NUMBER, word):
            if word in _WORDS_BEHIND_NUMBERS:
                return None
            raise InputError(f"contains '{word}' in a row of numbers, expected a number", line=line)
    return [float(word) for word in words]


def count_of(text: str, name: str, line: int) -> int:
    """Parse a number of processes or pairs in a header."""
    count = int(text) if len(text) <= 9 else 0
    if not 1 <= count <= MOST_PROCESSES:
        raise InputError(f"{name} is {text}, expected 1 to {MOST_PROCESSES:,}", line=line)
    return count
