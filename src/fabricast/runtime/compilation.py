"""Compiled kernels: numba with a cache folder that depends on the kernel sources.

numba's cache does not notice an edit to a callee in another file and then returns stale results. The cache folder
therefore has the hash of this module, of all kernel sources and the name of the processor in its name.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numba
from numba.core import event

from fabricast.runtime.caches import cache_folder
from fabricast.runtime.machine import processor_name

_PACKAGE = Path(__file__).parents[1]


def kernel_sources() -> list[Path]:
    """Return the source files of all kernels, including nested folders."""
    return sorted(_PACKAGE.glob("**/kernels/*.py"))


def _kernel_folder() -> Path:
    """Return the cache folder for the machine code of the kernels on this processor.

    >>> _kernel_folder() == _kernel_folder()
    True
    """
    digest = hashlib.blake2b(processor_name().encode(), digest_size=8)
    for source in [Path(__file__), *kernel_sources()]:
        digest.update(source.relative_to(_PACKAGE).as_posix().encode() + source.read_bytes())
    return cache_folder(f"kernels-{digest.hexdigest()}") or Path(tempfile.mkdtemp(prefix="fabricast-kernels-"))


_FOLDER = _kernel_folder()


class _Notice(event.Listener):
    """Notice on a terminal or in a notebook that kernels are compiled, once for a model and this processor."""

    is_said = False

    def on_start(self, event: event.Event) -> None:
        if not self.is_said:
            self.is_said = True
            sys.stderr.write("fabricast: compiling a model for this processor, once; this can last a minute or two\n")

    def on_end(self, event: event.Event) -> None:
        """Do nothing: a compiled kernel is no news."""


if sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
    event.register("numba:compile", _Notice())  # type: ignore[no-untyped-call]

# numba reads the folder when a function is decorated.
numba.config.CACHE_DIR = str(_FOLDER)  # type: ignore[attr-defined]

#: Decorator of every kernel: cached machine code, no checks for division by zero, interpreter lock released.
njit: Any = partial(numba.njit, cache=True, error_model="numpy", nogil=True, no_cfunc_wrapper=True)


def allocation_free(function: Any = None, *, from_python: bool = False, **options: Any) -> Any:
    """Return a function that kernels call and that allocates nothing, compiled.

    Without `_nrt`, numba atomically counts the references to every array that is read from a NamedTuple, which
    dominates the run time of the packet simulator. Only with `from_python` may Python call the function: without that
    wrapper, which fails with a segmentation fault if it is called, kernels compile in half the time.
    """
    decorate = partial(njit, _nrt=False, no_cpython_wrapper=not from_python, **options)
    return decorate if function is None else decorate(function)
