"""Computation of quotients that only a select uses in a branch, under the condition of the
select."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import attrs

from tileir.analysis.aliases import aliases
from tileir.analysis.uses import defining_blocks, definitions, uses
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.arith import Select
from tileir.ops.control import Branch, CondBranch
from tileir.ops.memory import Load
from tileir.ops.shape import Splat
from tileir.passes.cfg_edit import fresh_label
from tileir.types import I1
from tileir.values import Operand, Value


def branch_quotients(function: Function, labels: Iterable[str]) -> Function:
    """`function` where blocks `labels` branch to what only selects under one condition take, with
    quotients by a divisor that is not a literal. Such a quotient takes tens of instructions, which
    a loop over the tiles of a matmul and their steps of K executes for the first step alone. The
    loop passes no barrier but those of its own copies."""
    for label in labels:
        conditions = dict.fromkeys(
            _condition(function, op) for op in function.blocks[label].ops if isinstance(op, Select)
        )
        for condition in conditions:
            part = None if condition is None else _part(function, label, condition)
            if part is not None:
                function = _with_branch(function, label, part)
    return function


class _Part(NamedTuple):
    """The ops of a block that only `selects`, all under `condition`, need if it is true. The first
    of these selects is the op number `split`."""

    condition: Value
    ops: set[Op]
    selects: list[Select]
    split: int


def _condition(function: Function, select: Select) -> Value | None:
    """The scalar under which `select` takes its first value."""
    condition: Operand = select.condition
    lanes = definitions(function).get(cast(Value, condition))
    if isinstance(lanes, Splat):
        condition = lanes.value
    return condition if isinstance(condition, Value) and condition.type is I1 else None


def _part(function: Function, label: str, condition: Value) -> _Part | None:
    """The part of block `label` to execute under `condition`; None if it has no division, or needs
    values that the block computes later."""
    ops, readers = function.blocks[label].ops, uses(function)
    divided = set[Operand]()
    for op in ops[:-1]:
        if (op.divides and op.effects) or any(v in divided for v in op.operands):
            divided.update(op.results)
    alike = {op for op in ops if isinstance(op, Select) and _condition(function, op) is condition}
    part, selects = set[Op](), list[Select]()
    for op in reversed(ops[:-1]):
        users = [x for v in op.results for x in readers.get(v, ())]
        inside = bool(users) and all(x in part or _takes(x, op, selects) for x in users)
        if inside and (not op.effects & ~Effects.TRAP or _may_be_moved(function, op, ops)):
            part.add(op)
        elif op in alike and cast(Select, op).inputs[1] in divided:
            selects.append(cast(Select, op))
    if not selects or not any(op.divides and op.effects for op in part):
        return None
    split = min(map(ops.index, selects))
    place, before = defining_blocks(function), {v for op in ops[:split] for v in op.results}
    inner = {v for op in part for v in op.results}
    needed = [v for op in (*part, *selects) for v in op.operands]
    needed += [v for select in selects for v in select.inputs[1:]]
    missing = (
        v for v in needed
        if isinstance(v, Value) and v not in inner and v not in before and place[v] == label
        and v not in function.blocks[label].parameters
    )  # fmt: skip
    return None if any(True for _ in missing) else _Part(condition, part, selects[::-1], split)


def _may_be_moved(function: Function, op: Op, ops: Iterable[Op]) -> bool:
    """Whether `op` is a load from memory that none of `ops` changes. Ops that the pipeliner created
    write only shared memory."""
    plain = isinstance(op, Load) and not op.volatile
    others = (x for x in ops if not x.mnemonic.startswith("gpu."))
    return plain and not any(aliases(function).may_change(other, op) for other in others)


def _takes(user: Op, op: Op, selects: list[Select]) -> bool:
    """Whether `user` is one of `selects` and takes the result of `op` if their condition is
    true."""
    if not isinstance(user, Select) or user not in selects:
        return False
    condition, then, otherwise = user.inputs
    return then in op.results and condition not in op.results and otherwise not in op.results


def _with_branch(function: Function, label: str, part: _Part) -> Function:
    """`function` with the part of block `label` in a separate block."""
    block = function.blocks[label]
    inner = fresh_label(f"{label}.then", function.blocks)
    join = fresh_label(f"{label}.join", function.blocks)
    env: dict[Value, Operand] = {}
    computed: list[Op] = []
    for op in block.ops:
        if op not in part.ops:
            continue
        remapped: Any = op.remap(env)
        if isinstance(op, Select) and _condition(function, op) is part.condition:
            env[op.result] = remapped.inputs[1]
        else:
            computed.append(remapped)
    results = tuple(select.result for select in part.selects)
    then = tuple(env.get(cast(Value, s.inputs[1]), s.inputs[1]) for s in part.selects)
    otherwise = tuple(s.inputs[2] for s in part.selects)
    branch = CondBranch(part.condition, Successor(inner), Successor(join, otherwise))
    gone = {*part.ops, *part.selects}
    first, rest = (
        [op for op in half if op not in gone]
        for half in (block.ops[: part.split], block.ops[part.split :])
    )
    blocks: dict[str, Block] = {}
    for name, old in function.blocks.items():
        blocks[name] = old
        if name == label:
            blocks[name] = attrs.evolve(block, ops=(*first, branch))
            blocks[inner] = Block(inner, (), (*computed, Branch(Successor(join, then))))
            blocks[join] = Block(join, results, tuple(rest))
    return function.with_blocks(blocks)
