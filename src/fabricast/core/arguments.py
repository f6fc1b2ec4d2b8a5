"""Types of the arguments of public functions: checked against their annotations, and converted to plain values."""

from __future__ import annotations

import inspect
import itertools
import os
import reprlib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache, wraps
from numbers import Real
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from fabricast.core.errors import InputError

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
#: Most elements of a sequence, so that an endless iterator ends with a message.
_MOST_ELEMENTS = 10_000_000


def with_checked_types(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function so that arguments of other types than its annotations raise `InputError`.

    Numbers may be numpy or decimal ones, but not truth values; integers may be floats without a fraction. Text, sets
    of numbers and dictionaries are no sequences; any other iterable is one. The function gets Python's numbers and
    lists: elements of sequences and values of mappings are checked and converted, too, except for pairs.

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
        bound = None
        with suppress(TypeError):
            bound = signature.bind(*args, **kwargs)
        if bound is None:
            # Missing and unknown arguments: the message of the call names the function.
            return function(*args, **kwargs)
        for name, value in bound.arguments.items():
            hint = annotations()[name]
            if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(_converted(name, one, hint) for one in value)
            elif signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = {key: _converted(key, one, hint) for key, one in value.items()}
            else:
                bound.arguments[name] = _converted(name, value, hint)
        return function(*bound.args, **bound.kwargs)

    return checked


def _converted(name: str, value: object, annotation: Any, verb: str = "is") -> Any:
    """Return a value of one of the types of an annotation as plain numbers and lists."""
    kinds = _alternatives(annotation)
    kind = next((one for one in kinds if _is_of(value, one)), None)
    if kind is None:
        raise InputError(f"{verb} {reprlib.repr(value)}, expected {_words(kinds)}", argument=name)
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin is float or origin is int:
        number: Any = _plain(value)
        return origin(number)
    if isinstance(value, str) and Path not in kinds and not value.isprintable() and _has_surrogates(value):
        raise InputError(f"{verb} {reprlib.repr(value)}, expected text of Unicode characters", argument=name)
    if origin is Mapping and isinstance(value, Mapping) and inner:
        return {
            _converted(name, key, inner[0], "contains"): _converted(name, one, inner[1], "contains")
            for key, one in value.items()
        }
    if origin in _CONTAINERS and isinstance(value, Iterable) and inner:
        elements = _listed(name, value)
        is_of_pairs = get_origin(inner[0]) is tuple
        return elements if is_of_pairs else [_converted(name, one, inner[0], "contains") for one in elements]
    return value


def _listed(name: str, values: Iterable[object]) -> list[object]:
    """Return the elements of an iterable; too many of them, as of an endless one, are an error."""
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    elements = list(itertools.islice(values, _MOST_ELEMENTS + 1))
    if len(elements) > _MOST_ELEMENTS:
        raise InputError(f"has more than {_MOST_ELEMENTS:,} elements, expected a shorter sequence", argument=name)
    return elements


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
        return _is_sequence(value, kind)
    return isinstance(value, origin)


def _is_sequence(value: object, kind: Any) -> bool:
    """Return whether a value is a sequence: an iterable with an order, an array of one dimension, or one of pairs."""
    if isinstance(value, np.ndarray):
        of_pairs = [one for one in get_args(kind) if get_origin(one) is tuple]
        is_flat = value.ndim == 1 and (not of_pairs or value.dtype == object)
        return (is_flat or value.ndim == 1 + len(of_pairs)) and not np.ma.is_masked(value)
    # A data frame iterates over the names of its columns; the order of a set of pairs does not matter.
    is_other = isinstance(value, str | bytes | Path | dict) or hasattr(value, "columns")
    if isinstance(value, set | frozenset):
        return any(get_origin(one) is tuple for one in get_args(kind))
    return isinstance(value, Iterable) and not is_other


def _plain(value: object) -> object:
    """Return an array without dimensions or a number of numpy as Python's; other values as they are."""
    if np.ma.is_masked(value):
        return value
    return (
        value.item() if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim) else value
    )


def _as_float(value: object) -> float | None:
    """Return a real number as float; None for other values and for numbers beyond the range of floats."""
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    try:
        return float(value)
    except (OverflowError, ValueError):
        return None


def _has_surrogates(text: str) -> bool:
    """Return whether a text has halves of characters, as names of files of another encoding have."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def _words(kinds: Iterable[Any]) -> str:
    """Return the expected types in words."""
    origins = [get_origin(kind) or kind for kind in kinds]
    words = [
        "text" if origin is Literal else _WORDS.get(origin, f"a {getattr(origin, '__name__', origin)}")
        for origin in origins
    ]
    return " or ".join(dict.fromkeys(word for word in words if word != "None"))
