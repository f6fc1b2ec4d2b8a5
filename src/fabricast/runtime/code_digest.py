"""What a result depends on: digests of the package's source code."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fabricast.runtime.caches import cache_folder

__all__ = ["modules_below", "script_digest", "source_digest"]

_PACKAGE = Path(__file__).parents[1]
#: Strings that may be a module or a file.
_NAME = re.compile(r"[\w.-]{1,100}")
_Names = tuple[list[str], list[str]]


@cache
def _file_of(module: str) -> Path | None:
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a module's nodes but those for type checkers only; far quicker than `ast.walk` with a transformer."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in node._fields:
            # What is imported for type checkers changes no result.
            if name == "body" and isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
                continue
            value = getattr(node, name, None)
            if isinstance(value, list):
                waiting += [child for child in value if isinstance(child, ast.AST)]
            elif isinstance(value, ast.AST):
                waiting.append(value)


class _Source(NamedTuple):
    """What a file names: imported modules and whole strings that may be names; and the digest of its text."""

    imports: frozenset[str]
    strings: frozenset[str]
    digest: bytes


def _read_source(path: Path) -> _Source:
    text = path.read_bytes()
    digest = hashlib.sha256(text)
    names = _kept(digest.hexdigest()) or _keep(digest.hexdigest(), _names_in(text))
    return _Source(frozenset(names[0]), frozenset(names[1]), digest.digest())


def _names_in(text: bytes) -> _Names:
    imports, strings = set[str](), set[str]()
    for node in _nodes(ast.parse(text)):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports.add(node.module)
            imports |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
            strings.add(node.value)
    return sorted(imports), sorted(strings)


@cache
def _folder_of_names() -> Path | None:
    return cache_folder(f"names-{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]}")


def _kept(digest: str) -> _Names | None:
    """Return what a text names if it is known: parsing all sources takes a second at every start of a run."""
    if (folder := _folder_of_names()) is None:
        return None
    try:
        imports, strings = json.loads((folder / f"{digest}.json").read_bytes())
    except (OSError, ValueError, TypeError):
        return None
    return imports, strings


def _keep(digest: str, names: _Names) -> _Names:
    if (folder := _folder_of_names()) is not None:
        with suppress(OSError):
            part = folder / f".{digest}.{os.getpid()}.part"
            part.write_text(json.dumps(names))
            part.replace(folder / f"{digest}.json")
    return names


_source_of = cache(_read_source)


def _imports(source: _Source) -> frozenset[str]:
    """Modules of this package that a file imports, also inside functions and as ``python -m`` names in strings."""
    named = (name for name in source.imports | source.strings if name.startswith("fabricast.") and name.isprintable())
    return frozenset(name for name in named if _file_of(name))


@cache
def _imports_of(path: Path) -> frozenset[str]:
    return _imports(_source_of(path))


@cache
def _data_files(path: Path) -> tuple[Path, ...]:
    """Files beside a module that it names in a string: SQL, CUDA, templates, styles."""
    beside = (other for other in path.parent.iterdir() if other.suffix not in (".py", ".pyc") and other.is_file())
    return tuple(sorted(other for other in beside if other.name in _source_of(path).strings))


def modules_below(package: str) -> list[str]:
    """Return the full names of the modules of a package of this package.

    Parameters
    ----------
    package : str
        Such as ``"fabricast.pcie.kernels"``.

    Examples
    --------
    >>> "fabricast.pcie.models.kernels.models" in modules_below("fabricast.pcie.kernels")
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
    return source_digest(*_imports(_read_source(Path(script))))


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
            waiting += _imports_of(path)
    digest = hashlib.sha256()
    for module in sorted(seen):
        path = _file_of(module)
        assert path is not None
        digest.update(module.encode() + b"\0" + _source_of(path).digest)
        for data in _data_files(path):
            digest.update(data.read_bytes())
    return digest.hexdigest()[:16]
