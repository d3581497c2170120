"""Lowering of a function whose tiles have layouts to the code of one thread.

A tile is a list of handles, one per register of its layout. A scalar is a list with one handle,
whose value is the same in every thread. Each op is lowered by its rule
(`tileir.backend.codegen.rules`). Control flow keeps its blocks, and block parameters become phis,
one per register.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from tileir.analysis.cfg import cfg
from tileir.analysis.uses import definitions
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.target import Target
from tileir.errors import CompileError, Diagnostic
from tileir.field import Successor
from tileir.ir import Block, Function, Module
from tileir.layout import Layout, Vector
from tileir.op import Op
from tileir.types import I1, I32, Element, Tile, Type, element_of
from tileir.values import Constant, Operand, Undef, Value

if TYPE_CHECKING:
    from tileir.backend.codegen.block_interface import BlockWriter
    from tileir.backend.codegen.guarded_arms import GuardedSelections
    from tileir.backend.codegen.thread_interface import Handle, Thread

Fragment: TypeAlias = "list[Handle]"
"""The handles of one thread for a value: one per register."""

REMATERIALIZED_BLOCKS = "recomputing"
"""The attribute of a function that names the blocks in which positions are rematerialized."""

Axes: TypeAlias = tuple[str, ...]
THREADS: Axes = ("lane", "warp")
"""The components of a thread's index."""

Rule: TypeAlias = "Callable[[Lowering, Any], list[Fragment]]"


@cache
def third_party_rules() -> Mapping[str, Rule]:
    """Rules of other distributions by mnemonic: the mappings that they register under the entry
    point group `tileir.rules`. They can add rules for new ops, but not replace rules."""
    from importlib.metadata import entry_points  # a slow import, needed only for ops without a rule

    rules: dict[str, Rule] = {}
    for point in entry_points(group="tileir.rules"):
        rules.update(point.load())
    return rules


