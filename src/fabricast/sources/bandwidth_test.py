"""Reader of bandwidthTest of the CUDA samples: copies between host memory and a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.pcie.measurements.measured_graph import CALIBRATION, MeasuredGraph
from fabricast.pcie.topology.memory import HOST
from fabricast.sources.copies import check_end, rate_facts
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "bandwidthTest"
_START = re.compile(r"^\[?CUDA Bandwidth Test\]")
_DEVICE = re.compile(r"^\s*Device (\d{1,3}): (\S.{0,60}?)\s*$")
_TITLE = re.compile(r"^\s*(Host to Device|Device to Host|Device to Device) Bandwidth, \d+ Device")
_MEMORY = re.compile(r"^\s*(PINNED|PAGEABLE|WRITE-COMBINED)\b")
_UNIT = re.compile(r"Transfer Size \(Bytes\)\s+Bandwidth\((MB|GB)/s\)")
_ROW = re.compile(r"^\s*(\d{1,15})\s+(\d{1,9}(?:\.\d{1,4})?)\s*$")
#: Row of a range of sizes (--mode=range, --csv): direction, rate in GB/s, size.
_IN_RANGE = re.compile(
    r"^\s*bandwidthTest-(H2D|D2H|D2D)(-\w+)?, Bandwidth = ([\d.]{1,12}) ([GM])B/s, .{0,40}Size = (\d{1,15}) bytes"
)
#: Notes about copies that say nothing about the link of one GPU.
_WITHIN_A_GPU = "bandwidthTest copies within the memory of a GPU (D2D), where small sizes fit its cache"
_UNLIKE = (
    "bandwidthTest copies small sizes or memory that is not pinned, whose rates say little about a link: measure with "
    "--memory=pinned and 32 MB"
)
_TOTALS = "bandwidthTest prints totals of several devices, which are not compared: measure each GPU (--device=N)"
#: Size from which the rate of a copy no longer depends on it.
_LARGE = 1 << 24
#: Share of the rate of another run below which a run is slow.
_SLOW_RUN = 0.7
_SCALES = {"MB": 1e6, "GB": 1e9}


def _is_output(text: Text) -> bool:
    return any(words in text.raw for words in ("[CUDA Bandwidth Test]", "bandwidthTest-D2", "bandwidthTest-H2D")) or (
        "Transfer Size (Bytes)" in text.raw and "Device Bandwidth" in text.raw
    )


def _read(text: Text) -> Iterator[Reading]:
    check_end(text)
    reading = Reading(program=_PROGRAM)
    graphs: dict[tuple[str, str, str], list[MeasuredGraph]] = {}
    devices: list[tuple[str, str]] = []
    ends, is_pinned, scale, within, unlike = None, True, 0.0, 0, 0
    for number, line in text.lines():
        if not line.strip() and scale:
            # A blank line ends a table; the next one has a title.
            ends = None
        elif _START.match(line):
            devices, ends = [], None
        elif (match := _DEVICE.match(line)) is not None:
            devices.append((match[1], match[2]))
            reading.facts.append(text.fact(Quantity.GPU_MODEL, match[2], number, _PROGRAM, subject=(match[1],)))
        elif (match := _TITLE.match(line)) is not None:
            # Rates of several devices are totals, and of no single one.
            device = devices[0][0] if len(devices) == 1 else ""
            ways = {"Host to Device": (HOST, device), "Device to Host": (device, HOST)} if device else {}
            # Pages shorten further tables to their rows, whose unit is that of the first.
            ends = ways.get(match[1])
        elif (match := _IN_RANGE.match(line)) is not None:
            within += match[1] == "D2D"
            device = devices[0][0] if devices else "0"
            pair = {"H2D": (HOST, device), "D2H": (device, HOST)}.get(match[1])
            is_pinned_and_large = int(match[5]) >= _LARGE and "Paged" not in (match[2] or "")
            unlike += pair is not None and not is_pinned_and_large
            if pair is not None and is_pinned_and_large:
                rate = float(match[3]) * _SCALES[f"{match[4]}B"]
                name = f"{_PROGRAM} {'>'.join(pair)} {match[5]} bytes"
                graph = MeasuredGraph(name, (pair,), rate, "independent", CALIBRATION, line=number)
                graphs.setdefault((*pair, ""), []).append(graph)
        elif (match := _MEMORY.match(line)) is not None:
            is_pinned = match[1] == "PINNED"
        elif (match := _UNIT.search(line)) is not None:
            scale = _SCALES[match[1]]
        elif ends is not None and is_pinned and (match := _ROW.match(line)) is not None:
            if not scale:
                raise text.error("is a rate without the unit of its column: lines are missing", number)
            name = f"{_PROGRAM} {'>'.join(ends)} {match[1]} bytes"
            rate = float(match[2]) * scale
            graph = MeasuredGraph(name, (ends,), rate, "independent", CALIBRATION, line=number)
            graphs.setdefault((*ends, devices[0][1]), []).append(graph)
    if not graphs:
        note = _WITHIN_A_GPU if within else _UNLIKE if unlike else _TOTALS if len(devices) > 1 else ""
        if note:
            yield Reading([*reading.facts, text.fact(Quantity.NOTE, note, 0, _PROGRAM)], program=_PROGRAM)
            return
        raise text.error("has no copy from or to pinned memory of one GPU, expected output of 'bandwidthTest'")
    # The largest rate is that of the largest size, and of the processor next to the GPU.
    fastest = {
        key[:2]: max(of_pair, key=lambda graph: graph.total_bytes_per_s) for key, of_pair in reversed(graphs.items())
    }
    reading.facts += rate_facts(text, _PROGRAM, fastest.values())
    reading.facts += [fact for of_pair in graphs.values() for fact in _slower_runs(text, of_pair)]
    yield reading


def _slower_runs(text: Text, of_pair: list[MeasuredGraph]) -> Iterator[Fact]:
    """Yield the cause that equal copies have much lower rates in one of several runs."""
    by_name: dict[str, list[MeasuredGraph]] = {}
    for graph in of_pair:
        by_name.setdefault(graph.name, []).append(graph)
    for same in by_name.values():
        low, high = (choose(same, key=lambda graph: graph.total_bytes_per_s) for choose in (min, max))
        if low.total_bytes_per_s < _SLOW_RUN * high.total_bytes_per_s:
            source, target = low.flows[0]
            way = f"from host memory to GPU {target}" if source == HOST else f"from GPU {source} to host memory"
            words = (
                f"copies {way} reach {low.total_bytes_per_s / 1e9:.3g} GB/s in one run and "
                f"{high.total_bytes_per_s / 1e9:.3g} GB/s in another one: the slow one may use memory of another "
                "socket, or a slower link"
            )
            yield text.fact(Quantity.CAUSE, words, low.line, _PROGRAM, subject=("far_memory",))
            return


FORMAT = Format(
    _PROGRAM,
    Content.COPIES,
    "bandwidthTest > bandwidth_test.txt",
    "Host to Device Bandwidth, 1 Device(s)",
    _is_output,
    _read,
    "bandwidth_test.txt",
    versions="CUDA samples: copies from and to pinned memory of one GPU, in MB/s and GB/s",
)
