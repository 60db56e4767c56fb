"""Codes of 16 codewords a codebook, many at once, by small tables: what may be near.

A table of 16 bytes fits a register, and one instruction looks up 32 codes in it, or 64
where registers are so wide. The bytes are the exact entries less the least of their
codebook, rounded down, so that their sum never says more than the distance: an item
that they say is too far is too far. What is left is added up exactly.
"""

from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from gradsnap.compiled import compiled_in_place

Array = NDArray[Any]

_HAS = llvmlite.binding.get_host_cpu_features()
HAS_SHUFFLE = bool(_HAS.get("avx2"))

SIDE_BY_SIDE = 64 if _HAS.get("avx512bw") else 32
"""Codes of a block: bytes of a register."""
BYTES = 8
"""Bytes of a code, each of two codebooks."""

STEPS = np.float32(240)
"""What the worst result that counts is made; sums from 255 on all are 255."""
ALL = 255
"""The limit that nothing exceeds."""
SLACK = np.float32(1 + 2**-18)
"""As in ``lists_compiled``: how far sums in another order can be apart."""
TINY = np.float32(1e-30)

LOOK_UP = {32: "llvm.x86.avx2.pshuf.b", 64: "llvm.x86.avx512.pshuf.b.512"}
"""The instruction for so many codes."""


@intrinsic
def _shuffled(typing: Any, blocks: Any, at: Any, small: Any, limit: Any) -> Any:
    """``near_plainly`` by AVX2 or AVX-512."""
    signature = types.uint64(blocks, types.int64, small, types.int64)
    return signature, _write_shuffles