class Lowering:
    """The state of lowering one function, and the queries that rules may make."""

    guards_arms: ClassVar[bool] = True
    """Whether arms of selections are lowered inside branches (`guarded_arms`)."""

    def __init__(
        self, module: Module, function: Function, target: Target, thread: BlockWriter,
        contiguity: AccessWidths, scratch: Mapping[Op, int], rules: Mapping[str, Rule],
        num_warps: int = 1, alone: bool = False, leaving: str | None = None,
    ) -> None:  # fmt: skip
        self.module, self.function, self.target = module, function, target
        self.thread, self.contiguity, self.rules = thread, contiguity, rules
        self.scratch = scratch
        """Byte offset of the shared memory that an op uses for itself."""
        self.num_warps, self.alone = num_warps, alone
        """`alone`: whether one thread runs the function."""
        self.leaving = leaving
        """The label where `ret` goes; None where it returns."""
        self.part: slice | None = None
        """The registers of tiles for which elementwise ops are lowered; None for all."""
        self.bound: dict[Value, Op] = {}
        """The caller's definitions of the parameters."""
        self.values: dict[Value, Fragment] = {}
        self._labels: dict[str, str] = {}
        self._edges: dict[str, list[tuple[str, list[Handle]]]] = {}

    @cached_property
    def _guards(self) -> GuardedSelections | None:
        """The selections whose arms are lowered inside branches; None if there are none."""
        names = {op.mnemonic for op in self.function.ops} if self.guards_arms else ()
        if "select" not in names or "fcmp" not in names:
            return None
        from tileir.backend.codegen.guarded_arms import guarded_selections

        return guarded_selections(self.function)

    # Queries of rules -------------------------------------------------------------------------

    def fragment(self, operand: Operand) -> Fragment:
        """The handles of `operand`. The handle of `undef` is zero."""
        if type(operand) is Value:
            return self.values[operand]
        bits = operand.bits if isinstance(operand, Constant) else 0
        assert isinstance(operand, (Constant, Undef))
        text, count = self.thread.constant(scalar_of(operand.type), bits), registers(operand.type)
        return [text] * count if self.part is None else [text] * len(range(count)[self.part])

    def scalar(self, operand: Operand) -> str:
        """The single handle of a scalar."""
        (only,) = self.fragment(operand)
        return only

    def offset(self, layout: Layout, dim: int, axes: Axes = THREADS) -> str | None:
        """The part of the coordinate along `dim` that depends on the thread, or only on the axes
        `axes` of it; None for zero."""
        return _thread_offset(self.thread, layout, dim, axes)

    def coordinate(self, layout: Layout, register: int, dim: int) -> str:
        """The coordinate of a register along `dim`, an i32."""
        fixed, moving = layout.registers[register][dim], self.offset(layout, dim)
        if moving is None:
            return self.thread.integer(fixed)
        if contributions_overlap(layout, dim):
            return _swizzled_coordinate(self.thread, layout, register, dim)
        if not fixed:
            return moving
        key = ("coordinate", moving, fixed)
        return self.thread.once(
            key,
            lambda: self.thread.binary("add", I32, moving, self.thread.integer(fixed), "nsw nuw"),
        )

    def inside(self, layout: Layout, shape: Vector, register: int) -> str | None:
        """Whether a register contains an element of a tile of `shape`, and not padding: an i1; None
        if always, `false` if never."""
        condition: str | None = None
        for dim, (extent, size) in enumerate(zip(layout.extents, shape, strict=True)):
            if extent <= size:
                continue
            fixed = layout.registers[register][dim]
            if not contributions_overlap(layout, dim):
                if fixed >= size:
                    return "false"
                if fixed + thread_span(layout, dim) < size:
                    continue
            at = self.coordinate(layout, register, dim)
            here = self.thread.compare("ult", I32, at, self.thread.integer(size))
            condition = self.conjunction(condition, here)
        return condition

    def conjunction(self, a: str | None, b: str | None) -> str | None:
        """The conjunction of two i1; None stands for true."""
        if a is None or b is None:
            return a if b is None else b
        return self.thread.binary("and", I1, a, b)

    def first_owner(self, layout: Layout | None) -> str | None:
        """Whether this thread is the first owner of its elements: an i1, None where no element is
        replicated. Every thread owns a scalar."""
        return _compute_first_owner(self, layout)

    def is_elected(self) -> str | None:
        """Whether this thread is the one that executes ops for the whole block or role: an i1,
        None where there is one thread."""
        return None if self.alone else _compute_first_owner(self, None)

    def origin(self, operand: Operand) -> Op | None:
        """The op that defines `operand`, in this function or in the kernel that started this role;
        None if there is none."""
        if type(operand) is not Value:
            return None
        return definitions(self.function).get(operand) or self.bound.get(operand)

    def refuse(self, op: Op, why: str) -> CompileError:
        """The error (TIR0706) that states that `op` cannot be lowered, for the reason `why`."""
        message = f"{op.mnemonic}: {why}"
        return CompileError(Diagnostic("TIR0706", message, op.location))

    # The walk -----------------------------------------------------------------------------------

    def body(self) -> None:
        """Lower every block of the function in reverse post-order."""
        blocks = _blocks_in_order(self.function)
        for index, block in enumerate(blocks):
            self._labels[block.label] = f"{self.thread.labels}bb{index}"
        if not any(block.parameters for block in blocks):
            for block in blocks:
                self._block(block)
            return
        joined = self.thread.block_parameters()
        for block in blocks:
            for parameter in block.parameters:
                kind, count = scalar_of(parameter.type), registers(parameter.type)
                self.values[parameter] = joined.add_parameter(block.label, kind, count)
        joined.write({block.label: self._block(block) for block in blocks}, self._edges)

    def _block(self, block: Block) -> int:
        """Lower `block`. The result is the place where its parameters are inserted."""
        place = self.thread.start_block(self._labels[block.label])
        anew = block.label in self.function.attributes.get(REMATERIALIZED_BLOCKS, ())  # type: ignore[operator]
        with self.thread.recomputing() if anew else nullcontext():
            for op in block.ops:
                self.thread.come_from(op.location)
                results = self.lower(op)
                for value, fragment in zip(op.results, results, strict=True):
                    self.values[value] = fragment
        return place

    def lower(self, op: Op) -> list[Fragment]:
        """The fragments of the results of `op`; empty ones if it is lowered with a later op."""
        if self._guards is not None and op in self._guards.deferred:
            return [[] for _ in op.results]
        return self.rule_of(op)(self, op)

    def rule_of(self, op: Op) -> Rule:
        """The rule that lowers `op`. A rule that lowers a call is on the stack while the function
        is lowered: no frame of this class comes between the two."""
        guarded = None if self._guards is None else self._guards.selections.get(op)
        if guarded is not None:
            from tileir.backend.codegen.guarded_arms import lower_in_parts

            return lambda lowering, op: lower_in_parts(lowering, op, guarded)
        rule = self.rules.get(op.mnemonic) or third_party_rules().get(op.mnemonic)
        if rule is None:
            raise self.refuse(op, f"has no lowering for {self.target.name}")
        return rule

    def edge(self, successor: Successor) -> str:
        """The label of `successor`. Its arguments are recorded for the block parameters there."""
        handles = [h for a in successor.arguments for h in self.fragment(a)]
        self._edges.setdefault(successor.label, []).append((self.thread.label, handles))
        return self._labels[successor.label]


