"""Population count and trailing-zero count of bit sets as numba intrinsics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from fabricast.runtime.compilation import allocation_free

_Instruction = tuple[Any, Callable[..., Any]]


@intrinsic  # type: ignore[untyped-decorator]
def bits(_typing: Any, mask: Any) -> _Instruction:
    """Return the number of members of a set."""

    def generate(_context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def lowest(_typing: Any, mask: Any) -> _Instruction:
    """Return the lowest member of a non-empty set."""

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.int64(types.int64), generate


@allocation_free(inline="always", from_python=True)
def without_lowest(mask):
    """Return the set without its lowest member."""
    return mask & (mask - 1)
