"""Versions of loops whose scales have one address in each iteration: they load a scalar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import attrs

from tileir.analysis.equal_elements import are_equal, are_equal_after_first
from tileir.analysis.loops import Loop, is_invariant, loops
from tileir.analysis.uses import defining_blocks, definitions
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.arith import ICmp, IntegerPredicate, Or, Xor
from tileir.ops.control import Branch, CondBranch
from tileir.ops.division import Division
from tileir.ops.dot import Dot
from tileir.ops.memory import Load
from tileir.ops.reduce import Combiner, Reduce
from tileir.ops.shape import Splat
from tileir.passes.cfg_edit import copy_op, fresh, map_edges, reserve_label
from tileir.passes.scalarize import Scalarizer
from tileir.types import shape_of
from tileir.values import Constant, Operand, Value, constant

_MAX_OPS = 192
"""The most ops of a loop that is duplicated."""


def version_uniform_loads(function: Function) -> Function:
    """Version each innermost loop with a dot that loads vectors at quotients, such as the scales of
    blocks of columns whose number of columns is an argument.

    The block that leads to the loop compares the quotients. Where they are equal, and no element is
    masked out, a copy of the loop runs that loads a scalar in place of each such vector. A vector
    would be copied to shared memory, and read from it into as many registers as a thread has
    columns.
    """
    for header in tuple(loops(function).by_header):
        loop = loops(function).by_header[header]
        if _is_short_matmul(function, loop):
            every = (_uniform_load(function, loop, op) for op in _ops(function, loop))
            loads: dict[Op, _UniformLoad] = {load.op: load for load in every if load is not None}
            function = _with_versions(function, loop, loads) if loads else function
    return function


def _is_short_matmul(function: Function, loop: Loop) -> bool:
    """Whether an innermost loop has a dot and few ops, one way in and one way out."""
    is_outer = any(other.parent == loop.header for other in loops(function).by_header.values())
    if is_outer or loop.latch is None or loop.preheader is None or len(loop.exits) != 1:
        return False
    ops = [*_ops(function, loop)]
    return len(ops) <= _MAX_OPS and any(isinstance(op, Dot) for op in ops)


def _ops(function: Function, loop: Loop) -> Iterator[Op]:
    return (op for label in loop.order for op in function.blocks[label].ops)


@attrs.frozen
class _UniformLoad:
    """A load that a scalar load may replace: `test` computes before the loop that it may not, in
    the last op. `address` computes the address in the loop."""

    op: Load
    test: tuple[Op, ...]
    address: tuple[Op, ...]
    pointer: Operand


def _uniform_load(function: Function, loop: Loop, op: Op) -> _UniformLoad | None:
    """The scalar load that may replace `op`; None for other ops, where all elements have one
    address anyway, and where other values than quotients decide it."""
    if not isinstance(op, Load) or len(shape_of(op.results[0].type)) != 1:
        return None
    if op.volatile or op.predicate is not None or are_equal_after_first(function, op.pointer):
        return None
    quotients = quotients_of(function, loop, op.pointer)
    mask = [] if op.mask is None else _computed_before(function, loop, op.mask)
    if not quotients or mask is None:
        return None
    before = Scalarizer(definitions(function), traps=True)
    firsts = {value: before.at(value, (0,)) for value in quotients}
    within = Scalarizer(definitions(function))
    for value, first in firsts.items():
        within.define(value, (0,), first)
    pointer = within.at(op.pointer, (0,))
    if pointer is None or None in firsts.values():
        return None
    test, differ = [*before.ops, *mask], list[Value]()
    for value, first in firsts.items():
        splat = Splat(cast(Value, first), value.type)
        unequal = ICmp(value, splat.result, predicate_=IntegerPredicate.NE)
        test += (splat, unequal)
        differ.append(unequal.results[0])
    if op.mask is not None:
        outside = Xor(mask[-1].results[0] if mask else op.mask, constant(op.mask.type, 1))
        test.append(outside)
        differ.append(outside.result)
    test.append(Reduce((_disjunction(differ, test),), combiner=Combiner.OR))
    return _UniformLoad(op, tuple(test), tuple(within.ops), pointer)


def _disjunction(values: Sequence[Value], ops: list[Op]) -> Value:
    """The disjunction of `values`; its ops are appended to `ops`."""
    result, *others = values
    for other in others:
        ops.append(Or(result, other))
        result = ops[-1].results[0]
    return result


def quotients_of(function: Function, loop: Loop, pointer: Operand) -> list[Value]:
    """The vectors of quotients by arguments, computed before the loop, that decide whether all
    elements of `pointer` are equal; none where other values do."""
    result: dict[Value, None] = {}
    waiting, origin = [pointer], definitions(function)
    while waiting:
        operand = waiting.pop()
        if are_equal(function, operand):
            continue
        source = origin.get(operand) if isinstance(operand, Value) else None
        if source is None or source.predicate is not None:
            return []
        if isinstance(source, Division):
            if isinstance(source.rhs, Constant) or not are_equal(function, source.rhs):
                return []
            result[source.result] = None
        elif source.elementwise and not source.effects:
            waiting += source.inputs
        else:
            return []
    return [*result] if all(is_invariant(function, loop, value) for value in result) else []


def _computed_before(function: Function, loop: Loop, operand: Operand) -> list[Op] | None:
    """Copies of the ops of a loop that compute `operand`, the last one its own; None where it
    depends on the iteration."""
    copies: dict[Value, Operand] = {}
    ops: list[Op] = []

    def copy(value: Operand) -> bool:
        if is_invariant(function, loop, value) or value in copies:
            return True
        op = definitions(function).get(cast(Value, value))
        if op is None or op.effects or op.predicate is not None or not all(map(copy, op.inputs)):
            return False
        ops.append(copy_op(op, copies))
        return True

    return ops if copy(operand) else None


# The copy of the loop -----------------------------------------------------------------------------


@attrs.frozen
class _Version:
    """The blocks of a copy of a loop by their labels in the loop, and the labels of the blocks
    before and after it."""

    blocks: Mapping[str, Block]
    before: str
    after: str


def _with_versions(function: Function, loop: Loop, loads: Mapping[Op, _UniformLoad]) -> Function:
    """`function` with a copy of `loop` in which each of `loads` loads a scalar."""
    test = [op for load in loads.values() for op in load.test]
    differs = _disjunction([load.test[-1].results[0] for load in loads.values()], test)
    used, live = {*function.blocks}, _used_outside(function, loop)
    own, env = {label: function.blocks[label] for label in loop.order}, dict[Value, Operand]()
    copies = _copies(function, loop, loads, used, env)
    one, several = (
        _Version(
            blocks, *(reserve_label(f"{loop.header}.{word}{end}", used) for end in ("", ".done"))
        )
        for word, blocks in (("uniform", copies), ("varying", own))
    )
    ((_, target),) = loop.exits
    parameters = [fresh(v) for v in (*live, *function.blocks[target].parameters)]
    join = Block(
        reserve_label(f"{loop.header}.rest", used), parameters,
        (Branch(Successor(target, tuple(parameters[len(live) :]))),),
    )  # fmt: skip
    passed: dict[Value, Operand] = dict(zip(live, parameters, strict=False))
    result: dict[str, Block] = {}
    for label, block in function.blocks.items():
        if label in loop.blocks:
            continue
        block = attrs.evolve(block, ops=tuple([op.remap(passed) for op in block.ops]))
        result[label] = block
        if label == loop.preheader:
            branch = CondBranch(differs, Successor(several.before), Successor(one.before))
            result[label] = attrs.evolve(block, ops=(*block.ops[:-1], *test, branch))
            for version, renamed in ((one, env), (several, {})):
                result |= _version_blocks(
                    version, loop, block.terminator, join.label, live, renamed
                )
            result[join.label] = join
    return function.with_blocks(result)


def _version_blocks(
    version: _Version, loop: Loop, entering: Op, join: str, live: Sequence[Value],
    env: Mapping[Value, Operand],
) -> dict[str, Block]:  # fmt: skip
    """The blocks of one version of `loop`, with the one that leads to it, which ends as `entering`,
    and the one after it, which passes `live` to `join`."""
    ((leaving, target),) = loop.exits
    header = version.blocks[loop.header].label
    first = map_edges(entering, lambda edge: Successor(header, edge.arguments))
    result = {version.before: Block(version.before, (), (first,))}
    for label, block in version.blocks.items():
        if label == leaving:
            (edge,) = {e for e in block.successors if e.label == target}
            passed = (*(env.get(v, v) for v in live), *edge.arguments)
            last = map_edges(
                block.terminator,
                lambda e: Successor(version.after) if e.label == target else e,
            )
            block = attrs.evolve(block, ops=(*block.ops[:-1], last))
            result[block.label] = block
            result[version.after] = Block(version.after, (), (Branch(Successor(join, passed)),))
        result[block.label] = block
    return result


def _used_outside(function: Function, loop: Loop) -> tuple[Value, ...]:
    """The values of a loop that ops outside read, in order."""
    block_of = defining_blocks(function)
    return tuple(
        dict.fromkeys(
            value
            for label, block in function.blocks.items()
            if label not in loop.blocks
            for op in block.ops
            for value in op.operands
            if isinstance(value, Value) and block_of.get(value) in loop.blocks
        )
    )


def _copies(
    function: Function, loop: Loop, loads: Mapping[Op, _UniformLoad], used: set[str],
    env: dict[Value, Operand],
) -> dict[str, Block]:  # fmt: skip
    """The copies of the blocks of `loop`, by the labels of the blocks; `env` gets the copies of
    values, and `used` the labels."""
    labels = {label: reserve_label(f"{label}.uniform", used) for label in loop.order}
    heads: dict[str, tuple[Value, ...]] = {}
    for label in loop.order:
        heads[label] = tuple(fresh(v) for v in function.blocks[label].parameters)
        env.update(zip(function.blocks[label].parameters, heads[label], strict=True))
    result: dict[str, Block] = {}
    for label in loop.order:
        ops: list[Op] = []
        for op in function.blocks[label].ops:
            ops += _loading_scalar(loads[op], env) if op in loads else [copy_op(op, env)]
        ops[-1] = map_edges(
            ops[-1],
            lambda e: Successor(labels[e.label], e.arguments) if e.label in labels else e,
        )
        result[label] = Block(labels[label], heads[label], ops)
    return result


def _loading_scalar(load: _UniformLoad, env: dict[Value, Operand]) -> list[Op]:
    ops, op = [copy_op(each, env) for each in load.address], load.op
    scalar = op.evolve(pointer=load.pointer, mask=None, other=None, results=()).remap(env)
    splat = Splat(scalar.results[0], op.results[0].type, location=op.location)
    env[op.results[0]] = splat.result
    return [*ops, scalar, splat]
