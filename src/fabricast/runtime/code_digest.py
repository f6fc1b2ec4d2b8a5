"""What a result depends on: digests of the package's source code."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

__all__ = ["modules_below", "script_digest", "source_digest"]

_PACKAGE = Path(__file__).parents[1]


@cache
def _file_of(module: str) -> Path | None:
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


class _WithoutTypes(ast.NodeTransformer):
    """Leave out what is imported for type checkers only."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Leave out `if TYPE_CHECKING`."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node.orelse
        return self.generic_visit(node)


def _imports(path: Path) -> set[str]:
    """Modules of this package that a file imports, also inside functions and as ``python -m`` names in strings."""
    found = set()
    for node in ast.walk(_WithoutTypes().visit(ast.parse(path.read_text(encoding="utf-8")))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return {name for name in found if name.startswith("fabricast.") and name.isprintable() and _file_of(name)}


_imports_of_module = cache(_imports)


@cache
def _data_files(path: Path) -> tuple[Path, ...]:
    """Files beside a module that it names in a string: SQL, CUDA, templates, styles."""
    names = {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    beside = (other for other in path.parent.iterdir() if other.suffix not in (".py", ".pyc") and other.is_file())
    return tuple(sorted(other for other in beside if other.name in names))


def modules_below(package: str) -> list[str]:
    """Return the full names of the modules of a package of this package.

    Parameters
    ----------
    package : str
        Such as ``"fabricast.pcie.kernels"``.

    Examples
    --------
    >>> "fabricast.pcie.kernels.models" in modules_below("fabricast.pcie.kernels")
    True
    """
    folder = _PACKAGE.joinpath(*package.split(".")[1:])
    return sorted(f"{package}.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__")


def script_digest(script: Path | str) -> str:
    """Return a digest of all modules of this package that a script imports, directly or through others.

    Snakemake sees an edit to a script, but none to what the script imports; a rule that
    names this digest in its ``params`` reruns exactly when code it uses changes.

    Parameters
    ----------
    script : Path or str
        Python file of a rule.

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    return source_digest(*_imports(Path(script)))


def source_digest(*modules: str) -> str:
    """Return a digest of modules of this package and all they import from it.

    Parameters
    ----------
    *modules : str
        Full names such as ``"fabricast.pcie.tables.graphs"``.

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
    >>> source_digest("fabricast.core.units") == source_digest("fabricast.core.units")
    True
    >>> source_digest("fabricast.core.units") == source_digest("fabricast.core.seeds")
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
            waiting += _imports_of_module(path)
    digest = hashlib.sha256()
    for module in sorted(seen):
        path = _file_of(module)
        assert path is not None
        digest.update(module.encode() + b"\0" + path.read_bytes())
        for data in _data_files(path):
            digest.update(data.read_bytes())
    return digest.hexdigest()[:16]
