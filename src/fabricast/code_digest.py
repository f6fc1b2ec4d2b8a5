"""What a result depends on: digests of the package's source code."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

__all__ = ["source_digest"]

_PACKAGE = Path(__file__).parent
#: Files that a module reads beside its own source.
_DATA_OF_MODULE = {
    "fabricast.tables": ("schema.sql",),
    "fabricast.gpucentric.cuda_device": ("gpucentric/kernels.cu",),
    "fabricast.figures.style": ("figures/paper.mplstyle",),
    "fabricast.report": ("report.html.jinja",),
}


@cache
def _file_of(module: str) -> Path | None:
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _imports(path: Path) -> set[str]:
    """Modules of this package that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("fabricast.") and _file_of(name)}


def source_digest(*modules: str) -> str:
    """Return a digest of modules of this package and all they import from it.

    Snakemake does not see edits to imported modules; a rule that names this digest in
    its ``params`` reruns exactly when code it uses changes.

    Parameters
    ----------
    *modules : str
        Full names such as ``"fabricast.pcie.graph_tables"``.

    Returns
    -------
    str
        16 hexadecimal digits.

    Raises
    ------
    ModuleNotFoundError
        If there is no such module.

    Examples
    --------
    >>> source_digest("fabricast.units") == source_digest("fabricast.units")
    True
    >>> source_digest("fabricast.units") == source_digest("fabricast.seeds")
    False
    """
    waiting, seen = list(modules), set()
    while waiting:
        module = waiting.pop()
        path = _file_of(module)
        if path is None:
            raise ModuleNotFoundError(f"no module '{module}'")
        if module not in seen:
            seen.add(module)
            waiting += _imports(path)
    digest = hashlib.sha256()
    for module in sorted(seen):
        path = _file_of(module)
        assert path is not None
        digest.update(module.encode() + b"\0" + path.read_bytes())
        for name in _DATA_OF_MODULE.get(module, ()):
            digest.update((_PACKAGE / name).read_bytes())
    return digest.hexdigest()[:16]
