"""Inlining of device functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from tileir.errors import PassError
from tileir.field import FieldKind
from tileir.ir import Block, Function, InlineHint, Module, Visibility
from tileir.limits import current, limit_diagnostic
from tileir.op import Effects, Op, Successor
from tileir.ops.control import Branch, CondBranch
from tileir.ops.symbols import Call
from tileir.passes.cfg_edit import copy_op, fresh, fresh_label, map_edges
from tileir.passmanager.registry import pass_
from tileir.types import I1
from tileir.values import Operand, Undef, Value


@pass_("inline")
def inline(module: Module) -> Module:
    """Replace calls of device functions by the bodies of the callees.

    Callees are inlined before their callers, so one pass suffices; recursion is not valid. A body
    of one block is spliced into the block of the call. A body of several blocks splits the block of
    the call; its second half gets the results as block parameters. A call under a scalar predicate
    becomes a branch around the body. A call under a tile predicate is inlined if the body is one
    block without effects.

    Functions marked `noinline` stay calls; combiner functions stay symbols. Private functions
    without references are removed. Raises PassError (TIR1601) if a function would have more ops
    than the limit.

    before:
        define private i32 @square(i32 %x) {
        entry:
          %y = mul i32 %x, %x
          ret %y
        }

        define kernel void @f(i32* %p, i32 %n) {
        entry:
          %s = call i32 @square, %n
          store %p, %s
          ret
        }
    after:
        define kernel void @f(i32* %p, i32 %n) {
        entry:
          %y = mul i32 %n, %n
          store %p, %y
          ret
        }
    """
    order = list(callees_first(module.functions))
    _check_size(module, order)
    done: dict[str, Function] = {}
    for name in order:
        done[name] = _inline(module.functions[name], done)
    functions = {name: done[name] for name in module.functions}
    return module.with_functions(_named_ones(module.with_functions(functions)))


def callees_first(functions: Mapping[str, Function]) -> Iterator[str]:
    """The names of `functions`, each after those it calls."""
    seen: set[str] = set()
    for root in functions:
        stack = [] if root in seen else [(root, _calls(functions, root))]
        seen.add(root)
        while stack:
            name, callees = stack[-1]
            following = next((n for n in callees if n not in seen and n in functions), None)
            if following is None:
                stack.pop()
                yield name
            else:
                seen.add(following)
                stack.append((following, _calls(functions, following)))


_FUNCTIONS = 8
"""All functions together may have this many times the ops of the limit for one function."""


def _check_size(module: Module, order: Iterable[str]) -> None:
    """Raises PassError (TIR1601) at the call with which a function has more operations than the
    limit, or at its last call where operations of its own follow; all functions together may have
    `_FUNCTIONS` times as many."""
    most, total = current().operations, 0
    sizes: dict[str, int] = {}
    for name in order:
        size, last = 0, None
        for op in module.functions[name].ops:
            callee = _target(op, module.functions)
            size += 1 if callee is None else sizes.get(callee.name, 1)
            last = last if callee is None else (op, callee.name)
            if last is not None and (size > most or total + size > _FUNCTIONS * most):
                what = f"inlining @{last[1]} into @{name} makes {size:,} operations"
                if size <= most:
                    what += f", and {total + size:,} of all functions"
                raise PassError(limit_diagnostic("operations", what, last[0].location))
        sizes[name] = size
        total += size if any(isinstance(op, Call) for op in module.functions[name].ops) else 0


def _calls(functions: Mapping[str, Function], name: str) -> Iterator[str]:
    return (op.callee for op in functions[name].ops if isinstance(op, Call))


def _inline(function: Function, done: Mapping[str, Function]) -> Function:
    if not any(_target(op, done) for op in function.ops):
        return function
    caller = _Caller(function, done)
    for block in function.blocks.values():
        caller.block(block)
    inlined = function.with_blocks(caller.blocks)
    if not caller.env:
        return inlined
    from tileir.rewrite import rewrite

    return rewrite(inlined, {}, replaced=caller.env)


def _target(op: Op, done: Mapping[str, Function]) -> Function | None:
    """The function whose body may replace `op`."""
    if not isinstance(op, Call):
        return None
    callee = done.get(op.callee)
    if callee is None or not callee.blocks or callee.inline is InlineHint.NEVER:
        return None
    return None if _by_lane(op) and not _is_pure_block(callee) else callee


def _by_lane(call: Call) -> bool:
    """Whether the predicate is a tile."""
    return call.predicate is not None and call.predicate.type is not I1


def _is_pure_block(function: Function) -> bool:
    """Whether the body may run where the predicate of a call is false, too."""
    pure = all(op.effects is Effects.PURE for op in function.entry.ops[:-1])
    return pure and len(function.blocks) == 1


class _Caller:
    """A function while calls in it are replaced."""

    def __init__(self, function: Function, done: Mapping[str, Function]) -> None:
        self.done = done
        self.labels = set(function.blocks)
        self.whole = ""
        """The block of the caller that is being split."""
        self.blocks: dict[str, Block] = {}
        self.env: dict[Value, Operand] = {}
        """What the results of spliced calls stand for."""

    def block(self, block: Block) -> None:
        ops: list[Op] = []
        self.whole = block.label
        for op in block.ops:
            callee = _target(op, self.done)
            if callee is None or not isinstance(op, Call):
                ops.append(op)
            elif _by_lane(op) or (len(callee.blocks) == 1 and op.predicate is None):
                self._splice(op, callee, ops)
            else:
                block, ops = self._split(block, ops, op, callee), []
        self._add(attrs.evolve(block, ops=ops) if tuple(ops) != block.ops else block)

    def _add(self, block: Block) -> None:
        self.labels.add(block.label)
        self.blocks[block.label] = block

    def _splice(self, call: Call, callee: Function, ops: list[Op]) -> None:
        env = self._arguments(call, callee)
        body = callee.entry.ops
        ops.extend(copy_op(op, env) for op in body[:-1])
        returned = body[-1].remap(env).inputs
        if body[-1].mnemonic == "ret":
            self.env.update(zip(call.results, returned, strict=True))
        else:
            self.env.update((r, Undef(r.type)) for r in call.results)

    def _split(self, block: Block, ops: list[Op], call: Call, callee: Function) -> Block:
        """End `block` in a branch to a copy of `callee`; the block that goes on after the call."""
        after = fresh_label(f"{self.whole}.after", self.labels)
        self.labels.add(after)
        labels = {label: self._label(callee, label) for label in callee.blocks}
        entry: Op = Branch(Successor(labels[callee.entry.label]), location=call.location)
        if call.predicate is not None:
            absent = Successor(after, tuple(Undef(r.type) for r in call.results))
            entry = CondBranch(call.predicate, entry.successors[0], absent, location=call.location)
        self._add(attrs.evolve(block, ops=(*ops, entry)))
        env = self._arguments(call, callee)
        for copied in callee.blocks.values():
            self._copy(copied, env, labels, after)
        return Block(after, call.results, ())

    def _label(self, callee: Function, label: str) -> str:
        result = fresh_label(f"{callee.name}.{label}", self.labels)
        self.labels.add(result)
        return result

    def _arguments(self, call: Call, callee: Function) -> dict[Value, Operand]:
        values = (p.value for p in callee.parameters)
        arguments = (self.env.get(v, v) if type(v) is Value else v for v in call.arguments)
        env: dict[Value, Operand] = dict(zip(values, arguments, strict=True))
        for block in callee.blocks.values():
            env.update((p, fresh(p)) for p in block.parameters)
        return env

    def _copy(
        self, block: Block, env: dict[Value, Operand], labels: Mapping[str, str], after: str
    ) -> None:
        parameters = tuple(v for p in block.parameters if isinstance(v := env[p], Value))
        ops = [copy_op(op, env) for op in block.ops]
        if ops[-1].mnemonic == "ret":
            ops[-1] = Branch(Successor(after, ops[-1].inputs), location=ops[-1].location)
        else:
            ops[-1] = map_edges(ops[-1], lambda e: Successor(labels[e.label], e.arguments))
        self._add(Block(labels[block.label], parameters, ops, block.comments, block.location))


def _named_ones(module: Module) -> dict[str, Function]:
    """The functions of `module` except private ones without references."""
    reached: set[str] = set()
    stack = [f.name for f in module.functions.values() if f.visibility is Visibility.PUBLIC]
    while stack:
        name = stack.pop()
        if name not in reached and name in module.functions:
            reached.add(name)
            stack.extend(n for op in module.functions[name].ops for n in _symbols(op))
    return {name: f for name, f in module.functions.items() if name in reached}


def _symbols(op: Op) -> Iterator[str]:
    """The functions and globals that `op` names."""
    for field in op.fields(FieldKind.SYMBOL):
        yield getattr(op, field.name)
    for field in op.fields(FieldKind.ATTRIBUTE):
        value = getattr(op, field.name)
        form = field.attribute.form if field.attribute is not None else ""
        if form in ("combiner", "symbol") and type(value) is str:
            yield value
