"""CUDA driver: availability check and error handling."""

from __future__ import annotations

import importlib.util
from typing import Any

from fabricast.core.errors import InputError

#: Optional dependency group of GPU measurements, for messages.
CUDA_GROUP = "(optional group 'cuda')"


def unavailable_reason() -> str | None:
    """Return why GPU measurements are unavailable, in one line; None if they are available."""
    for module, package in (("cuda.bindings", "cuda-bindings"), ("pynvml", "nvidia-ml-py")):
        try:
            is_installed = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            is_installed = False
        if not is_installed:
            return f"{package} is not installed {CUDA_GROUP}"
    from cuda.bindings import driver

    try:
        error, count = driver.cuInit(0)[0], driver.cuDeviceGetCount()
    except RuntimeError:
        return "no CUDA driver is installed"
    if error != driver.CUresult.CUDA_SUCCESS:
        return f"the CUDA driver does not start: {_text(error)}"
    return None if count[1] else "the CUDA driver sees no GPU"


def _text(error: Any) -> str:
    from cuda.bindings import driver

    _, text = driver.cuGetErrorString(error)
    return text.decode() if text else str(error)


def checked(result: tuple[Any, ...]) -> Any:
    """Return the values of a driver call, or raise its error."""
    error, *values = result
    if int(error) != 0:
        raise InputError(f"nothing measured: CUDA: {_text(error)}")
    return values[0] if len(values) == 1 else values or None


def c_text(found: bytes) -> str:
    r"""Decode a NUL-terminated C string.

    >>> c_text(b"GPU\0\0")
    'GPU'
    """
    return found.split(b"\0", 1)[0].decode(errors="replace")