def _write_shuffles(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Instructions for one block: look up both halves of each byte, and add."""
    bytes_ = ir.VectorType(ir.IntType(8), SIDE_BY_SIDE)
    of_two = ir.FunctionType(bytes_, [bytes_, bytes_])
    declare: Any = cgutils.get_or_insert_function
    look_up, add = (
        declare(builder.module, of_two, name)
        for name in (LOOK_UP[SIDE_BY_SIDE], f"llvm.uadd.sat.v{SIDE_BY_SIDE}i8")
    )
    codes, small = (
        context.make_array(signature.args[place])(context, builder, args[place]).data
        for place in (0, 2)
    )
    first = builder.mul(args[1], ir.Constant(ir.IntType(64), BYTES * SIDE_BY_SIDE))

    def load(pointer: Any, place: Any, kind: Any = bytes_) -> Any:
        at = builder.bitcast(builder.gep(pointer, [place]), kind.as_pointer())
        return builder.load(at, align=1)

    def load_spread(place: int) -> Any:
        short, number = ir.VectorType(ir.IntType(8), 16), ir.IntType(64)
        table = load(small, ir.Constant(number, place), short)
        places = ir.VectorType(ir.IntType(32), SIDE_BY_SIDE)
        again = ir.Constant(places, SIDE_BY_SIDE // 16 * list(range(16)))
        return builder.shuffle_vector(table, ir.Constant(short, None), again)

    def constant(value: int) -> Any:
        return ir.Constant(bytes_, SIDE_BY_SIDE * [value])

    total = constant(0)
    for byte in range(BYTES):
        place = ir.Constant(ir.IntType(64), SIDE_BY_SIDE * byte)
        word = load(codes, builder.add(first, place))
        halves = builder.and_(word, constant(15)), builder.lshr(word, constant(4))
        for half, values in enumerate(halves):
            entries = load_spread(16 * (2 * byte + half))
            total = builder.call(add, [total, builder.call(look_up, [entries, values])])
    limits = spread_byte(builder, builder.trunc(args[3], ir.IntType(8)), SIDE_BY_SIDE)
    below = builder.icmp_unsigned("<=", total, limits)
    mask = builder.bitcast(below, ir.IntType(SIDE_BY_SIDE))
    return mask if SIDE_BY_SIDE == 64 else builder.zext(mask, ir.IntType(64))


def spread_byte(builder: Any, value: Any, width: int) -> Any:
    """One byte in all places of a register of so many."""
    zeros = ir.Constant(ir.VectorType(ir.IntType(8), width), width * [0])
    number = ir.IntType(32)
    one = builder.insert_element(zeros, value, ir.Constant(number, 0))
    places = ir.Constant(ir.VectorType(number, width), width * [0])
    return builder.shuffle_vector(one, zeros, places)


@compiled_in_place
def near_plainly(blocks: Array, at: int, small: Array, limit: int) -> Any:
    """Which codes of a block have a sum of small entries up to the limit.

    Args:
        blocks: uint8 (b, BYTES, SIDE_BY_SIDE).
        at: the block.
        small: uint8 (2 · BYTES, 16).
        limit: 0 to 255; sums beyond 255 are 255.

    Returns:
        Code i by bit i, uint64.
    """
    mask = np.uint64(0)
    for i in range(SIDE_BY_SIDE):
        total = 0
        for byte in range(BYTES):
            word = blocks[at, byte, i]
            total += small[2 * byte, word & 15] + small[2 * byte + 1, word >> 4]
        if min(total, ALL) <= limit:
            mask |= np.uint64(1) << np.uint64(i)
    return mask


@compiled_in_place
def near_by_shuffles(blocks: Array, at: int, small: Array, limit: int) -> Any:
    """The same in a few instructions, where the processor has them."""
    return _shuffled(blocks, at, small, limit)  # type: ignore[call-arg]


near = near_by_shuffles if HAS_SHUFFLE else near_plainly
near_here = _shuffled if HAS_SHUFFLE else near_plainly
"""The same for a loop of a kernel, which it becomes part of: calls take a while."""


@intrinsic
def _alive_here(typing: Any, alive: Any, at: Any) -> Any:
    """Which of ``SIDE_BY_SIDE`` bytes from a place on are not 0."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        bytes_ = ir.VectorType(ir.IntType(8), SIDE_BY_SIDE)
        place = builder.bitcast(builder.gep(data, [args[1]]), bytes_.as_pointer())
        zeros = ir.Constant(bytes_, SIDE_BY_SIDE * [0])
        bits = builder.icmp_unsigned("!=", builder.load(place, align=1), zeros)
        mask = builder.bitcast(bits, ir.IntType(SIDE_BY_SIDE))
        return mask if SIDE_BY_SIDE == 64 else builder.zext(mask, ir.IntType(64))

    return types.uint64(alive, types.int64), write


@compiled_in_place
def living(alive: Array, first: int) -> Any:
    """Which of ``SIDE_BY_SIDE`` items from a place on count: item i by bit i.

    All do where ``alive`` is empty; none behind its end.
    """
    if alive.size == 0:
        return np.uint64(2**64 - 1)
    if first + SIDE_BY_SIDE <= alive.size:
        return _alive_here(alive, first)  # type: ignore[call-arg]
    mask = np.uint64(0)
    for i in range(alive.size - first):
        if alive[first + i]:
            mask |= np.uint64(1) << np.uint64(i)
    return mask


@intrinsic
def lowest_bit(typing: Any, mask: Any) -> Any:
    """The place of the lowest bit of a mask that is not 0."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), write


@compiled_in_place
def least(values: Array) -> Any:
    """The least of values (n,), float32, if none is negative; else a negative one.

    Compared as whole numbers, whose order is the same: wide registers do that, and
    leave the least of floats to one comparison after the other.
    """
    numbers = values.view(np.int32)
    low = numbers[0]
    for i in range(numbers.size):
        low = min(low, numbers[i])
    return np.int32(low).view(np.float32)


@compiled_in_place
def lows_of(table: Array, lows: Array) -> Any:
    """Fills the least entry (M,) of each codebook of a table (M, K); their sum."""
    total = np.float32(0)
    for m in range(table.shape[0]):
        lows[m] = least(table[m])
        total += lows[m]
    return total


@compiled_in_place
def shrink(table: Array, lows: Array, scale: Any, small: Array) -> None:
    """Fills small tables with entries times the scale, rounded down.

    Args:
        table: (M, K).
        lows: the least entry of each codebook, (M,).
        scale: steps in a unit of distance.
        small: uint8 (at least M, K); codebooks that are not there stay 0.
    """
    for m in range(table.shape[0]):
        for k in range(table.shape[1]):
            steps = min((table[m, k] - lows[m]) * scale, np.float32(ALL))
            small[m, k] = np.uint8(steps)


@compiled_in_place
def scale_of(worst: Any, low: Any) -> Any:
    """Steps in a unit of distance, so that the worst result is ``STEPS`` from the low.

    Sums in float err by less than the slack: what is added to the limit for it is less
    than the one step that ``limit_of`` gives. Never divides by 0, whatever a damaged
    index makes of its tables.
    """
    slack = low * (SLACK - np.float32(1)) + TINY
    return STEPS / max(worst * SLACK - low, slack, TINY)


@compiled_in_place
def limit_of(worst: Any, low: Any, scale: Any) -> int:
    """The most steps of an item that may be as near as the worst result."""
    return int(max((worst * SLACK - low) * scale, np.float32(0))) + 1
