"""Versioning: accesses whose addresses are neighbours where no dividend is negative."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, cast

import attrs

from tileir.analysis.affine_mod32 import addresses
from tileir.analysis.dominance import dominance
from tileir.analysis.loops import loops
from tileir.analysis.ranges import ranges_of
from tileir.analysis.uses import arguments, defining_blocks, definitions, uses
from tileir.backend.layouts.access_widths import AccessWidths, is_access
from tileir.backend.layouts.anchors import contiguous_dim
from tileir.effects import Effects
from tileir.field import Successor
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.arith import ICmp, IntegerPredicate, Or, Overflow, Wrapping
from tileir.ops.cast import ZExt
from tileir.ops.control import CondBranch
from tileir.ops.division import DivRounding, RemRounding, SDiv, SRem, UDiv, URem
from tileir.ops.hints import ConstantRun, Contiguous, MultipleOf
from tileir.ops.memory import Load, Store
from tileir.ops.shape import Splat
from tileir.passes.cfg_edit import copied_block, reserve_label
from tileir.passes.scalarize import Scalarizer
from tileir.types import I1, I8, I32, Pointer, Tile, element_of, shape_of, with_element
from tileir.values import Constant, Operand, Value


def version_nonnegative_dividends(function: Function, threads: int) -> Function:
    """`function` with two versions of each access that is wider where the dividends of its
    addresses and its mask are not negative, if each of `threads` threads has two elements or more.

    A quotient that is rounded toward zero is constant between multiples of the divisor, and a
    remainder increases by one there, if the dividend is not negative. Where its sign is not known,
    scalar code computes the first and the last element of an affine dividend. If both are
    nonnegative, so are those between them, and hints tell the first version which of its addresses
    are neighbours. What only one access needs is computed in its versions: the first one divides
    unsigned, and once for all neighbours. Other divisions are not duplicated."""
    divisions = _divisions_of_unknown_sign(function)
    if not divisions:
        return function
    rewriter = _Versioning(function, divisions, threads)
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        blocks.update(rewriter.block(label, block))
    if rewriter.labels == set(function.blocks):
        return function
    for label, block in blocks.items():
        if any(op in rewriter.moved for op in block.ops):
            kept = tuple([op for op in block.ops if op not in rewriter.moved])
            blocks[label] = attrs.evolve(block, ops=kept)
    return function.with_blocks(blocks)


def _divisions_of_unknown_sign(function: Function) -> Mapping[Op, Op]:
    """The signed divisions of tiles that are affine and may be negative, with the same results as
    unsigned ones."""
    divisions = [
        op for op in function.ops
        if isinstance(op, (SDiv, SRem)) and isinstance(op.lhs.type, Tile) and op.predicate is None
        and op.rounding in (DivRounding.ZERO, RemRounding.ZERO)
    ]  # fmt: skip
    if not divisions:
        return {}
    bounds = ranges_of(function, *(op.lhs for op in divisions))
    return {
        op: (UDiv if isinstance(op, SDiv) else URem)(op.lhs, op.rhs, results=op.results)
        for op in divisions
        if bounds.of(op.lhs)[0] < 0 and _is_between_ends(function, op.lhs)
    }


def _is_between_ends(function: Function, dividend: Operand) -> bool:
    """Whether no element is negative if neither the first nor the last one is: elements increase
    along every dimension, modulo 2^32, by less than 2^31 from the first one to the last one."""
    form = addresses(function).of(dividend)
    if form is None or element_of(dividend.type) is not I32 or min(form.strides) < 0:
        return False
    low, high = form.interval(shape_of(dividend.type))
    return high - low < 1 << 31


class _Versioning:
    """One run over a function in which `divisions` have unsigned equivalents."""

    def __init__(self, function: Function, divisions: Mapping[Op, Op], threads: int) -> None:
        self.function, self.divisions, self.threads = function, divisions, threads
        self.op_of, self.passed = definitions(function), arguments(function)
        self.labels, self.moved = set(function.blocks), set[Op]()
        self.places = {
            op: (number, label)
            for number, (label, op) in enumerate(
                (label, op) for label, block in function.blocks.items() for op in block.ops
            )
        }
        self.headers = {
            p for label in loops(function).by_header for p in function.blocks[label].parameters
        }
        blocks = {
            label: attrs.evolve(block, ops=tuple([divisions.get(op, op) for op in block.ops]))
            for label, block in function.blocks.items()
        }
        self.widths = AccessWidths(function)
        self.widest = AccessWidths(function.with_blocks(blocks))
        """The widths if no dividend is negative."""

    def block(self, label: str, block: Block) -> Iterator[tuple[str, Block]]:
        """`block`, or the blocks that replace it, in order."""
        original, parameters, ops = label, block.parameters, list[Op]()
        for op in block.ops:
            condition = self._condition(op, original) if self._is_wider(op) else None
            if condition is None:
                ops.append(op)
                continue
            negative, computed = condition
            prefix = label.split(".")[0]
            names = [reserve_label(f"{prefix}.{x}", self.labels) for x in ("near", "far", "rest")]
            branch = CondBranch(negative, Successor(names[1]), Successor(names[0]))
            yield label, Block(label, parameters, (*ops, *computed, branch))
            own = self._own(op, original)
            self.moved.update(own)
            near = [self.divisions.get(x, x) for x in own]
            paths = [*near, *self._with_hints(op)], [*own, *_distinct(op, negative)]
            for name, path in zip(names[:2], paths, strict=True):
                yield name, copied_block(name, path, path[-1].results, names[2])
            label, parameters, ops = names[2], op.results, []
        yield label, attrs.evolve(block, label=label, parameters=parameters, ops=tuple(ops))

    def _is_wider(self, op: Op) -> bool:
        """Whether an access would be wider if no dividend was negative."""
        if not isinstance(op, (Load, Store)) or not is_access(op) or op.predicate is not None:
            return False
        if op.volatile or prod(shape_of(op.pointer.type)) < 2 * self.threads:
            return False
        dim = contiguous_dim(op, self.widest)
        return self.widest.width(op, dim) > self.widths.width(op, dim)

    def _condition(self, op: Op, label: str) -> tuple[Operand, list[Op]] | None:
        """Whether a dividend of the addresses or the mask of `op`, in block `label`, is negative:
        the scalar, and the ops that compute it. None where it cannot be computed there."""
        dividends = self._dividends(_addressing(op))
        if not dividends:
            return None
        scalarizer = Scalarizer(self.op_of)
        ends: list[Operand] = []
        for dividend in dividends:
            shape = shape_of(dividend.type)
            for index in (tuple(0 for _ in shape), tuple(n - 1 for n in shape)):
                end = scalarizer.at(dividend, index)
                if end is None:
                    return None
                ends.append(end)
        dominators, defined = dominance(self.function), defining_blocks(self.function)
        if not all(
            dominators.dominates(defined[v], label) for v in scalarizer.leaves if v in defined
        ):
            return None
        ops, signs = [_wrapping(op) for op in scalarizer.ops], ends[0]
        for end in ends[1:]:
            ops.append(Or(signs, end))
            signs = ops[-1].result
        ops.append(ICmp(signs, Constant(signs.type, 0), predicate_=IntegerPredicate.SLT))
        return ops[-1].results[0], ops

    def _dividends(self, operands: Sequence[Operand]) -> list[Operand]:
        """The dividends of the divisions that `operands` depend on in the same iteration of all
        loops; empty where they depend on such a division of an earlier one."""
        dividends: dict[Operand, None] = {}
        pending, seen = [(v, False) for v in operands], set[tuple[Operand, bool]]()
        while pending:
            value, is_earlier = pending.pop()
            if not isinstance(value, Value) or (value, is_earlier) in seen:
                continue
            seen.add((value, is_earlier))
            op = self.op_of.get(value)
            if op is None:
                is_earlier |= value in self.headers
                pending += [(v, is_earlier) for v in self.passed.get(value, ())]
                continue
            if op in self.divisions:
                if is_earlier:
                    return []
                dividends[op.inputs[0]] = None
            pending += [(v, is_earlier) for v in op.inputs]
        return list(dividends)

    def _own(self, access: Op, label: str) -> list[Op]:
        """The ops of tiles that nothing but the addresses and the mask of `access`, in block
        `label`, needs, and that run as often, if divisions of unknown sign are among them."""
        users, around = uses(self.function), loops(self.function).around
        own, pending = {access}, _addressing(access)
        while pending:
            op = self.op_of.get(cast(Value, pending.pop()))
            if op is None or op in own:
                continue
            readers = {reader for v in op.results for reader in users.get(v, ())}
            pure = not op.effects & ~Effects.TRAP and op.predicate is None
            tiles = all(isinstance(v.type, Tile) for v in op.results)
            once = around(self.places[op][1]) is around(label)
            if pure and tiles and once and readers <= own:
                own.add(op)
                pending += op.inputs
        own.remove(access)
        if own.isdisjoint(self.divisions):
            return []
        return sorted(own, key=lambda op: self.places[op][0])

    def _with_hints(self, op: Op) -> list[Op]:
        """Hints about the addresses and the mask of `op`, and `op` with them."""
        dim, pointer = contiguous_dim(op, self.widest), op.inputs[0]
        width, rank = self.widest.width(op, dim), len(shape_of(pointer.type))
        size = cast(Pointer, element_of(pointer.type)).pointee.bytes
        runs = tuple(width if d == dim else 1 for d in range(rank))
        aligned = MultipleOf(
            pointer, values=tuple(width * size if d == dim else 1 for d in range(rank))
        )
        near = Contiguous(aligned.result, values=runs)
        ops, changes = [aligned, near], {"pointer": near.result}
        mask = cast(Any, op).mask
        if isinstance(mask, Value) and isinstance(mask.type, Tile):
            integers = with_element(mask.type, I8)  # there are no hints about i1
            bytes_ = ZExt(mask, integers)
            equal = ConstantRun(bytes_.result, values=runs)
            zero = Constant(integers, 0)
            holds = ICmp(equal.result, zero, predicate_=IntegerPredicate.NE)
            ops += [bytes_, equal, holds]
            changes["mask"] = holds.results[0]
        return [*ops, op.evolve(**changes)]


def _addressing(access: Op) -> list[Operand]:
    """The addresses and the mask of `access`."""
    mask = cast(Any, access).mask
    return [access.inputs[0]] if mask is None else [access.inputs[0], mask]


def _wrapping(op: Op) -> Op:
    """`op` without a promise that it does not wrap, which is for elements that are accessed."""
    return op.evolve(overflow=Overflow.NONE) if isinstance(op, Wrapping) else op


def _distinct(op: Op, condition: Operand) -> list[Op]:
    """Access `op` under a mask, which `condition` is where it has none: LLVM would merge the
    elements of a wide access without a mask with accesses to single elements."""
    if cast(Any, op).mask is not None:
        return [op]
    always = Splat(condition, with_element(op.inputs[0].type, I1))
    return [always, op.evolve(mask=always.result)]
