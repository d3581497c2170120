"""Values: defined once, before they are used.

One walk over the blocks. The entry dominates every block, so its values may be used in all blocks.
Only uses of values that other blocks define need the dominator tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tileir.errors import Diagnostic, Location
from tileir.ir import Block, Function, Module
from tileir.op import Op
from tileir.types import Buffer, Tile, Type
from tileir.values import Operand, Value
from tileir.verify.structure import place
from tileir.verify.traits import traits
from tileir.versions import TYPES, newer_fields, newer_in


class VerifierWalk:
    """One pass over the ops of a function.

    `naming` are the ops that name symbols. `predicated` tells whether any op has a predicate or
    merges predicated values, `placed` whether any op has a shared-memory offset. `visible` are the
    values that ops may use here, and `ordinary` what is known of the classes of ops.
    """

    def __init__(
        self, module: Module, function: Function, visible: set[Value],
        ordinary: dict[type[Op], bool],
    ) -> None:  # fmt: skip
        self.module, self.function = module, function
        self.visible, self.ordinary = visible, ordinary
        self.findings: list[Diagnostic] = []
        self.naming: list[Op] = []
        self.predicated = self.placed = False
        self.types: set[Type] = set()
        self.nonlocal_uses: list[tuple[Op, Block, Value]] = []
        """Uses of what neither the entry nor the ops before, in the same block, define."""


def check_definitions(
    module: Module, function: Function, defined: dict[Value, None], ordinary: dict[type[Op], bool]
) -> VerifierWalk:
    """Check every definition and use in `function`; `defined` gathers the module's values, and
    `ordinary` what is known of the classes of its ops."""
    parameters = [p.value for p in function.parameters]
    walk = VerifierWalk(module, function, set(parameters), ordinary)
    _define(walk, [*parameters, *_walk_blocks(walk)], defined)
    _check_ops_differ(walk)
    _check_layouts(walk)
    _check_buffers(walk)
    return walk


def _walk_blocks(walk: VerifierWalk) -> list[Value]:
    """Visit the blocks; `visible` holds what the entry and the ops before, in the same block,
    define. All that they define, in the order of the text."""
    blocks = iter(walk.function.blocks.values())
    result = _walk_block(walk, next(blocks))
    for block in blocks:
        values = _walk_block(walk, block)
        if values:
            walk.visible.difference_update(values)
            result += values
    if walk.nonlocal_uses:
        _check_uses_of_other_blocks(walk)
    return result


def _walk_block(walk: VerifierWalk, block: Block) -> list[Value]:
    """Visit `block`. All that it defines."""
    if block.parameters:
        walk.visible.update(block.parameters)
    _walk_ops(walk, block)
    return [*block.parameters, *[v for op in block.ops for v in op.results]]


def _check_uses_of_other_blocks(walk: VerifierWalk) -> None:
    """Check that values of other blocks are defined in blocks that dominate the use. Unreachable
    blocks are reported elsewhere; their uses are not checked."""
    from tileir.analysis.dominance import dominance  # few functions need the tree

    definitions, tree = _definitions(walk.function), dominance(walk.function)
    for op, block, operand in walk.nonlocal_uses:
        if block.label not in tree.enter:
            continue
        definition = definitions.get(operand)
        above = "" if definition is None else definition[0]
        if above not in tree.enter or not tree.strictly_dominates(above, block.label):
            _report_use(walk, op, block, operand, definition)


def _check_buffers(walk: VerifierWalk) -> None:
    """A buffer must be the result of an allocation: no code can select one of several buffers."""
    if not any(isinstance(kind, Buffer) for kind in walk.types):
        return
    function = walk.function
    places = {p.value: p.location for p in function.parameters}
    for block in function.blocks.values():
        places.update({v: place(block, function) for v in block.parameters})
    for value, location in places.items():
        if isinstance(value.type, Buffer):
            message = f"%{value.name or '?'} is a buffer, and not the result of gpu.private_alloc"
            walk.findings.append(Diagnostic("TIR0234", message, location))


def _define(walk: VerifierWalk, values: list[Value], defined: dict[Value, None]) -> None:
    before = len(defined)
    fresh = dict.fromkeys(values)
    clash = len(fresh) != len(values) or not defined.keys().isdisjoint(fresh)
    defined.update(fresh)
    walk.types.update({v.type for v in fresh})
    if clash:
        walk.findings.extend(_twice(walk.function, values, list(defined)[:before]))


def _twice(function: Function, values: list[Value], before: list[Value]) -> Iterator[Diagnostic]:
    seen = set(before)
    blocks = function.blocks.values()
    places = {v: place(block, function) for block in blocks for v in block.parameters}
    places.update({v: op.location for op in function.ops for v in op.results})
    for value in values:
        if value in seen:
            message = f"%{value.name or '?'} is defined more than once"
            yield Diagnostic("TIR0213", message, places.get(value) or function.location)
        seen.add(value)


def _check_ops_differ(walk: VerifierWalk) -> None:
    """Check that no op object is at two places: passes keep what they know of an op by the object,
    and would move both places to one. Ops with results are reported as values defined twice."""
    ops = [op for block in walk.function.blocks.values() for op in block.ops]
    if len(set(ops)) == len(ops):
        return
    repeated = Counter(op for op in ops if not op.results)
    for op in (op for op, count in repeated.items() if count > 1):
        message = f"one {op.mnemonic} object is at {repeated[op]} places of @{walk.function.name}"
        walk.findings.append(Diagnostic("TIR0214", message, op.location or walk.function.location))


def _walk_ops(walk: VerifierWalk, block: Block) -> None:
    visible, ordinary = walk.visible, walk.ordinary
    for op in block.ops:
        for operand in op.inputs:
            if type(operand) is Value and operand not in visible:
                walk.nonlocal_uses.append((op, block, operand))
        if op.predicate is not None:
            walk.predicated = True
            if type(op.predicate) is Value and op.predicate not in visible:
                walk.nonlocal_uses.append((op, block, op.predicate))
        if op.shared is not None:
            _note_shared_range(walk, op)
        if op.results:
            visible.update(op.results)
        cls = type(op)
        if cls not in ordinary:
            ordinary[cls] = _is_ordinary(walk.module, cls)
        if not ordinary[cls]:
            _note(walk, op)
    for edge in block.successors:
        for operand in edge.arguments:
            if type(operand) is Value and operand not in visible:
                walk.nonlocal_uses.append((block.terminator, block, operand))


def _is_ordinary(module: Module, cls: type[Op]) -> bool:
    """Whether only the operands of ops of `cls` have to be checked in `module`."""
    return traits(cls).plain and not _may_be_newer(module, cls) and not _is_staged(module, cls)


def _may_be_newer(module: Module, cls: type[Op]) -> bool:
    """Whether an op of `cls` may have parts that the version of `module` does not have."""
    return bool(cls.since > module.version or newer_fields(cls, module.version) or TYPES)


def _is_staged(module: Module, cls: type[Op]) -> bool:
    return module.stage is None and cls.mnemonic.startswith("gpu.")


def _note(walk: VerifierWalk, op: Op) -> None:
    op_traits = traits(type(op))
    walk.predicated |= op_traits.merges
    if op_traits.names_symbols:
        walk.naming.append(op)
    if _is_staged(walk.module, type(op)):
        message = f"{op.mnemonic} belongs to a module with a stage line"
        walk.findings.append(Diagnostic("TIR0224", message, op.location))
    if _may_be_newer(walk.module, type(op)):
        walk.findings.extend(newer_in(op, walk.module.version))


def _note_shared_range(walk: VerifierWalk, op: Op) -> None:
    walk.placed = True
    if walk.module.stage is None:
        message = f"{op.mnemonic}: shared belongs to a module with a stage line"
        walk.findings.append(Diagnostic("TIR0224", message, op.location, operand="shared"))


def _report_use(
    walk: VerifierWalk,
    op: Op,
    block: Block,
    operand: Value,
    definition: tuple[str, Location | None] | None,
) -> None:
    name, index = f"%{operand.name or '?'}", _position(op, operand)
    if definition is None:
        message = f"{name} is not defined in @{walk.function.name}"
        walk.findings.append(Diagnostic("TIR0211", message, op.location, operand=index))
        return
    label, where = definition
    if label == block.label:
        message = f"{name} is used before its definition"
    else:
        message = f"{name}, defined in {label}, does not dominate this use in {block.label}"
    notes = (Diagnostic("TIR0212", f"{name} is defined here", where),)
    walk.findings.append(Diagnostic("TIR0212", message, op.location, notes=notes, operand=index))


def _definitions(function: Function) -> dict[Value, tuple[str, Location | None]]:
    """Label and place of the first definition of every value in a block of `function`."""
    result: dict[Value, tuple[str, Location | None]] = {}
    for label, block in function.blocks.items():
        for value in block.parameters:
            result.setdefault(value, (label, place(block, function)))
        for op in block.ops:
            for value in op.results:
                result.setdefault(value, (label, op.location))
    return result


def _position(op: Op, operand: Operand) -> int | str | None:
    """Index of `operand` among the inputs, `predicate`, or None for an edge's argument."""
    for index, value in enumerate(op.inputs):
        if value is operand:
            return index
    return "predicate" if op.predicate is operand else None


def _check_layouts(walk: VerifierWalk) -> None:
    """Layouts are the backend's: a module without a stage has none."""
    if walk.module.stage is not None:
        return
    bad = {t for t in walk.types if isinstance(t, Tile) and t.layout is not None}
    for op in walk.function.ops if bad else ():
        if any(v.type in bad for v in op.results):
            message = f"{op.results[0].type} has a layout; the module needs a stage line"
            walk.findings.append(Diagnostic("TIR0225", message, op.location))