def _blocks_in_order(function: Function) -> list[Block]:
    return [function.blocks[label] for label in cfg(function).order]


def registers(type: Type) -> int:
    """The number of handles of a value of `type` in one thread."""
    return type.layout.size("register") if isinstance(type, Tile) else 1


def scalar_of(type: Type) -> Element:
    """The element type of a tile or scalar."""
    return element_of(type)  # type: ignore[return-value]


def _thread_offset(thread: Thread, layout: Layout, dim: int, axes: Axes = THREADS) -> str | None:
    """The contribution of `axes` to the coordinate along `dim`; None for zero."""
    key = ("offset", layout.thread_part, dim, axes)
    return thread.once(key, lambda: _offset_text(thread, layout, dim, axes) or "") or None


def _offset_text(thread: Thread, layout: Layout, dim: int, axes: Axes) -> str | None:
    indices = [(x, {"lane": thread.lane, "warp": thread.warp}[x]) for x in axes]
    bits = {x: [vector[dim] for vector in layout.atom(x)] for x in axes}
    if axes == THREADS and _continues(bits["lane"], bits["warp"]):
        parts = _bit_runs(thread, [*bits["lane"], *bits["warp"]], thread.thread)
    else:
        parts = [part for x, index in indices for part in _bit_runs(thread, bits[x], index)]
    for axis, index in indices:
        for digit in layout.digits(axis):
            if step := digit.step[dim]:
                quotient = thread.binary("udiv", I32, index(), thread.integer(digit.weight))
                digit_value = thread.binary("urem", I32, quotient, thread.integer(digit.count))
                parts.append(
                    thread.binary("mul", I32, digit_value, thread.integer(step), "nsw nuw")
                )
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = thread.binary("add", I32, total, part, "nsw nuw")
    return total


def _continues(lanes: Sequence[int], warps: Sequence[int]) -> bool:
    """Whether the steps of the bits of the warp continue those of the bits of the lane: both are
    then one field of the index of the thread."""
    return bool(lanes and warps and lanes[-1]) and warps[0] == 2 * lanes[-1]


