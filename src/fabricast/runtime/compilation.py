"""How kernels are compiled and where the machine code is kept.

numba's cache does not notice an edit to a callee in another file and then returns
stale results. The cache folder therefore carries a hash of all kernel sources and
the name of the processor.
"""

from __future__ import annotations

import hashlib
import importlib
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, UserProvidedCacheLocator
from numba.core.runtime.nrt import rtsys

from fabricast.runtime.caches import cache_folder
from fabricast.runtime.machine import processor_name

__all__ = ["allocation_free", "kernel_folder", "njit"]

_PACKAGE = Path(__file__).parents[1]


def _load_arrays_without_scipy() -> None:
    """Load what numba needs for arrays, but not SciPy's linear algebra with it: it takes 0.2 s, and no kernel uses it.

    Functions of others that use it load it when they are compiled, as always.
    """
    # A numba that has it elsewhere starts as it likes.
    with suppress(ImportError, AttributeError):
        linalg: Any = importlib.import_module("numba.np.linalg")
        load, linalg.ensure_blas = linalg.ensure_blas, lambda: None
        try:
            importlib.import_module("numba.np.arraymath")
        finally:
            linalg.ensure_blas = load


def kernel_folder() -> Path:
    """Return the folder for machine code of the kernels as they are now.

    Returns
    -------
    Path
        As `fabricast.runtime.caches.cache_folder`; a new temporary one if none can be written.

    Examples
    --------
    >>> kernel_folder() == kernel_folder()
    True
    """
    digest = hashlib.blake2b(processor_name().encode(), digest_size=8)
    for source in sorted(_PACKAGE.glob("*/kernels/*.py")):
        digest.update(source.relative_to(_PACKAGE).as_posix().encode() + source.read_bytes())
    found = cache_folder(f"kernels-{digest.hexdigest()}")
    return found or Path(tempfile.mkdtemp(prefix="fabricast-kernels-"))


class _PackageCacheLocator(UserProvidedCacheLocator):  # type: ignore[misc]
    """Keep machine code by place in the package, not by place on the disk: copies of a version share it."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[no-untyped-call]
        self._cache_path = str(_folder() / "-".join(Path(py_file).resolve().parts[-3:-1]))

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _PackageCacheLocator:
        """Return the locator of a function: every kernel of this package has one."""
        return cls(py_func, py_file)


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """Loads machine code without all that numba needs to compile some: that takes 0.2 s in each process."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what is kept of a function for these arguments, as numba's cache; None where it is to be compiled."""
        # Of what the context would load, machine code needs the memory of arrays alone.
        rtsys.initialize(target_context)  # type: ignore[no-untyped-call]
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if found is None:
            _load_arrays_without_scipy()
        return found


_folder = cache(kernel_folder)
_Decorate = Callable[[Callable[..., Any]], Any]


def njit(**options: Any) -> _Decorate:
    """Compile a kernel with `numba.njit`, its machine code kept in `kernel_folder`.

    Only this package's kernels are kept there, and all of them: numba's settings are as before afterwards.

    Parameters
    ----------
    **options
        As of `numba.njit`.

    Returns
    -------
    callable
        The decorator.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        # numba chooses the place when it decorates.
        before = numba.config.CACHE_LOCATOR_CLASSES  # type: ignore[attr-defined]
        numba.config.CACHE_LOCATOR_CLASSES = f"{__name__}.{_PackageCacheLocator.__name__}"  # type: ignore[attr-defined]
        try:
            dispatcher = numba.njit(**{**options, "cache": False})(function)
            # Without a compiler (NUMBA_DISABLE_JIT) it is the function itself.
            if dispatcher is not function:
                dispatcher._cache = _KernelCache(function)  # type: ignore[no-untyped-call]
            return dispatcher
        finally:
            numba.config.CACHE_LOCATOR_CLASSES = before  # type: ignore[attr-defined]

    return decorate


def allocation_free(**options: Any) -> _Decorate:
    """Compile a function that allocates nothing, to be called by other kernels.

    numba then passes arrays without counting references to them, one by one and atomically,
    which would cost small functions more than their work.

    Parameters
    ----------
    **options
        Further ones of `numba.njit`, such as ``inline="always"``.

    Returns
    -------
    callable
        The decorator.
    """
    return njit(cache=True, error_model="numpy", _nrt=False, **options)
