"""Reader of ucx_perftest."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from fabricast.core.errors import InputError
from fabricast.core.facts import Content
from fabricast.maxrate.message_times import MessageTime
from fabricast.sources.messages import message_reading
from fabricast.sources.text import Format, Reading, Text

_MIB = float(1 << 20)
#: Header of a block of ucx_perftest; since 1.10 bandwidth tests print overhead instead of latency.
_HEADER = re.compile(r"\|\s+(?:\|\s+)?(latency|overhead) \(usec\)")
_TEST = re.compile(r"\| Test:\s+(.*?)\s*\|?\s*$")
_SIZE = re.compile(r"\| Message size:\s+(\d{1,15})\b")
_COMMAND = re.compile(r"ucx_perftest\b.{0,400}?\s-t\s{0,9}(\w+)")
_ROW = re.compile(r"\s*(?:\[thread \d+\]|Final:)?((?:\s+[\d.]{1,24}){8})\s*$")
#: Factor up to which the stated size and that of bandwidth and time agree.
_SAME_SIZE = 1.5
#: Factor up to which time and number of messages of a thread agree.
_ALIKE = 3.0
_THREAD = re.compile(r"\[thread (\d{1,4})\]")
#: Words of tests that are no message from one side to the other.
_NOT_ONE_WAY = ("get", "atomic", "add", "swap", "fadd", "cswap", "stream")


def _times(lines: Sequence[str]) -> Iterator[MessageTime | InputError]:
    """Parse the last row of each run: latency is one way, bandwidth is over a window of messages.

    Clients do not print the size. It follows from bandwidth and time, and is a power of two if one is within the
    rounding of the printed numbers.
    """
    run = _Run()
    for number, line in enumerate(lines, start=1):
        if (header := _HEADER.search(line)) is not None:
            if run.quantity:
                yield from _readings(run)
                run = _Run(run.command)
            run.quantity = header[1]
        elif (test := _TEST.search(line)) is not None:
            # One side prints this box above the header, output of both sides in one stream also below it.
            if run.row or run.damaged_line:
                yield from _readings(run)
                run = _Run(run.command)
            run.test = test[1].lower()
        elif (size := _SIZE.search(line)) is not None:
            run.size_bytes = float(size[1])
        elif "%ile |" in line:
            run.is_new = True
        elif (command := _COMMAND.search(line)) is not None:
            yield from _readings(run)
            run = _Run(command[1].lower())
        elif (row := _ROW.match(line)) is not None and run.quantity:
            run.line, run.row = number, [float(word) for word in row[1].split()]
            thread = _THREAD.search(line)
            run.is_of_thread = thread is not None
            run.threads = max(run.threads, int(thread[1]) + 1 if thread else 1)
        elif line.lstrip().startswith("Final") and run.quantity:
            run.damaged_line = number
    yield from _readings(run)


def _readings(run: _Run) -> Iterator[MessageTime | InputError]:
    """Yield the reading of a run, if it has a row, or the reason why it has none."""
    try:
        yield from run.readings()
    except InputError as error:
        yield error


class _Run:
    """Lines of one run of ucx_perftest.

    Arguments: command: test of the command line above the run; empty if there is none.
    """

    def __init__(self, command: str = "") -> None:
        # Quantity of the header: latency or overhead.
        self.command, self.quantity, self.test = command, "", ""
        self.size_bytes: float | None = None
        self.line, self.row, self.is_new = 0, list[float](), False
        self.damaged_line, self.threads, self.is_of_thread = 0, 1, False

    def readings(self) -> Iterator[MessageTime]:
        """Yield the reading of the run, if it has a row."""
        if self.damaged_line:
            raise InputError("the row of all messages is damaged, expected eight numbers", line=self.damaged_line)
        if not self.row:
            return
        if self.is_of_thread:
            raise InputError("is of one thread, expected the row 'Final:' after it: the output is cut", line=self.line)
        name = self.test or self.command.replace("_", " ")
        is_latency = self._is_latency(name)
        words = set(name.split())
        if words & set(_NOT_ONE_WAY):
            raise InputError(f"test is '{name}', expected puts, active messages or tagged messages", line=self.line)
        _, _, _, time_us, _, rate_mib_s, _, messages_per_s = self.row
        if (
            time_us > 0
            and messages_per_s > 0
            and not 1 / _ALIKE < time_us * 1e-6 * messages_per_s < _ALIKE * self.threads
        ):
            raise InputError(
                f"has {messages_per_s:g} messages/s of {time_us:g} us each, which contradict each other: a number is "
                "cut",
                line=self.line,
            )
        derived = _size(rate_mib_s, time_us)
        size = derived if self.size_bytes is None else self.size_bytes
        if self.threads == 1 and rate_mib_s >= 1 and not 1 / _SAME_SIZE < derived / max(size, 1.0) < _SAME_SIZE:
            raise InputError(
                f"has messages of {size:.0f} bytes, but bandwidth and time are those of {derived:.0f}: the lines of "
                "several runs are mixed",
                line=self.line,
            )
        layer = "tag" if "tag" in words else "ucp" if "ucp" in words else "transport" if words else "ucx"
        if is_latency:
            yield MessageTime(self.line, f"{layer}_latency", 1, size, time_us * 1e-6, "one_way")
        elif messages_per_s > 0 or time_us > 0:
            # Large messages have few digits of the rate, so the time of one message is used.
            time_s = time_us * 1e-6 if time_us > 0 else 1 / messages_per_s
            yield MessageTime(self.line, f"{layer}_bandwidth", 1, size, time_s, "windowed")

    def _is_latency(self, name: str) -> bool:
        """Return whether the test measures latency: from its name, or from the header of newer versions."""
        if name:
            return re.search(r"latency|\blat\b", name) is not None
        if self.quantity == "latency" and not self.is_new:
            raise InputError(
                "has no test: old versions print 'latency' for every test, expected the line '| Test:' or the command",
                line=self.line,
            )
        return self.quantity == "latency"


def _size(rate_mib_s: float, time_us: float) -> float:
    """Return the message size in bytes from printed bandwidth and time."""
    size = rate_mib_s * _MIB * time_us * 1e-6
    if size <= 0:
        return 0.0
    # Bandwidth has two decimals, time has three.
    relative = 0.005 / rate_mib_s + 0.0005 / time_us
    power = 2.0 ** round(math.log2(size))
    return power if abs(power / size - 1) <= relative else float(round(size))


def _read(text: Text) -> Iterator[Reading]:
    yield message_reading(text, "ucx_perftest", _times(text.clean_lines))


FORMAT = Format(
    "ucx_perftest",
    Content.MESSAGES,
    "ucx_perftest HOST -t tag_lat > ucx.out",
    "| latency (usec) | bandwidth (MB/s) | message rate (msg/s) |",
    lambda text: "message rate (msg/s)" in text.raw,
    _read,
    "ucx_perftest.out",
    "fabricast fit",
    re.compile(r"message rate \(msg/s\)|\bucx_perftest\b"),
    versions="1.5 to 1.16: latency and bandwidth of puts, active and tagged messages",
)
