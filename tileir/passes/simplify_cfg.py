"""Simplification of the control-flow graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.uses import uses
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.control import Branch, CondBranch, Unreachable
from tileir.passes.cfg_edit import map_edges, without_arguments
from tileir.passmanager.registry import pass_
from tileir.rewrite import rewrite
from tileir.values import Constant, Operand, Value


@pass_("simplify-cfg")
def simplify_cfg(function: Function) -> Function:
    """Simplify the control-flow graph.

    - A conditional branch becomes a jump if its condition is a literal, if both edges have the same
      target and arguments, or if one edge leads to `unreachable`.
    - A block that is not reachable from the entry is removed.
    - A block parameter that has the same value on every edge is replaced by this value.
    - An edge to a block that holds only a jump is redirected to the target of the jump, except
      where the jump has loop options (jump threading).
    - A block is merged with its only successor if it is the only predecessor of that block.

    The steps repeat until nothing changes.

    before:
        define kernel void @f(i32* %p, i32 %n) {
        entry:
          br test
        test:
          %m = phi i32 [%n, entry]
          cond_br true, then, otherwise
        then:
          br join
        otherwise:
          br join
        join:
          %x = phi i32 [1, then], [2, otherwise]
          %y = add i32 %x, %m
          store %p, %y
          ret
        }
    after:
        define kernel void @f(i32* %p, i32 %n) {
        entry:
          %y = add i32 1, %n
          store %p, %y
          ret
        }
    """
    while True:
        before = function
        for step in STEPS:
            function = step(function)
        if function is before:
            return function


def fold_branches(function: Function) -> Function:
    """Replace a `cond_br` that can only go one way by a `br`."""
    hopeless = _hopeless(function)
    return _with_terminators(function, lambda op: _fold(op, hopeless))


def drop_unreachable(function: Function) -> Function:
    """Remove unreachable blocks."""
    reached = cfg(function).number
    return function.with_blocks({k: v for k, v in function.blocks.items() if k in reached})


def drop_parameters(function: Function) -> Function:
    """Replace a parameter by its argument if all edges pass the same argument, or the parameter
    itself."""
    operands: dict[Value, Operand] = {}
    passed = _edge_arguments(function)
    changed = True
    while changed:
        changed = False
        for label in cfg(function).order[1:]:
            for index, parameter in enumerate(function.blocks[label].parameters):
                if parameter not in operands:
                    only = _only(parameter, index, passed[label], operands)
                    if only is not None:
                        operands[parameter] = only
                        changed = True
    return _substitute(function, operands) if operands else function


def thread_jumps(function: Function) -> Function:
    """Redirect edges to blocks that hold only a `br` to its target.

    Blocks are visited in post-order, so that a block whose branch becomes a jump is bypassed as
    well.
    """
    blocks, empty = dict(function.blocks), dict[str, Block]()
    ends, hopeless = _Ends(empty), _hopeless(function)
    for label in reversed(cfg(function).order):
        old = blocks[label]
        last = _fold(_thread_jumps(old.terminator, ends), hopeless)
        if last is not old.terminator:
            blocks[label] = attrs.evolve(old, ops=(*old.ops[:-1], last))
        new = blocks[label]
        passed = len(new.ops) == 1 and _jumps_only(new) and label != function.entry.label
        if passed and not _read_elsewhere(function, old):
            empty[label] = new
    changed = function.with_blocks(blocks)
    return function if changed is function else drop_unreachable(changed)


def merge_blocks(function: Function) -> Function:
    """Append a block to its only predecessor, if it is the only successor of that block."""
    graph = cfg(function)
    absorbed: dict[str, str] = {}
    env: dict[Value, Operand] = {}
    for label in graph.order[1:]:
        before = graph.predecessors[label]
        terminator = function.blocks[before[0]].terminator
        if len(before) == 1 and len(terminator.successors) == 1:
            absorbed[before[0]] = label
            arguments = terminator.successors[0].arguments
            env.update(zip(function.blocks[label].parameters, arguments, strict=True))
    if not absorbed:
        return function
    gone = set(absorbed.values())
    merged = {
        label: _chain(function, label, absorbed) for label in function.blocks if label not in gone
    }
    return rewrite(function.with_blocks(merged), {}, replaced=_resolve(env))


STEPS: tuple[Callable[[Function], Function], ...] = (
    fold_branches, drop_unreachable, drop_parameters, thread_jumps, merge_blocks,
)  # fmt: skip
"""The steps of one iteration, in order."""


def _hopeless(function: Function) -> set[str]:
    """Blocks that begin with `unreachable`: no defined program executes them."""
    return {k for k, block in function.blocks.items() if isinstance(block.ops[0], Unreachable)}


def _fold(op: Op, hopeless: set[str]) -> Op:
    if not isinstance(op, CondBranch):
        return op
    then, otherwise = op.then, op.otherwise
    if isinstance(op.condition, Constant):
        target = then if op.condition.bits else otherwise
    elif then == otherwise or otherwise.label in hopeless:
        target = then
    elif then.label in hopeless:
        target = otherwise
    else:
        return op
    return Branch(
        target, stages=op.stages, unroll=op.unroll, independent_loads=op.independent_loads,
        independent_iterations=op.independent_iterations, location=op.location,
        comments=op.comments,
    )  # fmt: skip


def _with_terminators(function: Function, change: Callable[[Op], Op]) -> Function:
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        new = change(block.terminator)
        same = new is block.terminator
        blocks[label] = block if same else attrs.evolve(block, ops=(*block.ops[:-1], new))
    return function.with_blocks(blocks)


def _edge_arguments(function: Function) -> dict[str, list[tuple[Operand, ...]]]:
    """The arguments of every edge, by the block it leads to."""
    operands: dict[str, list[tuple[Operand, ...]]] = {label: [] for label in function.blocks}
    for block in function.blocks.values():
        for edge in block.successors:
            operands[edge.label].append(edge.arguments)
    return operands


def _only(
    parameter: Value,
    index: int,
    passed: list[tuple[Operand, ...]],
    operands: Mapping[Value, Operand],
) -> Operand | None:
    """The value that all edges pass as argument `index`, apart from the parameter itself; None if
    they differ."""
    only: Operand | None = None
    for arguments in passed:
        argument = arguments[index]
        while type(argument) is Value and argument in operands:
            argument = operands[argument]
        if argument is parameter or argument == only:
            continue
        if only is not None:
            return None
        only = argument
    return only


def _resolve(env: dict[Value, Operand]) -> dict[Value, Operand]:
    """`env` with chains of replacements followed to their ends."""
    operands: dict[Value, Operand] = {}
    for value, operand in env.items():
        path: list[Value] = []
        while type(operand) is Value and operand in env and operand not in operands:
            path.append(operand)
            operand = env[operand]
        end = operands.get(operand, operand) if type(operand) is Value else operand
        operands.update(dict.fromkeys((value, *path), end))
    return operands


def _substitute(function: Function, operands: dict[Value, Operand]) -> Function:
    """`function` without the parameters in `operands`, which stand for other operands."""
    keeping = {
        label: tuple(p not in operands for p in block.parameters)
        for label, block in function.blocks.items()
        if any(p in operands for p in block.parameters)
    }
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        last = without_arguments(block.terminator, keeping)
        parameters = tuple(p for p in block.parameters if p not in operands)
        if last is not block.terminator or label in keeping:
            block = attrs.evolve(block, parameters=parameters, ops=(*block.ops[:-1], last))
        blocks[label] = block
    return rewrite(function.with_blocks(blocks), {}, replaced=_resolve(operands))


def _jumps_only(block: Block) -> bool:
    op = block.terminator
    if not isinstance(op, Branch) or op.stages is not None or op.unroll is not None:
        return False
    return not op.independent_loads and op.successors[0].label != block.label


def _read_elsewhere(function: Function, block: Block) -> bool:
    """Whether a parameter of `block` is read by any other block: then it cannot be left out."""
    readers = uses(function)
    return any(
        reader is not block.terminator for p in block.parameters for reader in readers.get(p, ())
    )


def _thread_jumps(op: Op, ends: _Ends) -> Op:
    """`op` with its edges led past `empty` blocks, unless two would then pass one block different
    arguments."""
    new = map_edges(op, ends.of)
    passed: dict[str, Successor] = {}
    for edge in new.successors:
        if passed.setdefault(edge.label, edge) != edge:
            return op
    return new


class _Ends:
    """The targets of edges beyond empty blocks.

    Each empty block is visited once: the rest of the path is cached as an edge in terms of its
    parameters. A cycle of empty blocks is a target itself.
    """

    def __init__(self, empty: Mapping[str, Block]) -> None:
        self.empty = empty
        self.targets: dict[str, Successor | None] = {}

    def of(self, edge: Successor) -> Successor:
        """`edge`, led to the first block that is not passed."""
        after = self._successor_edge(edge.label)
        return edge if after is None else self._compose(edge, after)

    def _successor_edge(self, label: str) -> Successor | None:
        """The edge of the jump of block `label`; None if the path ends there."""
        path: list[str] = []
        on_path: set[str] = set()
        while label in self.empty and label not in self.targets and label not in on_path:
            path.append(label)
            on_path.add(label)
            label = self.empty[label].terminator.successors[0].label
        if label in on_path:
            at = path.index(label)
            self.targets.update(dict.fromkeys(path[at:]))
            del path[at:]
        for passed in reversed(path):
            edge = self.empty[passed].terminator.successors[0]
            further = self.targets.get(edge.label)
            self.targets[passed] = edge if further is None else self._compose(edge, further)
        return self.targets.get(path[0] if path else label)

    def _compose(self, edge: Successor, after: Successor) -> Successor:
        """`edge` and then `after`, which is in terms of the parameters of the block between."""
        env = dict(zip(self.empty[edge.label].parameters, edge.arguments, strict=True))
        passed = (env.get(v, v) if type(v) is Value else v for v in after.arguments)
        return Successor(after.label, tuple(passed))


def _chain(function: Function, label: str, absorbed: Mapping[str, str]) -> Block:
    """Block `label` with the blocks after it that are only reached through it."""
    block = function.blocks[label]
    if label not in absorbed:
        return block
    ops, at = list(block.ops), label
    while at in absorbed:
        at = absorbed[at]
        ops[-1:] = function.blocks[at].ops
    return attrs.evolve(block, ops=ops)
