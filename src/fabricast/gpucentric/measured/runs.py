"""Benchmark of a CUDA GPU: launches, copies, concurrent copies, stores, loads and power."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fabricast.core.errors import InputError
from fabricast.gpucentric.measured.cuda_device import Gpu
from fabricast.gpucentric.measured.power_meters import GpuMeter, ProcessorMeter, mean_power_w

#: Columns of a run, with one row per burst and cell.
CELL_COLUMNS = (
    "quantity",
    "item",
    "memory",
    "clock",
    "size_bytes",
    "copies",
    "burst",
    "samples",
    "p05",
    "p50",
    "p95",
    "unit",
)
#: Concurrent copies between the host (0) and a GPU (1).
PATTERNS: dict[str, tuple[tuple[int, int], ...]] = {
    "both directions": ((0, 1), (1, 0)),
    "two to the GPU": ((0, 1), (0, 1)),
    "two to the host": ((1, 0), (1, 0)),
    "two per direction": ((0, 1), (0, 1), (1, 0), (1, 0)),
}
#: Size in bytes of concurrent copies, and of the copies and stores of power measurements.
LARGE_BYTES = 64 * 2**20
_MOST_SAMPLES = 5000
_LEAST_SAMPLES = 5
_LAUNCHES = 200
_LOADS = 1024
_THREADS = 256
_LONGEST_HOLD_NS = 10**9
_SETTLE_S = 2.0

_Rows = Iterator[dict[str, Any]]


def measure_gpu(
    gpu: Gpu,
    *,
    sizes: Sequence[int],
    bursts: int,
    seconds: float,
    power_seconds: float,
    progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Measure launch, copy, store and load times and the power of a GPU."""
    largest = max(*sizes, LARGE_BYTES)
    bench = _Bench(gpu, largest, seconds)
    rows: list[dict[str, Any]] = []
    for burst in range(bursts):
        for measured in (bench.launches(), bench.copies(sizes), bench.concurrent(), bench.stores(sizes), bench.loads()):
            rows += [{**row, "burst": burst} for row in measured]
        if progress is not None:
            progress(1)
    if power_seconds > 0:
        rows += [{**row, "burst": 0} for row in bench.powers(power_seconds)]
    if progress is not None:
        progress(1)
    return pd.DataFrame(rows, columns=list(CELL_COLUMNS))


def _row(quantity: str, item: str, samples: Sequence[float], unit: str, **place: Any) -> dict[str, Any]:
    low, middle, high = np.quantile(np.asarray(samples, dtype=np.float64), [0.05, 0.5, 0.95]).tolist()
    cell = {"memory": "", "clock": "host", "size_bytes": 0, "copies": 1, **place}
    return {
        "quantity": quantity,
        "item": item,
        "samples": len(samples),
        "p05": low,
        "p50": middle,
        "p95": high,
        "unit": unit,
        **cell,
    }


