"""Output of programs as people paste it, made from rates and times."""

import numpy as np

from fabricast.collectives.evidence.measured import measured_cases
from fabricast.nccl.costs import Operation, bus_factor

__all__ = ["debug_log", "measured", "nccl_tests", "peer_test"]


def peer_test(rates, *, disabled=()):
    """Return output of p2pBandwidthLatencyTest with one-way rates in GB/s."""
    count = len(rates)
    lines = ["[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"]
    lines.extend(f"Device={one} CANNOT Access Peer Device={other}" for one, other in disabled)
    lines.append("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)")
    lines.append("   D\\D" + "".join(f"{column:7}" for column in range(count)))
    for row in range(count):
        cells = [900.0 if row == column else rates[row][column] for column in range(count)]
        lines.append(f"{row:6}" + "".join(f"{cell:7.2f}" for cell in cells))
    return "\n".join(lines) + "\n"


def nccl_tests(operation, ranks, times_us, gpu="NVIDIA L40S"):
    """Return output of nccl-tests with the time of each size."""
    lines = [
        "# nccl-tests version 2.17.1 nccl-headers=23007 nccl-library=23007",
        f"# Collective test starting: {operation}_perf",
    ]
    lines.extend(
        f"#  Rank {rank:2} Group  0 Pid {41207:6} on node01 device {rank:2} [0000:{16 + rank:02x}:00] {gpu}"
        for rank in range(ranks)
    )
    lines.append("#       size         count      type   redop    root     time   algbw   busbw  #wrong")
    for size, time in times_us.items():
        rate = size / time / 1e3
        lines.append(
            f"{size:12} {size // 4:12} float sum -1 {time:10.2f} {rate:.2f} {rate * bus_factor(Operation(operation), ranks):.2f} 0"
        )
    return "\n".join(lines) + "\n# Out of bounds values : 0 OK\n"


def measured(system, operation="all_reduce"):
    """Return the measured times of a public machine in us."""
    case = next(case for case in measured_cases() if case.system == system and case.operation == operation)
    order = np.argsort(case.size_bytes, kind="stable")
    return {int(case.size_bytes[place]): case.measured_s[place] * 1e6 for place in order}


def debug_log(ranks, order, *, direct=True, channels=2, speed=24.0, kind="PHB", env=""):
    """Return lines of NCCL_DEBUG=INFO."""
    lines = [
        f"n:1:2 [{rank}] NCCL INFO comm 0x1 rank {rank} nranks {ranks} cudaDev {rank} busId {rank + 1}000 commId 0x7 - Init COMPLETE"
        for rank in range(ranks)
    ]
    lines += [
        f"n:1:2 [0] NCCL INFO Channel {channel:02}/{2 * channels:02} : {' '.join(map(str, order))}"
        for channel in range(2 * channels)
    ]
    lines.append(
        f"n:1:2 [0] NCCL INFO Pattern 4, crossNic 0, nChannels {channels}, bw {speed:.6f}/{speed:.6f}, type {kind}/PIX, sameChannels 1"
    )
    for source, target in zip(order, [*order[1:], order[0]], strict=True):
        via = "P2P/CUMEM" if direct else "SHM/direct/direct"
        lines.append(f"n:1:2 [{source}] NCCL INFO Channel 00/0 : {source}[{source}] -> {target}[{target}] via {via}")
    lines.append(f"n:1:2 [0] NCCL INFO {2 * channels} coll channels, 2 p2p channels, 2 p2p channels per peer")
    if env:
        lines.append(f"n:1:2 [0] NCCL INFO {env}")
    return "\n".join(lines) + "\n"


def words(diagnosis):
    """Return all texts of a diagnosis."""
    found = [f"{one.text} {one.remedy}" for one in diagnosis.findings]
    return " ".join([str(diagnosis.verdict), *map(str, diagnosis.statements), *map(str, diagnosis.notes), *found])
