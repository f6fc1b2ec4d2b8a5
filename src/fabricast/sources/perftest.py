"""Reader of perftest (ib_write_lat, ib_send_bw and others)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Fact, Quantity
from fabricast.maxrate.message_times import MessageTime
from fabricast.sources.messages import message_reading, numbers_of
from fabricast.sources.text import Format, Reading, Text

_MIB = float(1 << 20)
_TITLE = re.compile(r"\s*(RDMA_Write|RDMA_Read|Send|Atomic\S*)\s+(?:Post List\s+)?(Bidirectional\s+)?(BW|Latency)\s")
# Pages take the "#" for a heading and leave it out.
_HEADER = re.compile(r"\s*#?bytes\s+#?iterations\s+(.*)")
#: Size in bytes from which the best rate is compared with the average, and ratio above which the rate changes.
_LARGE, _CHANGING = 32768, 1.5
#: Bytes, iterations, three rates or at least three times.
_FEWEST_COLUMNS = 5
#: Names of columns such as '#bytes' and 't_avg[usec]'.
_NAME = re.compile(r"#\w+|\S+\[[^\]]+\]")
_DEVICE = re.compile(r"\bDevice\s*:\s*([\w.-]{1,40})")
_MTU = re.compile(r"\bMtu\s{0,20}:\s{0,9}(\d{3,5})\[B\]")
_ETHERNET = re.compile(r"Link type\s{0,20}:\s{0,9}Ethernet")
#: Largest packet of InfiniBand and RoCE in bytes.
_LARGEST_MTU = 4096
#: Option by which latencies are cycles of the processor, under columns with the unit usec or cycles.
_CYCLES = re.compile(r"\bib_\w+_lat\b[^\n]*\s(?:-(?!c)\w*C\w*|--report[-_]cycles)\b|t_typical\[cycles\]")
#: Address that a test prints before its first row, and such a row.
_ADDRESS = re.compile(r"local address:\s+LID \w{1,8}\s+QPN \w{1,12}")
_ROW = re.compile(r"^\s*\d{1,12}\s+\d{1,12}\s+[\d.]{1,12}\s+[\d.]{1,12}")
_WITHOUT_BLANK = re.compile(r"(?<=\.\d\d)(?=\d{1,12}\.\d\d(?:\s|$))")
_FREQUENCY = re.compile(r"Conflicting CPU frequency values detected: (\d[\d.]{0,18}\d) != (\d[\d.]{0,18}\d)")
_UNITS = {"MB/sec": _MIB, "MiB/sec": _MIB, "Gb/sec": 1.25e8}


def _times(lines: Sequence[str]) -> Iterator[MessageTime | InputError]:
    """Parse tables of perftest: typical latency of one way, or average bandwidth over a window of messages."""
    test, both, columns, device = "", False, "", ""
    for number, line in enumerate(lines, start=1):
        if (named := _DEVICE.search(line)) is not None:
            device = named[1]
        if (title := _TITLE.match(line)) is not None:
            test, both = f"{title[1]} {title[3]}", title[2] is not None
        elif (header := _HEADER.match(line)) is not None:
            columns = header[1]
            if test.startswith("Atomic") or test == "RDMA_Read Latency":
                columns = ""
                yield InputError(
                    f"test is '{test}', expected ib_write or ib_send: a read has messages in both directions",
                    line=number,
                )
        # Large values fill their columns, so that no blank is between them.
        is_row = bool(columns) and line[:1].isspace()
        values = numbers_of(_WITHOUT_BLANK.sub(" ", line), number) if is_row else None
        if not values or len(values) < _FEWEST_COLUMNS:
            continue
        expected = len(_NAME.findall(columns))
        if len(values) < expected:
            yield InputError(f"has {len(values)} values, expected {expected} as in the header: it is cut", line=number)
            continue
        name = f"ib_{(test.removeprefix('RDMA_').split() or ['write'])[0].lower()}"
        if "t_typical" in columns:
            yield MessageTime(number, f"{name}_lat", 1, values[0], values[4] * 1e-6, "one_way", device=device)
        elif "BW average" in columns:
            time_s = _time_s(values, columns, number, both=both)
            yield MessageTime(number, f"{name}_bw", 1, values[0], time_s, "windowed", device=device)


def _time_s(values: Sequence[float], columns: str, line: int, *, both: bool) -> float:
    """Return the time of one message of a bandwidth test."""
    unit = re.search(r"BW average\[([^\]]+)\]", columns)
    if unit is None or unit[1] not in _UNITS:
        raise InputError(f"columns are '{columns.strip()[:80]}', expected BW average in {', '.join(_UNITS)}", line=line)
    if values[3] <= 0:
        raise InputError(f"average bandwidth is {values[3]:g}, expected a positive number", line=line)
    return (2 if both else 1) * values[0] / (values[3] * _UNITS[unit[1]])


def _is_perftest(text: Text) -> bool:
    """Return whether a text has the columns of a table, or the settings of a test and its address."""
    if "iterations" in text.raw and re.search(r"#iterations|\bbytes\s+iterations\s", text.raw) is not None:
        return True
    return "Connection type" in text.raw and "local address:" in text.raw and _ADDRESS.search(text.raw) is not None


def _read(text: Text) -> Iterator[Reading]:
    cycles = next((number for number, line in text.lines() if _CYCLES.search(line) is not None), None)
    if cycles is not None:
        words = "perftest prints cycles of the processor (option -C), and no times: run it without this option"
        reading = Reading([text.fact(Quantity.NOTE, words, cycles, "perftest")])
    elif (start := _without_rows(text)) is not None:
        words = "perftest prints no result: the client of a one-sided test has it, the test hangs, or the output is cut"
        reading = Reading([text.fact(Quantity.NOTE, words, start, "perftest")])
    else:
        reading = message_reading(text, "perftest", _times(text.clean_lines))
    reading.facts += [*_small_packets(text), *_changing_clock(text), *_changing_rate(text)]
    yield reading


def _without_rows(text: Text) -> int | None:
    """Return the line of the address that a test prints before its rows, if none follows; None if one does."""
    address = None
    for number, line in text.lines():
        if _ADDRESS.search(line) is not None:
            address = number
        elif address is not None and _ROW.match(line) is not None:
            return None
    return address


def _changing_clock(text: Text) -> Iterator[Fact]:
    """Yield that the frequency of the processor is not fixed, by which perftest computes times."""
    for number, line in text.lines(lambda line: "Conflicting CPU" in line):
        if (match := _FREQUENCY.search(line)) is not None:
            words = (
                f"the processor runs at {float(match[1]):,.0f} and {float(match[2]):,.0f} MHz, so that times of small "
                "messages are not exact: fix the frequency (cpupower frequency-set -g performance)"
            )
            yield text.fact(Quantity.NOTE, words, number, "perftest")
            return


def _changing_rate(text: Text) -> Iterator[Fact]:
    """Yield that the best rate of large messages is far above the average, so that something disturbs the test."""
    columns = ""
    for number, line in text.lines():
        if (header := _HEADER.match(line)) is not None:
            columns = header[1]
        elif columns.lstrip().startswith("BW peak") and _ROW.match(line) is not None:
            size, _, peak, average = map(float, line.split()[:4])
            if size >= _LARGE and peak > _CHANGING * average > 0:
                unit = columns.partition("[")[2].partition("]")[0].replace("Gb/sec", "Gbit/s")
                words = (
                    f"perftest reaches {peak:.3g} {unit} for a part of the messages of {size:,.0f} bytes and "
                    f"{average:.3g} {unit} on average, as with other traffic, lost packets or a busy processor"
                )
                yield text.fact(Quantity.NOTE, words, number, "perftest")
                return


def _small_packets(text: Text) -> Iterator[Fact]:
    """Yield the packet size of the test, if larger packets are possible."""
    for number, line in text.lines(lambda line: "Mtu" in line):
        if (match := _MTU.search(line)) is not None and int(match[1]) < _LARGEST_MTU:
            is_ethernet = any(_ETHERNET.search(other) for _, other in text.lines(lambda line: "Link type" in line))
            how = "an interface with an MTU of 4,200 or more" if is_ethernet else "the subnet manager"
            words = f"perftest sends packets (MTU) of {int(match[1]):,} bytes; {how} permits {_LARGEST_MTU:,}"
            yield text.fact(Quantity.NOTE, words, number, "perftest")
            return


FORMAT = Format(
    "perftest",
    Content.MESSAGES,
    "ib_write_bw HOST > perftest.out",
    "#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]",
    _is_perftest,
    _read,
    "perftest.out",
    "fabricast fit",
    re.compile(
        r"#iterations|\bbytes\s+iterations\s|\b(?:RDMA_\w+|Send|Atomic\S*) .*(?:BW|Latency) Test|\bib_\w+_(?:lat|bw)\b"
    ),
    versions="4 to 6: `ib_write_lat`, `ib_send_lat`, `ib_write_bw`, `ib_send_bw`, `ib_read_bw`",
    is_per_host=True,
)
