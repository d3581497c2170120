"""Statements of a kernel."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tileir.frontends.triton import semantic
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.expressions import (
    binary,
    evaluate,
    is_static,
    static_items,
)
from tileir.frontends.triton.frame import Frame
from tileir.frontends.triton.language import control
from tileir.frontends.triton.language.builtin import static
from tileir.frontends.triton.language.debugging import device_assert, static_assert
from tileir.frontends.triton.language.shape_ops import HINTS
from tileir.frontends.triton.names import to_tensors
from tileir.frontends.triton.tensor import Tensor, of


def run(frame: Frame, body: Sequence[ast.stmt]) -> bool:
    """Compile statements; returns whether their end is reachable. Raises CompilationError."""
    for node in body:
        rule = _RULES.get(type(node))
        with frame.at(node):
            if rule is None:
                what = type(node).__name__
                raise KernelError(f"kernels have no {what} statements", "TIR1001")
            if rule(frame, node) is False:
                return False
    return True


# Assignment ---------------------------------------------------------------------------------


def _assign(frame: Frame, node: ast.Assign) -> None:
    value = evaluate(frame, node.value)
    for target in node.targets:
        _bind(frame, target, value)


def _bind(frame: Frame, target: ast.expr, value: Any) -> None:
    if isinstance(target, ast.Name):
        frame.names.set(target.id, to_tensors(frame.b, value))
    elif isinstance(target, (ast.Tuple, ast.List)):
        if any(isinstance(part, ast.Starred) for part in target.elts):
            raise KernelError("`*` in the target of an assignment is not supported", "TIR1001")
        items = static_items(value)
        if len(items) != len(target.elts):
            raise KernelError(f"{len(items)} values for {len(target.elts)} names", "TIR1003")
        for part, item in zip(target.elts, items, strict=True):
            _bind(frame, part, item)
    else:
        message = "a tensor cannot be changed in place; use tl.store(p + i, value) for memory, "
        message += "or tl.where for elements"
        raise KernelError(message, "TIR1001")


def _annotated_assign(frame: Frame, node: ast.AnnAssign) -> None:
    """`x: tl.constexpr = 4` is a compile-time value; other annotations have no effect, as in
    Triton."""
    if node.value is None:
        return
    value = evaluate(frame, node.value)
    if "constexpr" in ast.unparse(node.annotation) and isinstance(node.target, ast.Name):
        constant = static(value, node.target.id)
        frame.names.bindings.pop(node.target.id, None)
        frame.names.set(node.target.id, constant)
        return
    _bind(frame, node.target, value)


def _augmented_assign(frame: Frame, node: ast.AugAssign) -> None:
    if not isinstance(node.target, ast.Name):
        raise KernelError("only names are assigned to", "TIR1001")
    old = frame.look_up(node.target.id)
    _bind(frame, node.target, binary(frame, type(node.op), old, evaluate(frame, node.value)))


def _expression(frame: Frame, node: ast.Expr) -> None:
    """A hint whose result is not used holds for the name that is its argument, as in Triton. In a
    loop it has no effect: it does not hold for the iterations whose loads are prefetched."""
    value, call = evaluate(frame, node.value), node.value
    if not isinstance(call, ast.Call) or not call.args or not isinstance(call.args[0], ast.Name):
        return
    name = call.args[0].id
    is_bound = name in frame.names.bindings and not frame.names.loops
    if is_bound and isinstance(value, Tensor) and evaluate(frame, call.func) in HINTS:
        frame.names.set(name, value)


# Branches -----------------------------------------------------------------------------------


def _if(frame: Frame, node: ast.If) -> bool:
    test = evaluate(frame, node.test)
    if is_static(test):
        return run(frame, node.body if test else node.orelse)
    chosen = semantic.scalar_condition(frame.b, test)
    if chosen.number is not None:
        return run(frame, node.body if chosen.number else node.orelse)
    return _branches(frame, node, chosen)


def _branches(frame: Frame, node: ast.If, chosen: Tensor) -> bool:
    names, b = frame.names, frame.b
    frame.nested += 1
    with b.if_(chosen.expr):
        before = names.branch()
        through = run(frame, node.body)
        then = names.leave(before)
    with b.else_():
        names.branch(then)
        other_through = run(frame, node.orelse)
        names_of_branch = names.leave(before)
    frame.nested -= 1
    if through and other_through:
        names.join(then, names_of_branch)
    else:
        names.bindings = then if through else names_of_branch
    return through or other_through


# Loops --------------------------------------------------------------------------------------


def _for(frame: Frame, node: ast.For) -> bool:
    if node.orelse:
        raise KernelError("a loop has no else", "TIR1001")
    items = evaluate(frame, node.iter)
    if isinstance(items, control.range):
        return _range_loop(frame, node, items)
    return _unroll(frame, node, static_items(items))


def _unroll(frame: Frame, node: ast.For, items: Sequence[Any]) -> bool:
    """A loop whose iterations are compiled one after the other."""
    frame.unrolled.append((len(frame.names.loops), frame.nested))
    through = True
    for item in items:
        _bind_item(frame, node.target, item)
        through = run(frame, node.body)
        left, frame.left = frame.left, None
        through = through or left is not None
        if not through or left is ast.Break:
            break
    frame.unrolled.pop()
    return through


def _bind_item(frame: Frame, target: ast.expr, item: Any) -> None:
    """Bind the variable of an unrolled loop; a compile-time value stays one."""
    if isinstance(target, ast.Name):
        frame.names.bindings.pop(target.id, None)
        frame.names.set(target.id, item)
    else:
        _bind(frame, target, item)


def _range_loop(frame: Frame, node: ast.For, items: control.range) -> bool:
    if not isinstance(node.target, ast.Name):
        raise KernelError("a loop over a range needs one name as its target", "TIR1001")
    bounds = [of(frame.b, n) for n in items.bounds]
    kind = bounds[0].dtype
    for bound in bounds[1:]:
        kind = semantic.common(frame.b, Tensor(frame.b.undef(kind.element), kind), bound)[0].dtype
    low, high, step = (semantic.cast(n, kind).expr for n in bounds)
    names = frame.names
    frame.nested += 1
    with frame.b.for_(
        low, high, step, name=node.target.id, **_options(frame, items, node.body)
    ) as index:
        before = names.enter_loop()
        other = names.set_variable(node.target.id, Tensor(index, kind))
        if run(frame, node.body):
            names.end_iteration()
        names.leave_loop(before)
    if other:
        names.drop(node.target.id, "was the variable of a loop, of another type than before")
    frame.nested -= 1
    return True


def _options(frame: Frame, items: control.range, body: list[ast.stmt]) -> dict[str, Any]:
    """The attributes of a loop.

    `num_stages` is that of the loop, or else of the launch. With more than one stage, an innermost
    loop promises `independent_loads`, as Triton's software pipeliner assumes: it moves loads that
    dots need ahead of the stores of the loop. In a loop with a number of stages of its own, it
    moves other loads, too, which is `independent_iterations`.
    """
    options: dict[str, Any] = {}
    stated = frame.b.current.header.attributes.get("num_stages")
    if items.num_stages is not None:
        options["stages"] = static(items.num_stages, "num_stages")
    elif stated is not None:
        options["stages"] = stated
    if items.loop_unroll_factor is not None:
        options["unroll"] = static(items.loop_unroll_factor, "loop_unroll_factor")
    inner = any(isinstance(x, (ast.For, ast.While)) for node in body for x in ast.walk(node))
    if not inner and options.get("stages", 2) > 1:
        options["independent_loads"] = True
        if items.num_stages is not None:
            options["independent_iterations"] = True
    return options


def _while(frame: Frame, node: ast.While) -> bool:
    if node.orelse:
        raise KernelError("a loop has no else", "TIR1001")

    def test() -> Any:
        return semantic.scalar_condition(frame.b, evaluate(frame, node.test)).expr

    frame.nested += 1
    with frame.b.while_(test):
        before = frame.names.enter_loop()
        if run(frame, node.body):
            frame.names.end_iteration()
        frame.names.leave_loop(before)
    frame.nested -= 1
    return True


def _break(frame: Frame, node: ast.Break) -> bool:
    return _leave(frame, node, frame.b.break_)


def _continue(frame: Frame, node: ast.Continue) -> bool:
    return _leave(frame, node, frame.b.continue_)


def _leave(frame: Frame, node: ast.Break | ast.Continue, jump: Callable[[], None]) -> bool:
    """End an iteration of the innermost loop: by a `jump`, or of an unrolled one by compiling no
    more of it."""
    loops, nested = frame.unrolled[-1] if frame.unrolled else (-1, 0)
    if len(frame.names.loops) > loops:
        frame.names.end_iteration()
        jump()
    elif frame.nested > nested:
        what = type(node).__name__.lower()
        message = f"{what} of an unrolled loop stands under a condition known while compiling only"
        raise KernelError(message, "TIR1004")
    else:
        frame.left = type(node)
    return False


# Other statements ---------------------------------------------------------------------------


def _return(frame: Frame, node: ast.Return) -> bool:
    value = None if node.value is None else evaluate(frame, node.value)
    frame.give_back(tuple(value) if isinstance(value, list) else value)
    return False


def _assert(frame: Frame, node: ast.Assert) -> None:
    test = evaluate(frame, node.test)
    message = "" if node.msg is None else evaluate(frame, node.msg)
    check = static_assert if is_static(test) else device_assert
    check.apply(frame, test, message)


def _raise(frame: Frame, node: ast.Raise) -> None:
    what = "an exception" if node.exc is None else ast.unparse(node.exc)
    raise KernelError(f"the kernel raises {what} here")


def _pass(frame: Frame, node: ast.stmt) -> None:
    return None


_RULES: dict[type[ast.stmt], Callable[..., Any]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated_assign,
    ast.AugAssign: _augmented_assign,
    ast.Expr: _expression,
    ast.If: _if,
    ast.For: _for,
    ast.While: _while,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Return: _return,
    ast.Assert: _assert,
    ast.Raise: _raise,
    ast.Pass: _pass,
    ast.Global: _pass,
    ast.Nonlocal: _pass,
}
