"""Copies between the GPUs of this machine through the CUDA driver."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from fabricast.core.errors import InputError
from fabricast.pcie.topology.parts import pci_address
from fabricast.pcie.topology.tree import PcieTree
from fabricast.runtime.cuda_driver import c_text, checked
from fabricast.runtime.machine import pin_to_local_cores

#: Consecutive copies of each flow: forecasts are of flows that repeat their copies.
_IN_A_ROW = 4


class MachineGpus:
    """Context manager for copies with all CUDA GPUs of this machine.

    Memory, streams and events are freed on exit.
    """

    def __init__(self) -> None:
        from cuda.bindings import driver

        self._driver = driver
        checked(driver.cuInit(0))
        self._devices = [checked(driver.cuDeviceGet(number)) for number in range(checked(driver.cuDeviceGetCount()))]
        self.bus_ids = [c_text(checked(driver.cuDeviceGetPCIBusId(32, device))) for device in self._devices]
        names = dict.fromkeys(c_text(checked(driver.cuDeviceGetName(256, device))) for device in self._devices)
        self.text = f"{len(self._devices)} x {', '.join(names)}"
        self._contexts: list[Any] = []
        self._given: list[tuple[int, Any, Any]] = []
        # Address and size of the buffer of each use.
        self._buffers: dict[tuple[Any, ...], tuple[int, int]] = {}
        self._streams: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._reached: dict[tuple[int, int], bool] = {}

    def __enter__(self) -> MachineGpus:
        try:
            for device in self._devices:
                self._contexts.append(checked(self._driver.cuDevicePrimaryCtxRetain(device)))
        except InputError:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for ordinal, free, what in reversed(self._given):
            self._enter(ordinal)
            free(what)
        self._release()

    def _release(self) -> None:
        for device, _ in zip(self._devices, self._contexts, strict=False):
            self._driver.cuDevicePrimaryCtxRelease(device)

    def _enter(self, ordinal: int) -> None:
        checked(self._driver.cuCtxSetCurrent(self._contexts[ordinal]))

    def ordinals(self, tree: PcieTree) -> dict[str, int]:
        """Map endpoints of a topology to CUDA ordinals by PCI address."""
        ordinal_at = {pci_address(bus_id): ordinal for ordinal, bus_id in enumerate(self.bus_ids)}
        endpoints = {
            name: ordinal_at[address]
            for name in tree.endpoint_names
            if (address := pci_address(tree.vertex(name).label)) and address in ordinal_at
        }
        if not endpoints:
            raise InputError(
                f"no endpoint of {tree.name} has the PCI address of a GPU here ({', '.join(self.bus_ids)}), expected "
                "the topology of this machine"
            )
        return endpoints

    def reaches(self, source: int, target: int) -> bool:
        """Return whether a GPU has peer access to another GPU, and enable it if so."""
        if (source, target) not in self._reached:
            driver = self._driver
            can = bool(checked(driver.cuDeviceCanAccessPeer(self._devices[source], self._devices[target])))
            if can:
                self._enter(source)
                checked(driver.cuCtxEnablePeerAccess(self._contexts[target], 0))
            self._reached[source, target] = can
        return self._reached[source, target]

    def memory(self, ordinal: int, use: object, size_bytes: int) -> int:
        """Return the address of GPU memory of at least some size; each use has one buffer."""
        key = (ordinal, use)
        if not self._is_large_enough(key, size_bytes):
            self._enter(ordinal)
            address = checked(self._driver.cuMemAlloc(size_bytes))
            self._given.append((ordinal, self._driver.cuMemFree, address))
            self._buffers[key] = int(address), size_bytes
        return self._buffers[key][0]

    def _is_large_enough(self, key: tuple[Any, ...], size_bytes: int) -> bool:
        return key in self._buffers and self._buffers[key][1] >= size_bytes

    def host_memory(self, ordinal: int, use: object, size_bytes: int) -> int:
        """Return the address of page-locked host memory of at least some size, touched by a core next to a GPU."""
        key = ("host", ordinal, use)
        if not self._is_large_enough(key, size_bytes):
            self._enter(ordinal)
            with pin_to_local_cores(self.bus_ids[ordinal]):
                address = checked(self._driver.cuMemHostAlloc(size_bytes, self._driver.CU_MEMHOSTALLOC_PORTABLE))
                ctypes.memset(int(address), 0, size_bytes)
            self._given.append((ordinal, self._driver.cuMemFreeHost, address))
            self._buffers[key] = int(address), size_bytes
        return self._buffers[key][0]

    def stream(self, ordinal: int, number: int) -> tuple[Any, Any]:
        """Return a stream of a GPU and a timing event."""
        key = (ordinal, number)
        if key not in self._streams:
            driver = self._driver
            self._enter(ordinal)
            stream = checked(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
            self._given.append((ordinal, driver.cuStreamDestroy, stream))
            event = checked(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DEFAULT))
            self._given.append((ordinal, driver.cuEventDestroy, event))
            self._streams[key] = (stream, event)
        return self._streams[key]

    def together(
        self, flows: Sequence[tuple[int | None, int | None]], size_bytes: int, *, read: bool = False
    ) -> list[float]:
        """Start four copies of each flow at the same moment and return their times.

        All copies are first queued behind a flag in host memory, so that host calls do not stagger them. Times count
        from an event that precedes all copies of a GPU: an event at the start of each stream would wait for the engine,
        as an H100 showed, and hide that the copies of one engine run one after the other.
        """
        driver = self._driver
        flag_address = self.host_memory(_executor(flows[0], read), "flag", 4096)
        flag = ctypes.c_uint32.from_address(flag_address)
        flag.value = 0
        geq = driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ
        executors = [_executor(flow, read) for flow in flows]
        # Before anything is queued: allocations may wait for running streams.
        addresses = [self._addresses(flow, number, size_bytes, read) for number, flow in enumerate(flows)]
        gates = {}
        for ordinal in executors:
            if ordinal not in gates:
                stream, gates[ordinal] = self.stream(ordinal, 0)
                self._enter(ordinal)
                checked(driver.cuStreamWaitValue32(stream, flag_address, 1, geq))
                checked(driver.cuEventRecord(gates[ordinal], stream))
        ends = []
        for number, (ordinal, (target, source)) in enumerate(zip(executors, addresses, strict=True)):
            stream, end = self.stream(ordinal, 1 + executors[:number].count(ordinal))
            self._enter(ordinal)
            checked(driver.cuStreamWaitEvent(stream, gates[ordinal], 0))
            for _ in range(_IN_A_ROW):
                checked(driver.cuMemcpyAsync(target, source, size_bytes, stream))
            checked(driver.cuEventRecord(end, stream))
            ends.append(end)
        flag.value = 1
        times = []
        for ordinal, end in zip(executors, ends, strict=True):
            self._enter(ordinal)
            checked(driver.cuEventSynchronize(end))
            times.append(float(checked(driver.cuEventElapsedTime(gates[ordinal], end))) * 1e-3)
        return times

    def _addresses(
        self, flow: tuple[int | None, int | None], number: int, size_bytes: int, read: bool
    ) -> tuple[int, int]:
        source, target = flow
        local = _executor(flow, read)
        ends = []
        for ordinal, use in ((target, ("to", number)), (source, ("from",))):
            ends.append(
                self.host_memory(local, use, size_bytes) if ordinal is None else self.memory(ordinal, use, size_bytes)
            )
        return ends[0], ends[1]


def _executor(flow: tuple[int | None, int | None], read: bool) -> int:
    """Return the ordinal of the GPU on whose stream a copy runs.

    This is the source of a write or the target of a read. Copies of host memory run on their only GPU.
    """
    first, second = flow[::-1] if read else flow
    ordinal = first if first is not None else second
    if ordinal is None:
        raise InputError("a copy is within host memory, expected a GPU at one end")
    return ordinal
