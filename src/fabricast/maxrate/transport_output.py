"""Parsers of benchmarks below MPI: ucx_perftest and perftest (ib_write_lat and others)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from fabricast.core.errors import InputError
from fabricast.maxrate.readings import Reading, numbers_of

__all__ = ["read_perftest", "read_ucx_perftest"]

_MIB = float(1 << 20)
#: Header of a block of ucx_perftest; since 1.10 bandwidth tests print overhead instead of latency.
_UCX_HEADER = re.compile(r"\|\s+(?:\|\s+)?(latency|overhead) \(usec\)")
_UCX_TEST = re.compile(r"\| Test:\s+(.*?)\s*\|?\s*$")
_UCX_SIZE = re.compile(r"\| Message size:\s+(\d{1,15})\b")
_UCX_COMMAND = re.compile(r"ucx_perftest\b.*?\s-t\s*(\w+)")
_UCX_ROW = re.compile(r"\s*(?:\[thread \d+\]|Final:)?((?:\s+[\d.]{1,24}){8})\s*$")
#: Words of tests that are no message from one side to the other.
_NOT_ONE_WAY = ("get", "atomic", "add", "swap", "fadd", "cswap", "stream")
_PERFTEST_TITLE = re.compile(
    r"\s*(RDMA_Write|RDMA_Read|Send|Atomic\S*)\s+(?:Post List\s+)?(Bidirectional\s+)?(BW|Latency)\s"
)
_PERFTEST_HEADER = re.compile(r"\s*#bytes\s+#iterations\s+(.*)")
#: Bytes, iterations, three rates or at least three times.
_FEWEST_COLUMNS = 5
_UNITS = {"MB/sec": _MIB, "MiB/sec": _MIB, "Gb/sec": 1.25e8}


def read_ucx_perftest(lines: Sequence[str], processes: int | None) -> Iterator[Reading]:
    """Parse the last row of each run: latency is one way, bandwidth is over a window of messages.

    Clients do not print the size. It follows from bandwidth and time, and is a power of two if one is within the
    rounding of the printed numbers.
    """
    run = _UcxRun()
    for number, line in enumerate(lines, start=1):
        if (header := _UCX_HEADER.search(line)) is not None:
            yield from run.readings()
            run = _UcxRun(run.command, header[1])
        elif (test := _UCX_TEST.search(line)) is not None:
            run.test = test[1].lower()
        elif (size := _UCX_SIZE.search(line)) is not None:
            run.size_bytes = float(size[1])
        elif "%ile |" in line:
            run.is_new = True
        elif (command := _UCX_COMMAND.search(line)) is not None:
            yield from run.readings()
            run = _UcxRun(command[1].lower())
        elif (row := _UCX_ROW.match(line)) is not None and run.quantity:
            run.line, run.row = number, [float(word) for word in row[1].split()]
    yield from run.readings()


class _UcxRun:
    """Lines of one run of ucx_perftest.

    Parameters
    ----------
    command : str
        Test of the command line above the run; empty if there is none.
    quantity : str
        Quantity in the header: latency or overhead.
    """

    def __init__(self, command: str = "", quantity: str = "") -> None:
        self.command, self.quantity, self.test = command, quantity, ""
        self.size_bytes: float | None = None
        self.line, self.row, self.is_new = 0, list[float](), False

    def readings(self) -> Iterator[Reading]:
        """Yield the reading of the run, if it has a row."""
        if not self.row:
            return
        name = self.test or self.command.replace("_", " ")
        is_latency = self._is_latency(name)
        words = set(name.split())
        if words & set(_NOT_ONE_WAY):
            raise InputError(f"test is '{name}', expected puts, active messages or tagged messages", line=self.line)
        _, _, _, time_us, _, rate_mib_s, _, messages_per_s = self.row
        size = _size(rate_mib_s, time_us) if self.size_bytes is None else self.size_bytes
        layer = "tag" if "tag" in words else "ucp" if "ucp" in words else "transport" if words else "ucx"
        if is_latency:
            yield Reading(self.line, f"{layer}_latency", 1, size, time_us * 1e-6, "one_way")
        elif messages_per_s > 0:
            # Large messages have few digits of the rate, so the time of one message is used.
            time_s = time_us * 1e-6 if time_us > 0 else 1 / messages_per_s
            yield Reading(self.line, f"{layer}_bandwidth", 1, size, time_s, "windowed")

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


def read_perftest(lines: Sequence[str], processes: int | None) -> Iterator[Reading]:
    """Parse tables of perftest: typical latency of one way, or average bandwidth over a window of messages."""
    test, both, columns = "", False, ""
    for number, line in enumerate(lines, start=1):
        if (title := _PERFTEST_TITLE.match(line)) is not None:
            test, both = f"{title[1]} {title[3]}", title[2] is not None
        elif (header := _PERFTEST_HEADER.match(line)) is not None:
            columns = header[1]
            if test.startswith(("RDMA_Read", "Atomic")):
                raise InputError(
                    f"test is '{test}', expected ib_write or ib_send: a read has messages in both directions",
                    line=number,
                )
        values = numbers_of(line, number) if columns and line[:1].isspace() else None
        if not values or len(values) < _FEWEST_COLUMNS:
            continue
        name = f"ib_{'send' if test.startswith('Send') else 'write'}"
        if "t_typical" in columns:
            yield Reading(number, f"{name}_lat", 1, values[0], values[4] * 1e-6, "one_way")
        elif "BW average" in columns:
            yield Reading(number, f"{name}_bw", 1, values[0], _time_s(values, columns, number, both=both), "windowed")


def _time_s(values: Sequence[float], columns: str, line: int, *, both: bool) -> float:
    """Return the time of one message of a bandwidth test."""
    unit = re.search(r"BW average\[([^\]]+)\]", columns)
    if unit is None or unit[1] not in _UNITS:
        raise InputError(f"columns are '{columns.strip()[:80]}', expected BW average in {', '.join(_UNITS)}", line=line)
    if values[3] <= 0:
        raise InputError(f"average bandwidth is {values[3]:g}, expected a positive number", line=line)
    return (2 if both else 1) * values[0] / (values[3] * _UNITS[unit[1]])