class _Bench:
    """Buffers, streams and events of a run, and the benchmarks that use them."""

    def __init__(self, gpu: Gpu, largest_bytes: int, seconds: float) -> None:
        self.gpu, self.seconds = gpu, seconds
        # Single copies use the first buffers, concurrent copies all buffers.
        self.pinned = [gpu.pinned(size) for size in (largest_bytes, *[LARGE_BYTES] * 3)]
        self.device = [gpu.memory(size) for size in (largest_bytes, largest_bytes, *[LARGE_BYTES] * 2)]
        # `ones` writes the memory, so all pages are allocated.
        self._pageable = np.ones(largest_bytes, dtype=np.uint8)
        self.pageable = int(self._pageable.ctypes.data)
        self.peer = gpu.peer_memory(largest_bytes)
        self.streams = [gpu.stream() for _ in range(4)]
        self.events = [gpu.event() for _ in range(5)]
        self.sleeping_event = gpu.event(blocking=True)
        self.flag = gpu.pinned(4)
        self._flag_value = ctypes.c_uint.from_address(self.flag)
        self._flag_value.value = 0

    def _repeat(self, sample: Callable[[], float]) -> list[float]:
        sample()
        samples: list[float] = []
        end = time.perf_counter() + self.seconds
        while len(samples) < _LEAST_SAMPLES or (time.perf_counter() < end and len(samples) < _MOST_SAMPLES):
            samples.append(sample())
        return samples

    def _by_host(self, work: Callable[[], None]) -> list[float]:
        def sample() -> float:
            start = time.perf_counter_ns()
            work()
            return (time.perf_counter_ns() - start) * 1e-9

        return self._repeat(sample)

    def _hold(self) -> None:
        """Block the first stream until `_release`, so that all work is queued before it starts."""
        self._flag_value.value = 0
        self.gpu.launch("wait", self.streams[0], self.flag, _LONGEST_HOLD_NS)

    def _release(self) -> None:
        self._flag_value.value = 1

    def _by_device(self, work: Callable[[], None]) -> list[float]:
        """Repeat asynchronous work and return its times by the clock of the GPU.

        The stream is blocked while the work is queued; otherwise the times of short work would be those of its calls.
        """
        gpu, stream, (first, last) = self.gpu, self.streams[0], self.events[:2]

        def sample() -> float:
            self._hold()
            gpu.record(first, stream)
            work()
            gpu.record(last, stream)
            self._release()
            gpu.wait_for(last)
            return gpu.elapsed_s(first, last)

        return self._repeat(sample)

    def launches(self) -> _Rows:
        """Measure a driver call, consecutive launches, launch and wait, and an event query."""
        gpu, stream = self.gpu, self.streams[0]

        def in_a_row() -> None:
            for _ in range(_LAUNCHES):
                gpu.launch("empty", stream)
            gpu.finish(stream)

        def and_wait() -> None:
            gpu.launch("empty", stream)
            gpu.finish(stream)

        def and_sleep() -> None:
            gpu.launch("empty", stream)
            gpu.record(self.sleeping_event, stream)
            gpu.wait_for(self.sleeping_event)

        yield _row("time", "call", self._by_host(gpu.nothing), "s")
        yield _row("time", "launch", [t / _LAUNCHES for t in self._by_host(in_a_row)], "s")
        yield _row("time", "launch and wait", self._by_host(and_wait), "s")
        yield _row("time", "launch and sleep", self._by_host(and_sleep), "s")
        gpu.record(self.events[0], stream)
        gpu.finish(stream)

        def look() -> None:
            gpu.happened(self.events[0])

        yield _row("time", "query", self._by_host(look), "s")

    def _directions(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield item, memory, target and source of each kind of copy."""
        yield "host_to_device", "pinned", self.device[0], self.pinned[0]
        yield "device_to_host", "pinned", self.pinned[0], self.device[0]
        yield "host_to_device", "pageable", self.device[0], self.pageable
        yield "device_to_host", "pageable", self.pageable, self.device[0]
        yield "device_to_device", "", self.device[1], self.device[0]
        if self.peer is not None:
            yield "peer", "", self.peer, self.device[0]

    def copies(self, sizes: Sequence[int]) -> _Rows:
        """Measure single copies by the host clock (call to completion) and the GPU clock."""
        gpu, stream = self.gpu, self.streams[0]
        for size in sizes:
            for item, memory, target, source in self._directions():

                def start(target: int = target, source: int = source, size: int = size) -> None:
                    gpu.copy(target, source, size, stream)

                def whole(start: Callable[[], None] = start) -> None:
                    start()
                    gpu.finish(stream)

                place = {"memory": memory, "size_bytes": size}
                yield _row("time", item, self._by_host(whole), "s", **place)
                if memory != "pageable":
                    yield _row("time", item, self._by_device(start), "s", clock="device", **place)

    def _together(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        """Start copies at the same time and return the completion time of each copy in s."""
        gpu, gate = self.gpu, self.events[4]
        self._hold()
        gpu.record(gate, self.streams[0])
        for number, (source, _) in enumerate(pairs):
            addresses = (self.device[number], self.pinned[number])
            stream = self.streams[number]
            gpu.hold(stream, gate)
            gpu.copy(*(addresses if source == 0 else addresses[::-1]), LARGE_BYTES, stream)
            gpu.record(self.events[number], stream)
        self._release()
        for number in range(len(pairs)):
            gpu.wait_for(self.events[number])
        return [gpu.elapsed_s(gate, self.events[number]) for number in range(len(pairs))]

    def concurrent(self) -> _Rows:
        """Measure the total rate of copies that start at the same time, and of single copies.

        The total rate uses the last completion time. It does not depend on whether copies of one direction share an
        engine sequentially or in round-robin order, unlike the mean rate of the copies.
        """
        alone = {"single to the GPU": ((0, 1),), "single to the host": ((1, 0),)}
        for name, pairs in {**alone, **PATTERNS}.items():

            def total_rate(pairs: Sequence[tuple[int, int]] = pairs) -> float:
                return len(pairs) * LARGE_BYTES / max(self._together(pairs))

            place = {"memory": "pinned", "clock": "device", "size_bytes": LARGE_BYTES, "copies": len(pairs)}
            yield _row("rate", name, self._repeat(total_rate), "bytes/s", **place)

    def stores(self, sizes: Sequence[int]) -> _Rows:
        """Measure the rate of stores by GPU threads to host memory."""
        for size in (s for s in sizes if s >= 16 * _THREADS):
            count = size // 16
            blocks = min(1024, -(-count // _THREADS))

            def work(count: int = count, blocks: int = blocks) -> None:
                self.gpu.launch("store", self.streams[0], self.pinned[0], count, 7, blocks=blocks, threads=_THREADS)

            rates = [16 * count / elapsed for elapsed in self._by_device(work)]
            yield _row("rate", "store", rates, "bytes/s", memory="pinned", clock="device", size_bytes=size)

    def loads(self) -> _Rows:
        """Measure the latency of dependent loads from host memory by a GPU thread."""
        entries = LARGE_BYTES // 4
        chain = np.ctypeslib.as_array(ctypes.cast(self.pinned[0], ctypes.POINTER(ctypes.c_uint32)), shape=(entries,))
        # Stride of slightly more than 16 KiB: consecutive loads do not share a cache line or cache set.
        stride = 4099
        places = (np.arange(_LOADS + 1, dtype=np.uint64) * stride) % entries
        chain[places[:-1]] = places[1:].astype(np.uint32)

        def work() -> None:
            self.gpu.launch("follow", self.streams[0], self.pinned[0], _LOADS, self.device[0])

        times = [elapsed / _LOADS for elapsed in self._by_device(work)]
        yield _row("time", "load", times, "s", memory="pinned", clock="device", size_bytes=4)

    def powers(self, seconds: float) -> _Rows:
        """Measure the mean power of the GPU, and of the processors if readable, by activity."""
        gpu, stream = self.gpu, self.streams[0]
        try:
            meter, processors = GpuMeter(gpu.bus_id), ProcessorMeter()
        except InputError as error:
            sys.stderr.write(f"power measurements are skipped: {error}\n")
            return

        def busy(kernel: Callable[[float], None], wait: Callable[[], None]) -> Callable[[float], None]:
            def work(for_s: float) -> None:
                end = time.perf_counter() + for_s
                while (left := end - time.perf_counter()) > 0:
                    # Short kernels, because the GPU may drive a display.
                    kernel(min(left, 0.2))
                    gpu.record(self.sleeping_event, stream)
                    wait()

            return work

        def polling() -> None:
            while not gpu.happened(self.sleeping_event):
                pass

        def sleeping() -> None:
            gpu.wait_for(self.sleeping_event)

        def one_thread(for_s: float) -> None:
            self._flag_value.value = 0
            gpu.launch("wait", stream, self.flag, int(for_s * 1e9))

        # At most as many blocks as are resident: further blocks would start later and extend the run.
        resident = 4 * gpu.multiprocessors

        def all_threads(for_s: float) -> None:
            gpu.launch("compute", stream, self.device[0], int(for_s * 1e9), blocks=resident, threads=_THREADS)

        def copying(for_s: float) -> None:
            # Several copies are queued, so that the copy engine does not wait for the CPU.
            for _ in range(4):
                gpu.copy(self.pinned[0], self.device[0], LARGE_BYTES, stream)

        def storing(for_s: float) -> None:
            gpu.launch("store", stream, self.pinned[0], LARGE_BYTES // 16, 7, blocks=1024, threads=_THREADS)

        states: dict[str, Callable[[float], None]] = {
            "idle": time.sleep,
            "GPU polls, CPU sleeps": busy(one_thread, sleeping),
            "GPU polls, CPU polls": busy(one_thread, polling),
            "copies": busy(copying, sleeping),
            "stores": busy(storing, sleeping),
            "computes": busy(all_threads, sleeping),
        }
        # Idle time before the first state: the clocks stay high for a while after copies.
        time.sleep(min(_SETTLE_S, 2 * seconds))
        for state, work in states.items():
            try:
                powers = mean_power_w(work, seconds, meter, processors)
            except InputError as error:
                sys.stderr.write(f"power measurements are skipped from '{state}' on: {error}\n")
                return
            for component, power in powers.items():
                yield _row("power", state, [power], "W", memory=component, clock="counter")
