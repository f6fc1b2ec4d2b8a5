"""The CUDA driver: whether there is one, and what its calls give."""

from __future__ import annotations

import importlib.util
from typing import Any

from fabricast.core.errors import InputError

__all__ = ["CUDA_GROUP", "c_text", "checked", "unavailable_reason"]

#: What has to be installed for it.
CUDA_GROUP = "(optional group 'cuda')"


def unavailable_reason() -> str | None:
    """Return why nothing can be measured on a GPU here, in one line; None if it can."""
    for module, package in (("cuda.bindings", "cuda-bindings"), ("pynvml", "nvidia-ml-py")):
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            return f"{package} is not installed {CUDA_GROUP}"
    from cuda.bindings import driver

    try:
        error, count = driver.cuInit(0)[0], driver.cuDeviceGetCount()
    except RuntimeError:
        return "no CUDA driver was found"
    if error != driver.CUresult.CUDA_SUCCESS:
        return f"the CUDA driver does not start: {_text(error)}"
    return None if count[1] else "the CUDA driver sees no GPU"


def _text(error: Any) -> str:
    from cuda.bindings import driver

    _, text = driver.cuGetErrorString(error)
    return text.decode() if text else str(error)


def checked(result: tuple[Any, ...]) -> Any:
    """Return what a call of the driver gave, or raise what it says.

    Parameters
    ----------
    result : tuple
        Error and values, as the binding returns them.

    Returns
    -------
    object
        The value, several as a list, or None.

    Raises
    ------
    InputError
        With CUDA's text, if the call failed.
    """
    error, *values = result
    if int(error) != 0:
        raise InputError(f"nothing measured: CUDA: {_text(error)}")
    return values[0] if len(values) == 1 else values or None


def c_text(found: bytes) -> str:
    r"""Return a text of C: what stands before its end.

    Examples
    --------
    >>> c_text(b"GPU\0\0")
    'GPU'
    """
    return found.split(b"\0", 1)[0].decode(errors="replace")
