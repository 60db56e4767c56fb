"""Sums within a limit, appended to a list, compiled: see ``folds_compiled``.

AVX-512 adds, compares and packs as many numbers together as a register holds; elsewhere
one is written after the other, and what is beyond the limit is overwritten by the next.
"""

from collections.abc import Sequence
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from gradsnap.compiled import compiled_in_place

Array = NDArray[Any]
Sums = tuple[Array, Array]
"""Sums, and the places of their last terms, (room,) each."""

BLOCK = 16
"""So many sums, at most, are written at once, of which some may be in vain."""

_HAS = llvmlite.binding.get_host_cpu_features()
HAS_WIDE = all(_HAS.get(name) for name in ("avx512f", "avx512vl"))

_NUMBER, _PLACE = ir.IntType(64), ir.IntType(32)


@intrinsic
def _append_some(
    typing: Any, first: Any, values: Any, span: Any, limit: Any, sums: Any, at: Any
) -> Any:
    """One register of ``append``: values from span[0] on, below span[1]."""
    number = values.dtype
    return types.int64(number, values, span, number, sums, types.int64), _write


@intrinsic
def _lanes(typing: Any, values: Any) -> Any:
    """How many of the values a register holds."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(_NUMBER, _lanes_of(signature.args[0]))

    return types.int64(values), write


def _lanes_of(array: Any) -> int:
    return int(512 // array.dtype.bitwidth)


def _write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Instructions for one register: load, add, compare, pack, store."""
    first, values, span, limit, sums, at = args
    lanes, kinds = _lanes_of(signature.args[1]), signature.args[4].types
    start, count = (
        builder.trunc(builder.extract_value(span, i), _PLACE) for i in range(2)
    )
    counting = ir.Constant(ir.VectorType(_PLACE, lanes), list(range(lanes)))
    places = builder.add(_spread(builder, start, lanes), counting)
    there = builder.icmp_unsigned("<", places, _spread(builder, count, lanes))
    data = context.make_array(signature.args[1])(context, builder, values).data
    loaded = _load(builder, builder.gep(data, [start]), there, lanes)
    total = builder.fadd(_spread(builder, first, lanes), loaded)
    near = builder.fcmp_ordered("<=", total, _spread(builder, limit, lanes))
    near = builder.and_(near, there)
    for i, vector in enumerate((total, places)):
        room = builder.extract_value(sums, i)
        data = context.make_array(kinds[i])(context, builder, room).data
        _store(builder, _packed(builder, vector, near), builder.gep(data, [at]))
    bits = builder.bitcast(near, ir.IntType(lanes))
    return builder.add(at, builder.zext(builder.ctpop(bits), _NUMBER))


def _spread(builder: Any, value: Any, lanes: int) -> Any:
    """A register that holds the value in all lanes."""
    kind = ir.VectorType(value.type, lanes)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, _PLACE(0))
    everywhere = ir.Constant(ir.VectorType(_PLACE, lanes), lanes * [0])
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), everywhere)


def _load(builder: Any, pointer: Any, there: Any, lanes: int) -> Any:
    """The values at the pointer that are there; nothing behind them is read."""
    kind = ir.VectorType(pointer.type.pointee, lanes)
    pointer = builder.bitcast(pointer, kind.as_pointer())
    name = f"llvm.masked.load.{_name(kind)}.p0"
    args = [pointer, _PLACE(4), there, ir.Constant(kind, None)]
    return _call(builder, name, kind, args)


def _store(builder: Any, vector: Any, pointer: Any) -> None:
    pointer = builder.bitcast(pointer, vector.type.as_pointer())
    builder.store(vector, pointer, align=4)


def _packed(builder: Any, vector: Any, near: Any) -> Any:
    """What is near of the vector, moved to its front."""
    name = f"llvm.x86.avx512.mask.compress.{_name(vector.type)}"
    args = [vector, ir.Constant(vector.type, None), near]
    return _call(builder, name, vector.type, args)


def _name(kind: Any) -> str:
    """Of a vector, within the names of LLVM's functions."""
    names = {_PLACE: "i32", ir.FloatType(): "f32", ir.DoubleType(): "f64"}
    return f"v{kind.count}{names[kind.element]}"


def _call(builder: Any, name: str, result: Any, args: Sequence[Any]) -> Any:
    declare: Any = cgutils.get_or_insert_function
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(declare(builder.module, kind, name), args)


@intrinsic
def _mark_some(typing: Any, places: Any, at: Any, place: Any) -> Any:
    """Writes the place ``BLOCK`` times, from ``at`` on."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        _store(builder, _spread(builder, args[2], BLOCK), builder.gep(data, [args[1]]))
        return context.get_dummy_value()

    return types.void(places, types.int64, types.uint32), write


@compiled_in_place
def mark(places: Array, start: int, end: int, place: int) -> None:
    """Fills places (room,) from start to end with one, and ``BLOCK`` more at most."""
    _mark_some(places, start, place)  # type: ignore[call-arg]
    for at in range(start + BLOCK, end, BLOCK):
        _mark_some(places, at, place)


@compiled_in_place
def append_plainly(
    first: Any, values: Array, count: int, limit: Any, sums: Sums, at: int
) -> int:
    """Appends the sums of one number and each of the values, within the limit.

    Args:
        first: the one number.
        values: (count,) or longer.
        count: how many.
        limit: on the sums.
        sums: filled from ``at`` on.
        at: how many sums there are already.

    Returns:
        How many there are then; -1 if there is no room for them and ``BLOCK`` more.
    """
    total, places = sums
    for j in range(count):
        if at + BLOCK > total.shape[0]:
            return -1
        total[at] = first + values[j]
        places[at] = j
        at += total[at] <= limit
    return at


@compiled_in_place
def append_wide(
    first: Any, values: Array, count: int, limit: Any, sums: Sums, at: int
) -> int:
    """The same, a register at a time, where the processor can."""
    for start in range(0, count, _lanes(values)):  # type: ignore[call-arg]
        if at + BLOCK > sums[0].shape[0]:
            return -1
        at = _append_some(first, values, (start, count), limit, sums, at)
    return at


append = append_wide if HAS_WIDE else append_plainly
