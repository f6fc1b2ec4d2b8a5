"""Access to a GPU through the CUDA driver: memory, copies, kernels, events."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import TracebackType
from typing import Any

from fabricast.core.errors import InputError
from fabricast.runtime.cuda_driver import CUDA_GROUP, c_text, checked

_KERNELS = Path(__file__).with_name("kernels.cu")
_POINTER, _COUNT, _NUMBER = ctypes.c_void_p, ctypes.c_ulonglong, ctypes.c_uint
#: Types of the arguments of each kernel.
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "empty": (),
    "wait": (_POINTER, _COUNT),
    "compute": (_POINTER, _COUNT),
    "store": (_POINTER, _COUNT, _NUMBER),
    "follow": (_POINTER, _NUMBER, _POINTER),
}


class Gpu:
    """Context manager of a GPU for measurements; it frees all memory on exit.

    Arguments: ordinal: index of the GPU among the visible GPUs.
    """

    def __init__(self, ordinal: int = 0) -> None:
        from cuda.bindings import driver

        self._driver = driver
        self._ordinal = ordinal
        checked(driver.cuInit(0))
        self._device = checked(driver.cuDeviceGet(ordinal))
        self._peers: list[Any] = []
        self._allocated: list[tuple[Any, Any]] = []
        self.name: str = c_text(checked(driver.cuDeviceGetName(256, self._device)))
        self.bus_id: str = c_text(checked(driver.cuDeviceGetPCIBusId(32, self._device)))
        version = checked(driver.cuDriverGetVersion())
        self.driver_version = f"{version // 1000}.{version % 1000 // 10}"

    def __enter__(self) -> Gpu:
        context = checked(self._driver.cuDevicePrimaryCtxRetain(self._device))
        self._context = context
        checked(self._driver.cuCtxSetCurrent(context))
        try:
            self._module = checked(self._driver.cuModuleLoadData(_compiled(self._architecture())))
        except InputError:
            self._driver.cuDevicePrimaryCtxRelease(self._device)
            raise
        self._functions: dict[str, Any] = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._driver.cuCtxSynchronize()
        for free, address in reversed(self._allocated):
            free(address)
        self._driver.cuModuleUnload(self._module)
        for device in (*self._peers, self._device):
            self._driver.cuDevicePrimaryCtxRelease(device)

    def _attribute(self, name: str) -> int:
        which = getattr(self._driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(checked(self._driver.cuDeviceGetAttribute(which, self._device)))

    @property
    def multiprocessors(self) -> int:
        """Number of multiprocessors of the GPU."""
        return self._attribute("MULTIPROCESSOR_COUNT")

    def _architecture(self) -> str:
        return f"sm_{self._attribute('COMPUTE_CAPABILITY_MAJOR')}{self._attribute('COMPUTE_CAPABILITY_MINOR')}"

    def pinned(self, size_bytes: int) -> int:
        """Allocate page-locked host memory that the GPU can access; return its address."""
        flags = self._driver.CU_MEMHOSTALLOC_PORTABLE | self._driver.CU_MEMHOSTALLOC_DEVICEMAP
        address = checked(self._driver.cuMemHostAlloc(size_bytes, flags))
        self._allocated.append((self._driver.cuMemFreeHost, address))
        return int(address)

    def memory(self, size_bytes: int) -> int:
        """Allocate GPU memory; return its address."""
        address = checked(self._driver.cuMemAlloc(size_bytes))
        self._allocated.append((self._driver.cuMemFree, address))
        return int(address)

    def peer_memory(self, size_bytes: int) -> int | None:
        """Allocate memory on the next GPU; return its address.

        Return None if no other GPU is accessible from this GPU.
        """
        driver = self._driver
        count = checked(driver.cuDeviceGetCount())
        if count < 2:
            return None
        peer = checked(driver.cuDeviceGet((self._ordinal + 1) % count))
        if not checked(driver.cuDeviceCanAccessPeer(self._device, peer)):
            return None
        try:
            context = checked(driver.cuDevicePrimaryCtxRetain(peer))
            self._peers.append(peer)
            checked(driver.cuCtxEnablePeerAccess(context, 0))
            checked(driver.cuCtxSetCurrent(context))
            return self.memory(size_bytes)
        except InputError:
            # The other GPU is full or in exclusive use: measure without peer copies.
            return None
        finally:
            checked(driver.cuCtxSetCurrent(self._context))

    def stream(self) -> Any:
        """Return a new non-blocking stream."""
        return checked(self._driver.cuStreamCreate(self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def event(self, *, blocking: bool = False) -> Any:
        """Return a new event. The CPU sleeps while it waits for a blocking event."""
        flags = self._driver.CUevent_flags
        return checked(self._driver.cuEventCreate(flags.CU_EVENT_BLOCKING_SYNC if blocking else flags.CU_EVENT_DEFAULT))

    def nothing(self) -> None:
        """Make a trivial driver call, to measure the overhead of a call from Python."""
        checked(self._driver.cuDriverGetVersion())

    def copy(self, target: int, source: int, size_bytes: int, stream: Any) -> None:
        """Start an asynchronous copy between two addresses of host or GPU memory."""
        checked(self._driver.cuMemcpyAsync(target, source, size_bytes, stream))

    def launch(self, kernel: str, stream: Any, *values: int, blocks: int = 1, threads: int = 1) -> None:
        """Start a kernel of kernels.cu."""
        if kernel not in self._functions:
            self._functions[kernel] = checked(self._driver.cuModuleGetFunction(self._module, kernel.encode()))
        arguments = (values, _ARGUMENTS[kernel]) if values else 0
        function = self._functions[kernel]
        checked(self._driver.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, 0))

    def record(self, event: Any, stream: Any) -> None:
        """Record an event in a stream."""
        checked(self._driver.cuEventRecord(event, stream))

    def hold(self, stream: Any, event: Any) -> None:
        """Make a stream wait for an event."""
        checked(self._driver.cuStreamWaitEvent(stream, event, 0))

    def happened(self, event: Any) -> bool:
        """Return without waiting whether an event has completed."""
        (error,) = self._driver.cuEventQuery(event)
        if error == self._driver.CUresult.CUDA_ERROR_NOT_READY:
            return False
        checked((error,))
        return True

    def wait_for(self, event: Any) -> None:
        """Wait for an event."""
        checked(self._driver.cuEventSynchronize(event))

    def finish(self, stream: Any) -> None:
        """Wait for all work of a stream."""
        checked(self._driver.cuStreamSynchronize(stream))

    def elapsed_s(self, first: Any, last: Any) -> float:
        """Return the time between two events by the clock of the GPU in s."""
        return float(checked(self._driver.cuEventElapsedTime(first, last))) * 1e-3


def _compiled(architecture: str) -> bytes:
    """Compile kernels.cu for a GPU architecture."""
    from cuda.bindings import nvrtc

    def compiled(result: tuple[Any, ...]) -> Any:
        error, *values = result
        if int(error) != 0:
            _, text = nvrtc.nvrtcGetErrorString(error)
            raise InputError(
                f"nothing measured: kernels.cu for {architecture}: {text.decode()} "
                "(GPUs before sm_75 require NVRTC of CUDA 12)"
            )
        return values[0] if values else None

    try:
        program = compiled(nvrtc.nvrtcCreateProgram(_KERNELS.read_bytes(), _KERNELS.name.encode(), 0, [], []))
    except RuntimeError as failure:
        reason = str(failure).splitlines()[0]
        raise InputError(f"nothing measured: NVRTC is not installed {CUDA_GROUP}: {reason}") from failure
    options = [f"--gpu-architecture={architecture}".encode()]
    compiled(nvrtc.nvrtcCompileProgram(program, len(options), options))
    buffer = b" " * int(compiled(nvrtc.nvrtcGetCUBINSize(program)))
    compiled(nvrtc.nvrtcGetCUBIN(program, buffer))
    nvrtc.nvrtcDestroyProgram(program)
    return buffer
