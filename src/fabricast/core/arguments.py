"""Types of the arguments of public functions, checked against their annotations."""

from __future__ import annotations

import inspect
import os
import reprlib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache, wraps
from numbers import Real
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from fabricast.core.errors import InputError

__all__ = ["with_checked_types"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_WORDS: dict[Any, str] = {
    str: "text",
    Path: "a path",
    float: "a number",
    int: "an integer",
    bool: "True or False",
    type(None): "None",
    Mapping: "a mapping",
    Sequence: "a sequence",
    Iterable: "a sequence",
    Callable: "a function",
}
_CONTAINERS = (Sequence, Iterable)


def with_checked_types(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function so that arguments of other types than its annotations raise `InputError`.

    Numbers may be numpy or decimal ones, but not truth values; integers may be floats without a fraction. Text is no
    sequence of other values; any other iterable is one. Elements of lists, tuples and arrays and values of mappings are
    checked, too, except for pairs.

    >>> @with_checked_types
    ... def half(size: float) -> float:
    ...     return size / 2
    >>> half(3)
    1.5
    >>> half("a")
    Traceback (most recent call last):
    ...
    fabricast.core.errors.InputError: size is 'a', expected a number
    """
    signature = inspect.signature(function)

    @cache
    def annotations() -> dict[str, Any]:
        return get_type_hints(function)

    @wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            # Missing and unknown arguments: the message of the call names the function.
            return function(*args, **kwargs)
        for name, value in bound.arguments.items():
            is_named = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            for argument, one in value.items() if is_named else ((name, value),):
                _check(argument, one, annotations()[name])
        return function(*args, **kwargs)

    return checked


def _check(name: str, value: object, annotation: Any) -> None:
    kinds = _alternatives(annotation)
    if not any(_is_of(value, kind) for kind in kinds):
        raise InputError(f"is {reprlib.repr(value)}, expected {_words(kinds)}", argument=name)
    for element, of_elements in _elements(value, kinds):
        inner = _alternatives(of_elements)
        if not any(_is_of(element, kind) for kind in inner):
            raise InputError(f"contains {reprlib.repr(element)}, expected {_words(inner)}", argument=name)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the types of a union."""
    is_union = get_origin(annotation) in (Union, types.UnionType)
    return get_args(annotation) if is_union else (annotation,)


def _is_of(value: object, kind: Any) -> bool:
    """Return whether a value has a type."""
    origin = get_origin(kind) or kind
    if origin in (Any, object):
        return True
    if origin is Literal:
        return isinstance(value, str)
    if origin in (float, int):
        number = _as_float(value)
        return number is not None and (origin is float or number.is_integer())
    if origin is bool:
        return isinstance(value, bool | np.bool_)
    if origin is Path:
        return isinstance(value, os.PathLike)
    if origin in _CONTAINERS:
        is_scalar = isinstance(value, np.ndarray) and value.ndim == 0
        return isinstance(value, Iterable) and not isinstance(value, str | bytes | Path) and not is_scalar
    return isinstance(value, origin)


def _as_float(value: object) -> float | None:
    """Return a real number as float; None for other values and for numbers beyond the range of floats."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real | Decimal):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _elements(value: object, kinds: Iterable[Any]) -> Iterable[tuple[object, Any]]:
    """Yield the elements of a list, tuple, array or mapping with their annotation, except for pairs."""
    for kind in kinds:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Mapping and isinstance(value, Mapping):
            yield from ((one, arguments[0]) for one in value)
            yield from ((one, arguments[1]) for one in value.values())
        elif origin in _CONTAINERS and get_origin(arguments[0]) is not tuple:
            # Arrays of numbers need no check of each element.
            if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind not in "fiu":
                yield from ((one, arguments[0]) for one in value.tolist())
            elif isinstance(value, list | tuple):
                yield from ((one, arguments[0]) for one in value)


def _words(kinds: Iterable[Any]) -> str:
    """Return the expected types in words."""
    origins = [get_origin(kind) or kind for kind in kinds]
    words = [
        "text" if origin is Literal else _WORDS.get(origin, f"a {getattr(origin, '__name__', origin)}")
        for origin in origins
    ]
    return " or ".join(dict.fromkeys(word for word in words if word != "None"))
