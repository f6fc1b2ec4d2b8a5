"""Synthetic logs of nccl-tests."""


def nccl_tests(path, rows, *, ranks=32, hosts=4, operation="all_reduce"):
    """Write a log of nccl-tests with sizes in bytes and times in us, and return its path."""
    factor = (2 if operation == "all_reduce" else 1) * (ranks - 1) / ranks
    head = [
        "# nccl-tests version 2.19.6 nccl-headers=22907 nccl-library=22907",
        f"# Collective test starting: {operation}_perf",
    ]
    devices = [
        f"#  Rank {rank:2} Group  0 Pid {rank + 1} on node{rank * hosts // ranks:02} device {rank % 8:2} "
        f"[0000:{rank % 8 + 16:02x}:00] NVIDIA H100 80GB HBM3"
        for rank in range(ranks)
    ]
    cells = [
        f"{size:12} {size // 4:13} float sum -1 {time:9.2f} {size / time / 1e3:8.2f} {factor * size / time / 1e3:8.2f} 0"
        for size, time in rows
    ]
    names = "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
    path.write_text("\n".join([*head, *devices, names, *cells]) + "\n")
    return path