def _bit_runs(thread: Thread, steps: Sequence[int], index: Callable[[], str]) -> list[str]:
    """One term per run of consecutive bits of `index` whose `steps` are consecutive powers of
    two."""
    parts: list[str] = []
    start = 0
    while start < len(steps):
        end = start + 1
        if not steps[start] or steps[start] & (steps[start] - 1):
            if steps[start]:
                parts.append(_scaled_bit(thread, index(), start, steps[start]))
            start = end
            continue
        while end < len(steps) and steps[end] == steps[end - 1] * 2:
            end += 1
        mask = ((1 << (end - start)) - 1) << start
        field = thread.binary("and", I32, index(), thread.integer(mask))
        shift = steps[start].bit_length() - 1 - start
        if shift:
            name = "shl" if shift > 0 else "lshr"
            field = thread.binary(name, I32, field, thread.integer(abs(shift)))
        parts.append(field)
        start = end
    return parts


def _scaled_bit(thread: Thread, index: str, bit: int, step: int) -> str:
    shifted = thread.binary("lshr", I32, index, thread.integer(bit))
    one = thread.binary("and", I32, shifted, thread.integer(1))
    return thread.binary("mul", I32, one, thread.integer(step))


def contributions_overlap(layout: Layout, dim: int) -> bool:
    """Whether bits of registers, lanes and warps overlap in the coordinate along `dim`, so that it
    is not the sum of their contributions."""
    seen = 0
    for axis in ("register", "lane", "warp"):
        for vector in layout.atom(axis):
            if seen & vector[dim]:
                return True
            seen |= vector[dim]
    return False


def thread_span(layout: Layout, dim: int) -> int:
    """The largest coordinate along `dim` that lanes and warps contribute."""
    total = sum(v[dim] for axis in ("lane", "warp") for v in layout.atom(axis))
    digits = [d for axis in ("lane", "warp") for d in layout.digits(axis)]
    return total + sum((d.count - 1) * d.step[dim] for d in digits)


def _swizzled_coordinate(thread: Thread, layout: Layout, register: int, dim: int) -> str:
    """A coordinate computed as the exclusive or of the contributions of all bits, plus those of
    repetitions."""
    count = 1 << len(layout.register)
    low = layout.coordinate(register % count)[dim]
    high = layout.registers[register][dim] - low
    total = thread.integer(low)
    for axis, index in (("lane", thread.lane), ("warp", thread.warp)):
        for bit, vector in enumerate(layout.atom(axis)):
            if vector[dim]:
                term = _scaled_bit(thread, index(), bit, vector[dim])
                total = thread.binary("xor", I32, total, term)
        for digit in layout.digits(axis):
            if digit.step[dim]:
                quotient = thread.binary("udiv", I32, index(), thread.integer(digit.weight))
                digit_value = thread.binary("urem", I32, quotient, thread.integer(digit.count))
                term = thread.binary("mul", I32, digit_value, thread.integer(digit.step[dim]))
                total = thread.binary("add", I32, total, term)
    return thread.binary("add", I32, total, thread.integer(high)) if high else total


def _compute_first_owner(lowering: Lowering, layout: Layout | None) -> str | None:
    thread = lowering.thread
    free = {"lane": 31, "warp": -1}
    digits: list[tuple[str, int, int]] = []
    if layout is not None:
        free = {axis: layout.free_bits(axis) for axis in ("lane", "warp")}
        digits = [
            (axis, d.weight, d.count)
            for axis in ("lane", "warp")
            for d in layout.digits(axis)
            if not any(d.step)
        ]
    key = ("first", *free.values(), *digits)
    return thread.once(key, lambda: _all_zero(thread, free, digits) or "") or None


def _all_zero(
    thread: Thread, free: Mapping[str, int], digits: list[tuple[str, int, int]]
) -> str | None:
    index = {"lane": thread.lane, "warp": thread.warp}
    terms: list[str] = []
    for axis, mask in free.items():
        if mask:
            terms.append(thread.binary("and", I32, index[axis](), thread.integer(mask)))
    for axis, weight, count in digits:
        quotient = thread.binary("udiv", I32, index[axis](), thread.integer(weight))
        terms.append(thread.binary("urem", I32, quotient, thread.integer(count)))
    if not terms:
        return None
    total = terms[0]
    for term in terms[1:]:
        total = thread.binary("or", I32, total, term)
    return thread.compare("eq", I32, total, thread.integer(0))
