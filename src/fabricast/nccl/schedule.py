"""Work that NCCL schedules for one operation: channels in use, threads, chunks and loops."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.nccl.costs import Algorithm, Operation, Protocol, steps_of

#: Threads of a channel, and bytes per thread below which channels and then threads are removed (src/enqueue.cc).
_THREADS = {Protocol.LL: 512, Protocol.LL128: 640, Protocol.SIMPLE: 512}
_BYTES_PER_THREAD = {Protocol.LL: 8, Protocol.LL128: 8, Protocol.SIMPLE: 64}
#: Rings of at most this speed in GB/s use half of the threads of the protocol Simple (PCIe Gen3 x16).
_SLOW_RING, _SLOW_RING_THREADS = 12.0, 256
#: Least traffic of a channel in bytes; traffic of LL counts four times.
_LEAST_TRAFFIC = 32 << 10
#: Data in one chunk of a channel in bytes: buffers of 4 MiB (Simple) and 512 KiB (LL) in 8 steps, 4 steps per chunk.
_SIMPLE_BUFFER, _STEPS = 4 << 20, 8
_RING_CHUNK = {Protocol.LL: 32 << 10, Protocol.LL128: 576_000, Protocol.SIMPLE: 2 << 20}


def buffer_bytes(protocol: Protocol, setting: int | None = None) -> int:
    """Return the data of a chunk of a ring in one channel in bytes."""
    if protocol is Protocol.SIMPLE and setting is not None:
        return setting // _STEPS * (_STEPS // 2)
    return _RING_CHUNK[protocol]


def _traffic_per_byte(operation: Operation, ranks: int) -> int:
    """Return the traffic per byte of the count of one rank (`ncclFuncTrafficPerByte`)."""
    if operation is Operation.ALL_REDUCE:
        return 2
    return ranks if operation in (Operation.ALL_GATHER, Operation.REDUCE_SCATTER) else 1


def channels_in_use(
    operation: Operation,
    algorithm: Algorithm,
    protocol: Protocol,
    size_bytes: NDArray[np.float64],
    *,
    ranks: int,
    channels: int,
    ring_gb_per_s: float,
) -> NDArray[np.int64]:
    """Return the number of channels that share the work at each size.

    >>> size = np.array([4096.0, 1048576.0])
    >>> channels_in_use(
    ...     Operation.ALL_REDUCE, Algorithm.RING, Protocol.SIMPLE, size, ranks=8, channels=4, ring_gb_per_s=48.0
    ... ).tolist()
    [1, 4]
    """
    size_bytes = np.asarray(size_bytes, dtype=np.float64)
    threads = _THREADS[protocol]
    if algorithm is Algorithm.RING and protocol is Protocol.SIMPLE and ring_gb_per_s <= _SLOW_RING:
        threads = _SLOW_RING_THREADS
    threshold = _BYTES_PER_THREAD[protocol]
    if algorithm is Algorithm.RING and protocol is Protocol.LL:
        threshold *= ranks
    by_threads = np.clip(np.floor(size_bytes / (threads * threshold)), 1, channels)
    # The count of a rank is the n-th part of the size for all_gather and reduce_scatter.
    parts = ranks if operation in (Operation.ALL_GATHER, Operation.REDUCE_SCATTER) else 1
    per_byte = _traffic_per_byte(operation, ranks) * (4 if protocol is Protocol.LL else 1)
    cell = math.ceil(math.ceil(_LEAST_TRAFFIC / per_byte) / 16) * 16
    cells = np.maximum(np.ceil(size_bytes / parts / cell), 1)
    used: NDArray[np.int64] = np.minimum(by_threads, cells).astype(np.int64)
    return used


@dataclass(frozen=True)
class Chunks:
    """Loops and chunks of a ring at each size."""

    channels: NDArray[np.int64]  # Channels in use
    loops: NDArray[np.float64]  # Number of loops over the ring
    bytes: NDArray[np.float64]  # Data that a GPU sends in one step over all channels, in bytes
    steps: int  # Number of steps of one loop


def ring_chunks(
    operation: Operation,
    protocol: Protocol,
    size_bytes: NDArray[np.float64],
    channels: NDArray[np.int64],
    ranks: int,
    *,
    buffer_size: int | None = None,
) -> Chunks:
    """Return the loops and chunks of a ring.

    A loop moves one chunk of each channel and rank; the last loop is cut into equal chunks.
    """
    size_bytes = np.asarray(size_bytes, dtype=np.float64)
    loops = np.maximum(np.ceil(size_bytes / (ranks * channels * buffer_bytes(protocol, buffer_size))), 1.0)
    return Chunks(channels, loops, size_bytes / (ranks * loops), steps_of(operation, ranks))
