"""Software prefetch (``llvm.prefetch``) as a numba intrinsic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_typing: Any, rows: Any, row: Any) -> tuple[Any, Callable[..., Any]]:
    """Prefetch the start of a row without blocking; out-of-range rows are harmless."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = context.cast(builder, arguments[1], signature.args[1], types.intp)
        stride = cgutils.unpack_tuple(builder, array.strides)[0]
        start = builder.bitcast(array.data, cgutils.voidptr_t)
        address = builder.gep(start, [builder.mul(place, stride)])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kind)
        # Arguments: read access, high temporal locality, data cache.
        builder.call(ask, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(rows, row), generate
