"""Loop-invariant code motion."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from tileir.analysis.aliases import aliases
from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import Dominance, dominance
from tileir.analysis.loops import Loop, Loops, loops
from tileir.effects import Effects
from tileir.errors import Diagnostic
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.control import Branch
from tileir.passes.cfg_edit import fresh, fresh_label, map_edges
from tileir.passmanager.registry import PassResult, pass_, remark
from tileir.values import Value

_CHANGES_MEMORY = (Effects.WRITE | Effects.SYNC).value


@pass_("licm")
def licm(function: Function, *, max_depth: int = 0) -> PassResult:
    """Hoist loop-invariant ops to the preheader.

    - An op without effects is hoisted if its operands are defined outside the loop.
    - An op that may trap is hoisted only if every execution of the loop runs it: its block
      dominates every exit and every latch.
    - An op that reads memory is hoisted, under the same condition, only if no op in the loop may
      change the memory that it reads (`tileir.analysis.aliases`).

    An op leaves as many nested loops as these rules allow. Loops nested deeper than `max-depth` are
    not changed; 0 is no limit. A loop without a preheader gets one if an op is hoisted out of it. A
    load that a store in the loop may change stays in the loop, with a remark.

    before:
        define kernel void @f(i32* %p, i32 %a, i32 %n) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %s = phi i32 [0, entry], [%t, loop]
          %b = mul i32 %a, %a
          %t = add i32 %s, %b
          %j = add i32 %i, 1
          %more, _ = icmp (i1, i1) %j, %n {predicate = slt}
          cond_br %more, loop, exit
        exit:
          store %p, %t
          ret
        }
    after:
        define kernel void @f(i32* %p, i32 %a, i32 %n) {
        entry:
          %b = mul i32 %a, %a
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %s = phi i32 [0, entry], [%t, loop]
          %t = add i32 %s, %b
          %j = add i32 %i, 1
          %more, _ = icmp (i1, i1) %j, %n {predicate = slt}
          cond_br %more, loop, exit
        exit:
          store %p, %t
          ret
        }
    """
    result = loops(function)
    if not result.by_header:
        return PassResult(function)
    motion = _Motion(function, result, max_depth)
    for label in cfg(function).order:
        if label in result.innermost:
            motion.visit(function.blocks[label])
    if not motion.moved:
        return PassResult(function, tuple(motion.remarks))
    count = sum(map(len, motion.moved.values()))
    return PassResult(_apply(function, motion), tuple(motion.remarks), {"ops moved": count})


def hoist(function: Function, is_requested: Callable[[Op], bool]) -> Function:
    """`function` with the loop-invariant ops that are requested, and what they are computed from,
    in the preheaders to which `licm` hoists them."""
    result = loops(function)
    if not result.by_header:
        return function
    motion = _Motion(function, result, 0)
    for label in cfg(function).order:
        if label in result.innermost:
            motion.visit(function.blocks[label])
    motion.keep(is_requested)
    return _apply(function, motion) if motion.moved else function


class _Motion:
    """The ops to hoist and their preheaders, decided in reverse post-order."""

    def __init__(self, function: Function, loops: Loops, max_depth: int) -> None:
        self.function = function
        self.loops = loops
        self.max_depth = max_depth
        self.tree = dominance(function)
        self.moved: dict[str, list[Op]] = {}
        self.gone: set[Op] = set()
        self.remarks: list[Diagnostic] = []
        self.level: dict[Value, str] = {}
        """The header of the innermost loop in which a value is defined."""
        self.writers = {h: _writers(function, loop) for h, loop in loops.by_header.items()}
        self.certain = {h: _certain(loop, self.tree) for h, loop in loops.by_header.items()}

    def visit(self, block: Block) -> None:
        header = self.loops.innermost[block.label]
        for value in block.parameters:
            self.level[value] = header
        for op in block.ops:
            target = self._target(op, block.label, header)
            above = header if target is None else self.loops.by_header[target].parent
            if target is not None:
                self.moved.setdefault(target, []).append(op)
                self.gone.add(op)
            if above is not None:
                self.level.update(dict.fromkeys(op.results, above))

    def keep(self, is_requested: Callable[[Op], bool]) -> None:
        """Hoist only the ops that are requested, and those before the loop that they need."""
        made_by = {v: op for op in self.gone for v in op.results}
        kept, pending = set[Op](), [op for op in self.gone if is_requested(op)]
        while pending:
            op = pending.pop()
            if op not in kept:
                kept.add(op)
                pending += [made_by[v] for v in op.operands if v in made_by]
        chosen = {h: [op for op in ops if op in kept] for h, ops in self.moved.items()}
        self.moved, self.gone = {h: ops for h, ops in chosen.items() if ops}, kept

    def _target(self, op: Op, label: str, header: str) -> str | None:
        """The header of the outermost loop that `op` may leave."""
        effects = op.effects
        if effects.value & ~(Effects.READ | Effects.TRAP).value or not op.results:
            return None
        target, current = None, self.loops.by_header.get(header)
        while current is not None and self._invariant(op, current.header):
            deep = self.max_depth and current.depth > self.max_depth
            if deep or not self._safe(op, effects, current, label):
                break
            target, label = current.header, current.header
            current = None if current.parent is None else self.loops.by_header[current.parent]
        return target

    def _invariant(self, op: Op, header: str) -> bool:
        return not any(
            type(v) is Value and self._inside(self.level.get(v), header) for v in op.operands
        )

    def _inside(self, level: str | None, header: str) -> bool:
        while level is not None:
            if level == header:
                return True
            level = self.loops.by_header[level].parent
        return False

    def _safe(self, op: Op, effects: Effects, loop: Loop, label: str) -> bool:
        if effects is Effects.PURE:
            return True
        if label not in self.certain[loop.header]:
            return False
        if Effects.READ not in effects:
            return True
        may_change = aliases(self.function).may_change
        writer = next((w for w in self.writers[loop.header] if may_change(w, op)), None)
        if writer is not None:
            self._explain(op, writer)
        return writer is None

    def _explain(self, op: Op, writer: Op) -> None:
        note = remark("TIR0651", f"{writer.mnemonic} may change memory", writer.location)
        message = f"{op.mnemonic} reads the same address in every iteration, but stays in the loop"
        self.remarks.append(remark("TIR0651", message, op.location, (note,)))


def _writers(function: Function, loop: Loop) -> list[Op]:
    """The ops of `loop` that may change memory."""
    ops = (op for label in loop.order for op in function.blocks[label].ops)
    return [op for op in ops if op.effects.value & _CHANGES_MEMORY]


def _certain(loop: Loop, tree: Dominance) -> frozenset[str]:
    """Blocks that run whenever the loop is entered."""
    ends = {source for source, _ in loop.exits} | set(loop.latches)
    return frozenset(b for b in loop.blocks if all(tree.dominates(b, end) for end in ends))


def _apply(function: Function, motion: _Motion) -> Function:
    blocks: dict[str, Block] = {}
    entering = _entering(motion)
    labels = set(function.blocks)
    redirected: dict[str, tuple[Loop, str]] = {}
    for header in motion.moved:
        loop = motion.loops.by_header[header]
        if loop.preheader is None:
            label = fresh_label(f"{header}.preheader", labels)
            labels.add(label)
            redirected[header] = (loop, label)
    for label, block in function.blocks.items():
        if label in redirected:
            result = _preheader(block, redirected[label][1], motion.moved[label])
            blocks[result.label] = _redirect(result, redirected)
        blocks[label] = _redirect(_without(block, motion.gone, entering.get(label, ())), redirected)
    return function.with_blocks(blocks)


def _entering(motion: _Motion) -> Mapping[str, list[Op]]:
    """Moved ops by the preheader, already there, that receives them."""
    result: dict[str, list[Op]] = {}
    for header, ops in motion.moved.items():
        before = motion.loops.by_header[header].preheader
        if before is not None:
            result[before] = ops
    return result


def _preheader(header: Block, label: str, moved: list[Op]) -> Block:
    parameters = tuple(fresh(v) for v in header.parameters)
    return Block(label, parameters, (*moved, Branch(Successor(header.label, parameters))))


def _without(block: Block, gone: set[Op], added: tuple[Op, ...] | list[Op]) -> Block:
    """`block` without the ops that are `gone`, with `added` before its terminator."""
    remaining = [op for op in block.ops if op not in gone]
    if len(remaining) == len(block.ops) and not added:
        return block
    return attrs.evolve(block, ops=(*remaining[:-1], *added, remaining[-1]))


def _redirect(block: Block, redirected: Mapping[str, tuple[Loop, str]]) -> Block:
    """`block` with its edges into loops led to their new preheaders."""

    def change(edge: Successor) -> Successor:
        result = redirected.get(edge.label)
        if result is None or block.label in result[0].blocks or block.label == result[1]:
            return edge
        return Successor(result[1], edge.arguments)

    last = map_edges(block.ops[-1], change)
    if last is block.ops[-1]:
        return block
    return attrs.evolve(block, ops=(*block.ops[:-1], last))
