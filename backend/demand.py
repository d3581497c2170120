"""Estimates of the registers that the tiles of one operation take, before layouts are assigned.
Above a limit, code generation takes minutes and the code spills, so tiles that take too many
registers are strip-mined. This module also chooses the warps of a block if the program does not
state them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, cast

from tileir import limits
from tileir.analysis.uses import uses
from tileir.backend.target import MAX_WARPS, REGISTERS_PER_PROCESSOR, Target
from tileir.errors import CompileError, Diagnostic, InfeasibleError
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.ops.shape import GetElementPtr
from tileir.passmanager.registry import remark
from tileir.types import (
    F8E4M3,
    F8E5M2,
    Buffer,
    Descriptor,
    Pointer,
    Tile,
    Type,
    element_of,
    shape_of,
)
from tileir.values import Value

if TYPE_CHECKING:
    from tileir.ops.dot import Dot

_COMFORTABLE = 75
"""Percent of the registers that the tiles of a dot may take without many spills: operands need
temporary registers besides those of their elements."""

_LEAST = 16
"""The least extent of a tile that an error suggests."""


def check_dots(module: Module, machine: Target, num_warps: int | None) -> None:
    """Raise `InfeasibleError` (TIR0708) at a dot of `module` whose result alone takes more
    registers than all threads of a multiprocessor of `machine` have, scaled by the limit
    `register_percent`. The result of a dot is always in registers, wherever its operands are."""
    most = machine.registers_per_processor * limits.current().register_percent // 100
    for function in module.functions.values():
        for op in function.ops:
            if op.mnemonic == "dot" and registers(op.results[0].type) > most:
                warps = num_warps or stated_warps(function) or machine.max_warps // 2
                message = (
                    f"dot makes {registers(op.results[0].type)} words, and a processor has "
                    f"{machine.registers_per_processor} registers, of which {_limit()} allows "
                    f"{most}: {largest_dot(cast('Dot', op), warps, machine)}, or raise the limit"
                )
                raise InfeasibleError(Diagnostic("TIR0708", message, op.location))


def check_registers(function: Function, num_warps: int, machine: Target) -> None:
    """Raise `InfeasibleError` (TIR0708) at an operation of `function` whose tiles take more
    registers per thread than the limit `register_percent` allows."""
    threads = num_warps * machine.lanes
    available = machine.available_registers(threads)
    most = available * limits.current().register_percent // 100
    needed, op, offsets = 0, None, None
    for candidate in function.ops:
        registers = math.ceil(demand(candidate) / threads)
        if registers <= most or registers < needed:
            continue
        offsets = offset_tiles(function) if offsets is None else offsets  # few functions need it
        if not all(v in offsets for v in candidate.results):
            needed, op = registers, candidate  # ops before it are computed for it
    if op is not None:
        message = (
            f"{op.mnemonic} takes about {needed} registers of each thread, and a thread of "
            f"{num_warps} warps has {available}, of which {_limit()} allows {most}: "
            f"{_remedy(op, threads, min(available, most), num_warps, machine)}, or raise the limit"
        )
        raise InfeasibleError(Diagnostic("TIR0708", message, op.location))


def _limit() -> str:
    return f"the limit register_percent of {limits.current().register_percent} %"


def offset_tiles(function: Function) -> set[Value]:
    """The integer tiles that are used only for addresses. They are computed where they are used."""
    offsets: set[Value] = set()
    users = uses(function)

    def makes_addresses(user: Op) -> bool:
        return isinstance(user, GetElementPtr) or (
            bool(user.results) and all(v in offsets for v in user.results)
        )

    for op in reversed(list(function.ops)):
        for v in op.results:
            if users.get(v) and isinstance(v.type, Tile) and all(map(makes_addresses, users[v])):
                offsets.add(v)
    return offsets


def demand(op: Op) -> int:
    """The 32-bit registers, over all threads, that the operands and results of `op` take: all tiles
    of a dot, otherwise the largest tile. Addresses are not counted, since they are computed where
    they are used."""
    if op.mnemonic == "dot":
        dot = cast("Dot", op)
        m, k = shape_of(dot.a.type)[-2:]
        return _of_dot(dot, m, shape_of(dot.b.type)[-1], k) * math.prod(shape_of(dot.a.type)[:-2])
    return max((registers(v.type) for v in op.results), default=0)


def registers(type: Type) -> int:
    """The registers that a value of `type` takes, over all threads, with small elements packed."""
    if not isinstance(type, Tile) or isinstance(type.element, Pointer):
        return 0
    return -(-type.size * type.element.bits // 32)


def _of_dot(op: Dot, m: int, n: int, k: int) -> int:
    """The registers that a dot with these extents and the element types of `op` takes, over all
    threads."""
    operand, result = _operand_bits(op), _bits(op.results[0].type)
    return (m * k * operand + k * n * operand + m * n * result) // 32


def _operand_bits(op: Dot) -> int:
    """The bits of an element of A and B as it is multiplied: an f8 is converted to f16."""
    element = getattr(op.a.type, "element", None)
    return 16 if element in (F8E4M3, F8E5M2) else _bits(op.a.type)


def _bits(type: Any) -> int:
    return type.element.bits


def _remedy(op: Op, threads: int, available: int, num_warps: int, machine: Target) -> str:
    if op.mnemonic == "dot":
        return largest_dot(cast("Dot", op), num_warps, machine)
    size = 1 << (max(1, threads * available // 2).bit_length() - 1)
    bits = max(_bits(v.type) for v in op.results if isinstance(v.type, Tile))
    more = "" if num_warps >= machine.max_warps // 2 else ", or more warps"
    return f"use tiles of {max(1, size * 32 // bits)} elements{more}"


def largest_dot(op: Dot, num_warps: int, machine: Target) -> str:
    """The remedy for a dot that is too large, as text: the largest tile that fits, which is
    computed by halving extents."""
    m, k = shape_of(op.a.type)[-2:]
    n = shape_of(op.b.type)[-1]
    threads = num_warps * machine.lanes
    available = machine.available_registers(threads)
    percent = min(_COMFORTABLE, limits.current().register_percent)
    fitting = [
        (x * y, z, x, y) for x, y, z in product(_halves(m), _halves(n), _halves(k))
        if _of_dot(op, x, y, z) * 100 <= threads * available * percent
        and (x + y) * z * _bits(op.a.type) // 8 <= machine.shared_bytes // 2
    ]  # fmt: skip
    if not fitting:
        return "use smaller tiles"
    _, z, x, y = max(fitting)
    return f"the largest tile that fits is {x}x{y} with {z} of K: loop over more"


def _halves(extent: int) -> Iterator[int]:
    yield extent
    while extent % 2 == 0 and extent > _LEAST:
        extent //= 2
        yield extent


# Which tiles are strip-mined -------------------------------------------------------------------

_WARPS = 16


@lru_cache(1024)
def words(type: Type) -> int:
    """The 32-bit registers that a value of `type` takes, over all threads. An address counts as
    one, since most addresses are a common base and an offset. Buffers and descriptors take none."""
    if isinstance(type, (Buffer, Descriptor)):
        return 0
    element = element_of(type)
    size = 1 if isinstance(element, Pointer) else max(1, cast(Any, element).bits // 32)
    return size * (type.size if isinstance(type, Tile) else 1)


def warps_of(function: Function, warps: int) -> tuple[int, bool]:
    """The number of warps of a block: `warps` if it is not 0, else the function's `num_warps`, else
    16; and whether it is one of the first two."""
    stated = warps or stated_warps(function)
    return stated or _WARPS, bool(stated)


def registers_of(threads: int) -> int:
    """The 32-bit registers of a thread in a block of `threads` threads, at most 128: a larger
    number makes no kernel faster."""
    return min(128, REGISTERS_PER_PROCESSOR // threads)


def max_tile_words(threads: int, limit: int = 0) -> int:
    """The maximum words of a tile, over all threads, that is not strip-mined: `limit` per thread,
    or half of the registers of a thread if `limit` is 0."""
    return threads * (limit or registers_of(threads) // 2)


def is_large(op: Op, limit: int) -> bool:
    """Whether an operand of `op` takes more than `limit` words, over all threads."""
    return any(words(v.type) > limit for v in op.inputs)


# Warps of a block ------------------------------------------------------------------------------

_ELEMENTS_PER_THREAD = 16
"""The registers of a thread per tile above which a block has more than 4 warps."""


def stated_warps(function: Function) -> int:
    """The function's attribute `num_warps`; 0 if it has none."""
    stated = function.attributes.get("num_warps")
    return stated if isinstance(stated, int) and not isinstance(stated, bool) else 0


