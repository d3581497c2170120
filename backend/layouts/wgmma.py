"""Warpgroup matmuls (`gpu.wgmma`): instructions, layouts, and their distribution over warps.

PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: wgmma.mma_async": shapes, and the types
of operands and accumulators.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs

from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function
from tileir.layout import Layout
from tileir.op import Op
from tileir.ops.dot import Dot, Precision
from tileir.refusal import Refusal
from tileir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    I8,
    I32,
    Element,
    Tile,
    element_of,
    shape_of,
)

WARPS = 4
"""Warps of a warpgroup."""

ROWS, COLUMNS, DEPTH = 64, 8, 32
"""Rows of an instruction, the multiple of its columns, and its bytes along K."""

MOST_COLUMNS = 256
"""The maximum number of columns of an instruction (PTX ISA, "Asynchronous Warpgroup Level Matrix
Shape")."""

_REGISTERS = 128
"""The accumulators of a thread above which more warps are used, if the program does not state their
number."""

_NAMES = {F16: "f16", BF16: "bf16", F32: "tf32", F8E4M3: "e4m3", F8E5M2: "e5m2"}
_ACCUMULATORS = {F16: "f16", F32: "f32", I32: "s32"}
_ADDED: dict[Element, tuple[Element, ...]] = {
    F16: (F16, F32), BF16: (F32,), F32: (F32,), F8E4M3: (F16, F32), F8E5M2: (F16, F32), I8: (I32,),
}  # fmt: skip
"""The accumulator types of each operand type."""


@attrs.frozen
class WgmmaInstruction:
    """`wgmma.mma_async.sync.aligned.m64nNkK`: the names of the operand types, and the element type
    of the accumulator. `turned` operands have rows or columns contiguous in shared memory, not K.
    """

    n: int
    left: str
    right: str
    accumulator: Element
    turned: tuple[bool, bool] = (False, False)

    @property
    def bits(self) -> int:
        """Bits of an operand element in shared memory."""
        return {"f16": 16, "bf16": 16, "tf32": 32}.get(self.left, 8)

    @property
    def operand(self) -> Element:
        """The element of operand A."""
        return next((e for e, name in _NAMES.items() if name == self.left), I8)

    @property
    def k(self) -> int:
        """Steps of K of one instruction."""
        return DEPTH * 8 // self.bits

    @property
    def name(self) -> str:
        """The mnemonic in PTX."""
        shape = f"m{ROWS}n{self.n}k{self.k}"
        types = f"{_ACCUMULATORS[cast(Any, self.accumulator)]}.{self.left}.{self.right}"
        return f"wgmma.mma_async.sync.aligned.{shape}.{types}"

    @property
    def accumulator_count(self) -> int:
        """Accumulator elements of a thread."""
        return self.n // 2

    @property
    def tail(self) -> tuple[str, ...]:
        """The operands after scale-d: signs, which integers lack, and the transpositions of 16-bit
        operands."""
        signs = () if self.accumulator is I32 else ("1", "1")
        return (*signs, *(str(int(t)) for t in self.turned)) if self.bits == 16 else signs


def warpgroup(op: Any, num_warps: int, fast: tuple[int, int] = (1, 1)) -> WgmmaInstruction:
    """The instruction of `op`, a `gpu.wgmma` by `num_warps` warps. `fast`: the dimensions along
    which rows of the buffers of A and B run. Raises CompileError (TIR0706) where there is none."""
    a, b = element_of(op.a.type), element_of(op.b.type)
    left, right = (cast(Element, getattr(x, "pointee", x)) for x in (a, b))
    total = cast(Element, element_of(op.c.type))
    alike = left is right or {left, right} == {F8E4M3, F8E5M2}
    if total not in _ADDED.get(left, ()) or not alike:
        raise _unsupported_error(op, f"no wgmma of {left} and {right} in {total}")
    names = _name(left, op.lhs_signed), _name(right, op.rhs_signed)
    by_rows = op.trans_a != (fast[0] == 0)
    turned = (by_rows and not isinstance(op.a.type, Tile), op.trans_b == (fast[1] == 0))
    if left.bits != 16 and any(turned):
        raise _unsupported_error(op, f"{left} must be in shared memory with K contiguous")
    _, wide = warpgroup_grid(op, num_warps)
    part = shape_of(op.c.type)[1] // wide
    n = columns_of(part, left)
    if n is None:
        raise _unsupported_error(op, f"{part} columns of {left} are not a multiple of {COLUMNS}")
    return WgmmaInstruction(n, *names, total, turned)


def warpgroup_grid(op: Any, num_warps: int) -> tuple[int, int]:
    """The number of warpgroups along M and N: along M first, as far as there are rows. Raises
    CompileError (TIR0706)."""
    m, n = shape_of(op.results[0].type)
    if num_warps % 4:
        raise _unsupported_error(op, f"{num_warps} warps are no warpgroups of 4")
    if m % ROWS:
        raise _unsupported_error(op, f"{m} rows are not a multiple of {ROWS}")
    groups = num_warps // 4
    along = max(g for g in range(1, groups + 1) if groups % g == 0 and m // ROWS % g == 0)
    if n % (groups // along * COLUMNS):
        side = groups // along
        raise _unsupported_error(
            op, f"{n} columns are not a multiple of {COLUMNS} for each of {side} groups"
        )
    return along, groups // along


def accumulator_layout(op: Any, num_warps: int) -> Layout:
    """The layout of the accumulator of a `gpu.wgmma` or `gpu.wgmma_wait`."""
    from tileir.layout_fragments import wgmma_result

    along, wide = warpgroup_grid(op, num_warps)
    return wgmma_result(shape_of(op.results[0].type), (4 * along, wide))


def a_register_layout(op: Any, num_warps: int) -> Layout:
    """The layout of operand A of a `gpu.wgmma` from registers."""
    from tileir.layout_fragments import wgmma_operand

    along, wide = warpgroup_grid(op, num_warps)
    element = cast(Element, element_of(op.a.type))
    return wgmma_operand(element, shape_of(op.a.type), (4 * along, wide))


def wgmma_layouts_of(
    function: Function, num_warps: int
) -> tuple[Mapping[Any, Layout], Mapping[tuple[Op, int], Layout]]:
    """The accumulator layouts of the wgmma ops of `function`, by value, and their operand layouts,
    by op and operand number."""
    values: dict[Any, Layout] = {}
    operands: dict[tuple[Op, int], Layout] = {}
    for op in function.ops:
        if op.mnemonic == "gpu.wgmma":
            values[op.results[0]] = operands[op, 4] = accumulator_layout(op, num_warps)
            if isinstance(op.inputs[0].type, Tile):
                operands[op, 0] = a_register_layout(op, num_warps)
        elif op.mnemonic == "gpu.wgmma_wait":
            values[op.results[0]] = operands[op, 0] = accumulator_layout(op, num_warps)
    return values, operands


def columns_of(n: int, element: Element) -> int | None:
    """The number of columns of one instruction, for a warpgroup with `n` columns: the largest
    possible divisor of `n`; None if there is none."""
    count = -(-n // MOST_COLUMNS)
    while count * COLUMNS <= n:
        if n % count == 0 and _fits(n // count, element):
            return n // count
        count += 1
    return None


def _fits(n: int, element: Element) -> bool:
    is_multiple = n % 16 == 0 or n in (8, 24) if element is I8 else n % COLUMNS == 0
    return is_multiple and n <= MOST_COLUMNS


def _name(element: Any, signed: bool) -> str:
    return _NAMES[element] if element is not I8 else "s8" if signed else "u8"


def _unsupported_error(op: Op, why: str) -> CompileError:
    return CompileError(Diagnostic("TIR0706", f"{op.mnemonic}: {why}", op.location))


# Which dots it computes, and how shared memory holds their operands ---------------------------

HALVES = (F16, BF16)
"""Operand types that `wgmma` reads from shared memory in either major order (PTX ISA, "Asynchronous
Warpgroup Level Matrix Multiply-Accumulate": only 16-bit types can be transposed)."""

_SWIZZLES = ((3, 128), (2, 64), (1, 32))
_PATTERN = 8
"""Rows after which a swizzle repeats."""


def swizzle_of(rows: int, row: int) -> int:
    """The widest swizzle whose panels make up `rows` rows of `row` bytes; 0 where there is none,
    and for fewer rows than its pattern has."""
    if rows % _PATTERN:
        return 0
    return next((bits for bits, span in _SWIZZLES if row % span == 0), 0)


def why_not_elements(dot: Dot) -> Refusal | None:
    """The reason why warpgroups cannot multiply elements of A's type into those of C, whatever the
    shapes; None if they can."""
    a, c = (cast(Element, element_of(x.type)) for x in (dot.a, dot.c))
    if c not in _ADDED.get(a, ()) or (a is F32 and dot.precision is not Precision.TF32):
        return Refusal(f"no wgmma of {a} at precision {dot.precision.value} in {c}")
    return None


def why_not_wgmma(dot: Dot) -> Refusal | None:
    """The reason why `wgmma` cannot compute `dot`; None if it can."""
    (m, n), k = shape_of(dot.c.type)[-2:], shape_of(dot.a.type)[-1]
    a, b = (cast(Element, element_of(x.type)) for x in (dot.a, dot.b))
    if len(shape_of(dot.c.type)) != 2:
        return Refusal("it has batches")
    if (why := why_not_elements(dot)) is not None:
        return why
    if a.bits != b.bits or (a is I8 and b is not I8):
        return Refusal(f"no wgmma of {a} and {b}")
    step = 16 if a is I8 and n > 32 else COLUMNS
    if m % ROWS or n % step or k * a.bytes % DEPTH:
        return Refusal(f"no wgmma of {m}x{k} and {k}x{n} {a}")
    if not _added_steps(dot):
        return Refusal("wgmma accumulates 8-bit floats with less precision than requested")
    return None


def warpgroup_warps(function: Function, stated: int | None) -> int:
    """The number of warps that run `function` if warpgroups compute its dots; 0 if they compute
    none. If the program does not state it: as many as divide the rows of all dots, up to two
    warpgroups, and more for accumulators beyond `_REGISTERS`."""
    dots = [op for op in function.ops if isinstance(op, Dot) and why_not_wgmma(op) is None]
    if not dots:
        return 0
    if stated:
        return stated
    most = max(shape_of(dot.c.type)[0] * shape_of(dot.c.type)[1] for dot in dots)
    rows = min(shape_of(dot.c.type)[0] for dot in dots)
    groups = 2 if rows % (2 * ROWS) == 0 else 1
    while most > _REGISTERS * 32 * WARPS * groups and groups < 4:
        groups *= 2
    return WARPS * groups


def parts_along_k(dot: Dot) -> list[tuple[int, int]]:
    """The parts of K that `wgmma` accumulates separately, each with its first step and its number
    of steps: `wgmma` accumulates 8-bit floats with less precision than f32, and `dot` limits the
    steps."""
    k, each = shape_of(dot.a.type)[-1], _added_steps(dot)
    return [(first, each) for first in range(0, k, each)]


def _added_steps(dot: Dot) -> int:
    """The largest number of steps of K that `wgmma` may accumulate, a divisor of K; 0 if there is
    none."""
    k, element = shape_of(dot.a.type)[-1], cast(Element, element_of(dot.a.type))
    if element.bits != 8 or not element.is_float:
        return k
    most = min(dot.max_imprecise, k) // DEPTH * DEPTH
    return next((x for x in range(most, 0, -DEPTH) if k % x == 0), 0)
