"""Reader of the machine that NCCL prints with NCCL_DEBUG_SUBSYS=GRAPH."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabricast.core.facts import Content, Quantity
from fabricast.pcie.topology.devices import Device, DeviceForest
from fabricast.sources.nccl_xml import VIRTUAL
from fabricast.sources.text import Format, Reading, Text

_START, _END = re.compile(r"=== System : max(?:Bw|Width)"), re.compile(r"={20,}\s*$")
_CPU = re.compile(r"^CPU/(?:([0-9a-fA-F]{1,16})-)?([0-9a-fA-F]{1,16})")
_SYSTEM_LINK = re.compile(r"\+ \w+\[[\d.]+\] - CPU/(?:([0-9a-fA-F]{1,16})-)?([0-9a-fA-F]{1,16})")
_PATHS = re.compile(r"^GPU/(?:([0-9a-fA-F]{1,16})-)?([0-9a-fA-F]{1,16}) :")
#: Link of a GPU, or of a switch, whose speed NCCL does not know.
_UNKNOWN_SPEED = re.compile(r"\+ PCI\[0\.2\] - (?:GPU|PCI)/")
_INFO = "NCCL INFO "
_NUMBER = re.compile(r"[0-9]{1,4}")
_LINK = re.compile(r"^( *)\+ PCI\[([\d.]+)\] - (PCI|GPU|NIC)/(?:[0-9a-fA-F]{1,16}-)?([0-9a-fA-F]{1,16})(?: \((\w+)\))?")
#: NCCL prints an unknown NUMA node, -1 on many virtual machines, as a large number.
_LARGEST_NODE = 0xFFFF
#: Raw rate of PCIe Gen3 x16 in bytes/s, which NCCL counts as 12 GB/s.
_GEN3_BYTES_PER_S, _GEN3_GB_PER_S = 15.754e9, 12.0


def _forest(text: Text) -> tuple[DeviceForest, int]:
    """Return the first machine of a log, and its first line."""
    start = 0
    sockets: list[Device] = []
    # Device of each depth, by the column of its link.
    above: dict[int, Device] = {}
    # Column at which the links of a device begin, below its name.
    starts: set[int] = set()
    named: dict[int, int] = {}
    own: set[int] = set()
    inside, ended, is_other, prefix, system = False, False, False, "", ""
    for number, line in text.lines():
        rank, body = _rank_and_body(line)
        if not inside:
            if _START.search(body) is not None:
                start, inside, prefix = number, True, rank
            continue
        # Lines of other ranks repeat the machine.
        if rank != prefix:
            continue
        if ended:
            # After the machine, each GPU has a line with its paths to all others.
            if (match := _PATHS.match(body)) is None:
                break
            if (match[1] or "") == system:
                _expect_gpu(text, sockets, match[2], number)
            continue
        if _END.match(body):
            ended = True
            continue
        if (match := _CPU.match(body)) is not None:
            # With NVLink between nodes, the machine holds the processors of other systems.
            is_other = bool(sockets) and (match[1] or "") != system
            if is_other:
                continue
            system, node = match[1] or "", int(match[2], 16)
            sockets.append(Device("", None, number, numa_nodes=(node,) if node <= _LARGEST_NODE else ()))
            above, starts = {-1: sockets[-1]}, {0}
            own.add(node)
        elif (match := _SYSTEM_LINK.search(body)) is not None:
            if not is_other and (match[1] or "") == system:
                named.setdefault(int(match[2], 16), number)
        elif is_other:
            continue
        elif (match := _LINK.match(body)) is not None and sockets:
            column = len(match[1])
            rate = float(match[2])
            if not 0 < rate < 1e4:
                raise text.error(f"link rate is {match[2]} GB/s, expected 0 to 10,000", number)
            starts = {start for start in starts if start <= column}
            if column not in starts:
                raise text.error("belongs to a device of a line that is missing", number)
            starts.add(match.start(3))
            parent = above[max(depth for depth in above if depth < column)]
            device = Device(_bus_id(match[4]), rate / _GEN3_GB_PER_S * _GEN3_BYTES_PER_S, number)
            device.is_accelerator = match[3] == "GPU"
            if match[3] == "GPU" and match[5] and _NUMBER.fullmatch(match[5]):
                device.numbers = {"nccl": int(match[5])}
            if match[3] == "NIC":
                device.network_card = ""
            parent.children.append(device)
            above = {depth: one for depth, one in above.items() if depth < column} | {column: device}
    if not sockets:
        raise text.error("contains no machine of NCCL, expected lines 'CPU/..' after '=== System'")
    for node, number in named.items():
        if node not in own:
            raise text.error(f"links to CPU {node:x}, which the machine does not list: lines are missing", number)
    if not ended:
        raise text.error("ends within the machine of NCCL, expected its last line '=====': the log is cut")
    return DeviceForest("NCCL log", sockets, 0, 1, has_maximum_speeds=True), start


def _rank_and_body(line: str) -> tuple[str, str]:
    """Return the process that printed a line of NCCL, without a time before it, and what it printed.

    >>> _rank_and_body("12:00:01 node1:7:9 [0] NCCL INFO CPU/0 (1/2/-1)")
    ('node1:7:9 [0]', 'CPU/0 (1/2/-1)')
    """
    before, mark, body = line.partition(_INFO)
    return (" ".join(before.split()[-2:]), body) if mark else ("", line)


def _expect_gpu(text: Text, sockets: Sequence[Device], busid: str, line: int) -> None:
    """Raise an error if the machine lacks a GPU whose paths are printed below it."""
    devices = list(sockets)
    for device in devices:
        devices += device.children
    if _bus_id(busid) not in {device.bus_id for device in devices if device.is_accelerator}:
        raise text.error(f"has the paths of GPU {busid}, which the machine above lacks: lines are missing", line)


def _bus_id(text: str) -> str:
    """Return a PCI address from NCCL's number: 16000 is 0000:16:00.0."""
    value = int(text, 16)
    return f"{value >> 20 & 0xFFFF:04x}:{value >> 12 & 0xFF:02x}:{value >> 4 & 0x1F:02x}.{value & 7:x}"


def _read(text: Text) -> Iterator[Reading]:
    for number, line in text.lines(lambda line: "+ PCI[0.2]" in line):
        if _UNKNOWN_SPEED.search(line) is not None:
            yield Reading([text.fact(Quantity.NOTE, VIRTUAL, number, "NCCL log")])
            break
    forest, start = _forest(text)
    yield Reading([text.fact(Quantity.TOPOLOGY, forest, start, forest.program)], program=forest.program)


FORMAT = Format(
    "NCCL log (GRAPH)",
    Content.TOPOLOGY,
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH all_reduce_perf -g 8 > nccl.log",
    "NCCL INFO === System : maxBw 24.0 totalBw 24.0 ===",
    lambda text: _START.search(text.raw) is not None,
    _read,
    "nccl.log",
    versions="NCCL 2.6 to 2.30, lines of NCCL_DEBUG_SUBSYS=GRAPH",
)
