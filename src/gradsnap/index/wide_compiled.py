"""64 codes of 4, 8 or 16 bytes at once, by small tables: what may be near.

What ``shuffles_compiled`` does for 16 codewords a codebook, for 256, and for codes as
they are stored: AVX-512 turns 64 of them around in registers, and two instructions look
up 64 bytes in a table of 256. Processors that have AVX-512 without VBMI look up 32
words in a table of 128, in pairs of bytes, which takes three times as long.
"""

import functools
from collections.abc import Sequence
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from gradsnap.compiled import compiled_in_place
from gradsnap.index.shuffles_compiled import ALL, spread_byte

Array = NDArray[Any]

WIDE = 64
"""Codes that are looked up together."""
ENTRIES = 256
"""Of a table."""
BOOKS = (4, 8, 16)
"""Codebooks, a byte of a code each, for which there are such instructions."""
IDS = 16
"""Ids of four bytes that memory brings together."""

_HAS = llvmlite.binding.get_host_cpu_features()
HAS_WIDE = all(_HAS.get(name) for name in ("avx512f", "avx512bw"))
HAS_BYTES = HAS_WIDE and bool(_HAS.get("avx512vbmi"))
"""Whether bytes can be looked up, not words alone."""

_VECTOR = ir.VectorType(ir.IntType(8), WIDE)
_WORDS = ir.VectorType(ir.IntType(16), WIDE // 2)
_NUMBER = ir.IntType(64)


@intrinsic
def _near_4(typing: Any, codes: Any, at: Any, small: Any, limit: Any) -> Any:
    """``near_plainly`` by AVX-512, of 4 codebooks."""
    signature = types.uint64(codes, types.int64, small, types.int64)
    return signature, functools.partial(_write, 4)


@intrinsic
def _near_8(typing: Any, codes: Any, at: Any, small: Any, limit: Any) -> Any:
    """The same of 8."""
    signature = types.uint64(codes, types.int64, small, types.int64)
    return signature, functools.partial(_write, 8)


@intrinsic
def _near_16(typing: Any, codes: Any, at: Any, small: Any, limit: Any) -> Any:
    """The same of 16."""
    signature = types.uint64(codes, types.int64, small, types.int64)
    return signature, functools.partial(_write, 16)


def _write(books: int, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Instructions for 64 codes: turn them around, look up each byte, and add."""
    codes, small = (
        context.make_array(signature.args[place])(context, builder, args[place]).data
        for place in (0, 2)
    )
    codes = builder.bitcast(codes, ir.IntType(8).as_pointer())
    first = builder.gep(codes, [builder.mul(args[1], ir.Constant(_NUMBER, books))])
    rows = [_load(builder, first, WIDE * row) for row in range(books)]
    total = (_sums if HAS_BYTES else _sums_of_words)(builder, small, rows)
    limits = spread_byte(builder, builder.trunc(args[3], ir.IntType(8)), WIDE)
    return builder.bitcast(builder.icmp_unsigned("<=", total, limits), _NUMBER)


def _sums(builder: Any, small: Any, rows: Sequence[Any]) -> Any:
    """Sums of the entries of 64 codes, a byte each; those beyond 255 are 255."""
    total = _all(0)
    for byte, codes in enumerate(_turned(builder, rows)):
        entries = _looked_up(builder, small, byte, codes)
        total = _call(builder, "llvm.uadd.sat.v64i8", [total, entries])
    return total


def _sums_of_words(builder: Any, small: Any, rows: Sequence[Any]) -> Any:
    """The same in words: half of the codes at a time."""
    halves = []
    for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
        total = _all(0, _WORDS)
        words = [builder.bitcast(row, _WORDS) for row in half]
        for place, codes in enumerate(_turned(builder, words)):
            for byte in (0, 1):
                entries = _looked_up_words(builder, small, 2 * place + byte, codes)
                total = builder.add(total, entries)
        most = _all(ALL, _WORDS)
        total = builder.select(builder.icmp_unsigned("<", total, most), total, most)
        halves.append(builder.trunc(total, ir.VectorType(ir.IntType(8), WIDE // 2)))
    places = ir.Constant(ir.VectorType(ir.IntType(32), WIDE), list(range(WIDE)))
    return builder.shuffle_vector(*halves, places)


def _turned(builder: Any, rows: Sequence[Any]) -> Sequence[Any]:
    """Byte j, or word j, of all codes, for each j, of as many registers with codes.

    Two registers with the same bytes of their codes become two with half of the bytes
    of twice as many codes; three times over for eight bytes. With words it is twice.
    """
    each = len(rows)
    groups = [list(rows)]  # by their bytes: registers, in the order of the codes
    while each > 1:
        each //= 2
        groups = [
            [
                builder.shuffle_vector(*pair, _picked(each, half, rows[0].type.count))
                for pair in zip(group[::2], group[1::2], strict=True)
            ]
            for group in groups
            for half in (0, 1)
        ]
    return [group[0] for group in groups]


def _picked(each: int, half: int, count: int) -> Any:
    """The first or second half of every ``2 * each`` of two registers of ``count``."""
    places = [
        2 * each * (place // each) + each * half + place % each
        for place in range(count)
    ]
    return ir.Constant(ir.VectorType(ir.IntType(32), count), places)


def _looked_up(builder: Any, small: Any, byte: int, codes: Any) -> Any:
    """Entries of 64 codes in a table of 256: of its lower or its upper half."""
    quarters = [
        _load(builder, small, ENTRIES * byte + WIDE * part) for part in range(4)
    ]
    lower, upper = (
        _call(builder, "llvm.x86.avx512.vpermi2var.qi.512", [one, codes, other])
        for one, other in (quarters[:2], quarters[2:])
    )
    return builder.select(builder.icmp_signed("<", codes, _all(0)), upper, lower)


def _looked_up_words(builder: Any, small: Any, byte: int, codes: Any) -> Any:
    """Entries of 32 codes, the lower or the upper bytes of words, as words.

    A word of the table is a pair of entries: bits 1 to 6 of a code choose two pairs of
    128, bit 7 one of them, and bit 0 an entry.
    """
    quarters = [
        builder.bitcast(_load(builder, small, ENTRIES * byte + WIDE * part), _WORDS)
        for part in range(4)
    ]
    own = builder.lshr(codes, _all(8, _WORDS)) if byte % 2 else codes
    place = builder.lshr(own, _all(1, _WORDS))
    lower, upper = (
        _call(builder, "llvm.x86.avx512.vpermi2var.hi.512", [one, place, other])
        for one, other in (quarters[:2], quarters[2:])
    )

    def has(bit: int) -> Any:
        return builder.icmp_unsigned(
            "!=", builder.and_(own, _all(bit, _WORDS)), _all(0, _WORDS)
        )

    pairs = builder.select(has(128), upper, lower)
    second = builder.lshr(pairs, _all(8, _WORDS))
    return builder.and_(builder.select(has(1), second, pairs), _all(ALL, _WORDS))


def _load(builder: Any, pointer: Any, place: int) -> Any:
    at = builder.gep(pointer, [ir.Constant(_NUMBER, place)])
    return builder.load(builder.bitcast(at, _VECTOR.as_pointer()), align=1)


def _call(builder: Any, name: str, args: Sequence[Any]) -> Any:
    declare: Any = cgutils.get_or_insert_function
    kind = ir.FunctionType(args[0].type, [args[0].type] * len(args))
    return builder.call(declare(builder.module, kind, name), args)


def _all(value: int, kind: Any = _VECTOR) -> Any:
    return ir.Constant(kind, kind.count * [value])


@intrinsic
def fetch(typing: Any, words: Any, at: Any) -> Any:
    """Asks for the memory at a place of words (n,), without waiting for it."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        declare: Any = cgutils.get_or_insert_function
        call = declare(builder.module, kind, "llvm.prefetch.p0")
        place = builder.bitcast(builder.gep(data, [args[1]]), byte)
        builder.call(call, [place, *(ir.Constant(flag, one) for one in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(words, types.int64), write


@compiled_in_place
def near_plainly(codes: Array, at: int, small: Array, limit: int) -> Any:
    """Which of 64 codes have a sum of small entries up to the limit.

    Args:
        codes: uint8 (n, M), M one of ``BOOKS``.
        at: the first of the codes.
        small: uint8 (at least M, ENTRIES).
        limit: 0 to 255; sums beyond 255 are 255.

    Returns:
        Code ``at + i`` by bit i, uint64.
    """
    mask = np.uint64(0)
    for i in range(WIDE):
        total = 0
        for m in range(codes.shape[1]):
            total += small[m, codes[at + i, m]]
        if min(total, ALL) <= limit:
            mask |= np.uint64(1) << np.uint64(i)
    return mask


@compiled_in_place
def near_wide(codes: Array, at: int, small: Array, limit: int) -> Any:
    """The same in a few instructions, where the processor has them."""
    if codes.shape[1] == BOOKS[0]:
        return _near_4(codes, at, small, limit)  # type: ignore[call-arg]
    if codes.shape[1] == BOOKS[1]:
        return _near_8(codes, at, small, limit)  # type: ignore[call-arg]
    return _near_16(codes, at, small, limit)  # type: ignore[call-arg]


near = near_wide if HAS_WIDE else near_plainly
near_4, near_8, near_16 = (
    (_near_4, _near_8, _near_16) if HAS_WIDE else 3 * (near_plainly,)
)
"""The same for a loop of a kernel, which it becomes part of: calls take a while."""