def check_warps(function: Function, num_warps: int, most: int = MAX_WARPS) -> None:
    """Raise CompileError (TIR0708) if a block cannot have this many warps."""
    if not 1 <= num_warps <= most:
        message = f"num_warps must be in 1 to {most}, not {num_warps}"
        raise CompileError(Diagnostic("TIR0708", message, function.location))


def choose_warps(function: Function, target: Target) -> int:
    """The function's `num_warps` attribute; else the smallest power of two, at most 16, with which
    a thread has at most 16 elements of the largest tile, or at most 4 in a block of fewer than 4
    warps."""
    if stated := stated_warps(function):
        return stated
    sizes = [v.type.size for op in function.ops for v in op.results if isinstance(v.type, Tile)]
    largest = max(sizes, default=1)
    warps = 1
    while warps < 16 and largest > warps * target.lanes * (
        4 if warps < 4 else _ELEMENTS_PER_THREAD
    ):
        warps *= 2
    return warps


def chosen_warps(function: Function, num_warps: int, stated: int | None) -> Iterator[Diagnostic]:
    """Yield a remark (TIR0757) with the number of warps of a block and the reason for it."""
    if stated:
        reason = "as the options say"
    elif "num_warps" in function.attributes:
        reason = "as the kernel says"
    else:
        reason = "chosen from its largest tile"
    words = f"{num_warps} warp{'s' * (num_warps != 1)} per block"
    yield remark("TIR0757", f"{words}, {reason}", function.location)
