"""Times of collective operations: algorithms and protocols of NCCL on steps of known rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.collectives.constants import Constants
from fabricast.nccl.costs import Algorithm, Operation, Protocol
from fabricast.nccl.schedule import Chunks, ring_chunks

#: Data of one turn of a block, and its traffic: half of each line of LL is flags, 1/16 of LL128.
_TURN_BYTES = {Protocol.LL: (4096.0, 8192.0), Protocol.LL128: (38_400.0, 40_960.0)}
#: Chunks of trees and chains in one channel in bytes, and of sends and receives.
_PIPELINE_CHUNK = {Protocol.LL: 32 << 10, Protocol.LL128: 144_000, Protocol.SIMPLE: 512 << 10}
#: Peers that NCCL serves at the same time in one round of sends and receives.
_PEERS_OF_A_ROUND = 8


@dataclass(frozen=True)
class StepTimes:
    """Rate and latency of the steps of an operation."""

    bytes_per_s: float  # Rate of the slowest hop that NCCL's kernels reach, in bytes/s
    latency_s: float  # Latency of a hop in s, mean over the hops


def _exposed_latency(chunk: NDArray[np.float64], step: StepTimes, known: Constants) -> NDArray[np.float64]:
    """Return the latency of a step of Simple that the transfer does not hide, in s.

    Slices of one chunk overlap: long transfers hide the latency.
    """
    latency = known.simple_latency * step.latency_s
    ratio = chunk / (step.bytes_per_s * latency * known.hidden_ratio)
    exposed: NDArray[np.float64] = latency / (1.0 + ratio**2)
    return exposed


def _turn(protocol: Protocol, channels: NDArray[np.int64], step: StepTimes, known: Constants) -> NDArray[np.float64]:
    """Return the time between turns of a block of LL or LL128: its traffic, or a share of the latency, in s."""
    _, traffic = _TURN_BYTES[protocol]
    turn: NDArray[np.float64] = np.maximum(traffic * channels / step.bytes_per_s, known.turn_latency * step.latency_s)
    return turn


def _ll_step(step: StepTimes, known: Constants) -> float:
    return known.ll_step_s + known.ll_latency * step.latency_s


def _ring_times(protocol: Protocol, chunks: Chunks, step: StepTimes, known: Constants) -> NDArray[np.float64]:
    """Return the time of a ring in s.

    Simple: ``start + loops * steps * (chunk / rate + exposed latency)``. LL: ``start + loops * steps * (step latency +
    (turns - 1) * turn)``; a block moves 4 KiB of data, 8 KiB of traffic, in one turn.
    """
    if protocol is Protocol.SIMPLE:
        per_step = chunks.bytes / step.bytes_per_s + _exposed_latency(chunks.bytes, step, known)
        return known.start_s + chunks.loops * chunks.steps * per_step
    data, traffic = _TURN_BYTES[protocol]
    turns = np.maximum(chunks.bytes / (data * chunks.channels), 1.0)
    per_step = _ll_step(step, known) + (turns - 1) * _turn(protocol, chunks.channels, step, known)
    # No number of channels exceeds the rate of the step.
    per_step = np.maximum(per_step, chunks.bytes * (traffic / data) / step.bytes_per_s)
    return known.start_s + chunks.loops * chunks.steps * per_step


def _pipeline_times(
    protocol: Protocol,
    size: NDArray[np.float64],
    channels: NDArray[np.int64],
    hops: int,
    step: StepTimes,
    known: Constants,
) -> NDArray[np.float64]:
    """Return the time of a chain of hops in s: the first chunk passes all hops, the others follow."""
    chunk = np.minimum(size, channels * float(_PIPELINE_CHUNK[protocol]))
    if protocol is Protocol.SIMPLE:
        latency = known.simple_latency * step.latency_s
        whole: NDArray[np.float64] = hops * (chunk / step.bytes_per_s + latency) + (size - chunk) / step.bytes_per_s
        return known.start_s + whole
    data, traffic = _TURN_BYTES[protocol]
    turn = _turn(protocol, channels, step, known)
    turns_of_chunk = np.maximum(chunk / (data * channels), 1.0)
    turns_after = (size - chunk) / (data * channels)
    per_hop = _ll_step(step, known) + (turns_of_chunk - 1) * turn
    times: NDArray[np.float64] = known.start_s + hops * per_hop + turns_after * turn
    return np.maximum(times, size * (traffic / data) / step.bytes_per_s)


def operation_times(
    operation: Operation,
    algorithm: Algorithm,
    protocol: Protocol,
    size_bytes: NDArray[np.float64],
    *,
    ranks: int,
    channels: NDArray[np.int64],
    step: StepTimes,
    known: Constants,
    buffer_size: int | None = None,
) -> NDArray[np.float64]:
    """Return the time of an operation in s.

    Shapes: size_bytes (sizes,); channels (sizes,); result (sizes,).

    Doubling the rate and halving all latencies halves the time:

    >>> from dataclasses import replace
    >>> from fabricast.collectives.constants import constants
    >>> size, channels, known = np.array([1e6, 64e6]), np.array([2, 2]), constants()
    >>> ring = Operation.ALL_REDUCE, Algorithm.RING, Protocol.SIMPLE, size
    >>> slow = operation_times(*ring, ranks=4, channels=channels, step=StepTimes(2e10, 1e-6), known=known)
    >>> half = replace(
    ...     known, launch_s=known.launch_s / 2, start_s=known.start_s / 2, ll_step_s=known.ll_step_s / 2
    ... )
    >>> fast = operation_times(*ring, ranks=4, channels=channels, step=StepTimes(4e10, 0.5e-6), known=half)
    >>> bool(np.allclose(slow, 2 * fast))
    True
    """
    size_bytes = np.asarray(size_bytes, dtype=np.float64)
    times = _times(operation, algorithm, protocol, size_bytes, ranks, channels, step, known, buffer_size)
    return np.maximum(times, known.launch_s)


def _times(
    operation: Operation,
    algorithm: Algorithm,
    protocol: Protocol,
    size_bytes: NDArray[np.float64],
    ranks: int,
    channels: NDArray[np.int64],
    step: StepTimes,
    known: Constants,
    buffer_size: int | None,
) -> NDArray[np.float64]:
    """Return the time of an operation in s, without the launch of its kernels."""
    if operation in (Operation.BROADCAST, Operation.REDUCE):
        return _pipeline_times(protocol, size_bytes, channels, ranks - 1, step, known)
    if operation is Operation.SENDRECV:
        return _pipeline_times(protocol, size_bytes, channels, 1, step, known)
    if operation is Operation.ALLTOALL:
        rounds = -(-(ranks - 1) // _PEERS_OF_A_ROUND)
        if protocol is Protocol.SIMPLE:
            latency = known.simple_latency * step.latency_s * rounds
            return known.start_s + latency + size_bytes / ranks / step.bytes_per_s
        turns = np.maximum(size_bytes / ranks / (_TURN_BYTES[protocol][0] * channels), 1.0)
        turn = _turn(protocol, channels, step, known)
        return known.start_s + rounds * _ll_step(step, known) + (turns - 1) * turn
    if algorithm is Algorithm.TREE:
        # Up and down the chain: 2 (n - 1) hops of the first chunk.
        return _pipeline_times(protocol, size_bytes, channels, 2 * (ranks - 1), step, known)
    chunks = ring_chunks(operation, protocol, size_bytes, channels, ranks, buffer_size=buffer_size)
    return _ring_times(protocol, chunks, step, known)
