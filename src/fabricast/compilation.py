"""How kernels are compiled and where the machine code is kept.

numba's cache does not notice an edit to a callee in another file and then returns
stale results. The cache folder therefore carries a hash of all kernel sources and
the name of the processor, and it is set before numba is imported.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from fabricast.machine import processor_name

__all__ = ["cache_folder", "njit"]

_PACKAGE = Path(__file__).parent


def cache_folder() -> Path:
    """Return the folder for machine code of the kernels as they are now.

    Returns
    -------
    Path
        A folder below ``FABRICAST_CACHE_DIR``, else the user's cache folder, else the
        temporary folder, whichever is the first that can be written.

    Examples
    --------
    >>> cache_folder() == cache_folder()
    True
    """
    digest = hashlib.blake2b(processor_name().encode(), digest_size=8)
    for source in sorted(_PACKAGE.rglob("*kernels.py")):
        digest.update(source.relative_to(_PACKAGE).as_posix().encode() + source.read_bytes())
    roots = [
        os.environ.get("FABRICAST_CACHE_DIR"),
        os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser()),
        tempfile.gettempdir(),
    ]
    for root in filter(None, roots):
        folder = Path(root) / "fabricast" / f"kernels-{digest.hexdigest()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="fabricast-kernels-"))


os.environ["NUMBA_CACHE_DIR"] = str(cache_folder())

import numba  # noqa: E402  the cache folder must be set first
from numba.core.caching import UserProvidedCacheLocator  # noqa: E402


class PackageCacheLocator(UserProvidedCacheLocator):  # type: ignore[misc]
    """Keep machine code by place in the package, not by place on the disk: copies of a version share it."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """Return the folder of a source file's machine code, below the cache folder."""
        path = Path(py_file).resolve()
        if path.is_relative_to(_PACKAGE.resolve()):
            return "-".join(("fabricast", *path.relative_to(_PACKAGE.resolve()).parent.parts))
        return str(super().get_suitable_cache_subpath(py_file))  # type: ignore[no-untyped-call]


numba.config.CACHE_LOCATOR_CLASSES = f"{__name__}.PackageCacheLocator"  # type: ignore[attr-defined]
numba.config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"]  # type: ignore[attr-defined]
njit = numba.njit
