"""Statements of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileir.frontends.triton_c import ctypes, values
from tileir.frontends.triton_c.ctypes import CType, pointer_to, type_named
from tileir.frontends.triton_c.errors import ProgramError
from tileir.frontends.triton_c.expressions import effect, evaluate, extents, type_of
from tileir.frontends.triton_c.frame import Frame, OpenLoopFrame
from tileir.frontends.triton_c.values import TypedValue, describe
from tileir.types import AddressSpace, tile


def run(frame: Frame, node: Any) -> bool:
    """Compile a statement; returns whether its end is reachable. Raises CompilationError."""
    rule = _RULES.get(node.data)
    with frame.at(node):
        if rule is None:
            raise ProgramError("this declaration is not allowed in a function", "TIR1001")
        return rule(frame, node) is not False


def run_all(frame: Frame, nodes: Any) -> bool:
    """Compile statements up to the first one whose end is unreachable."""
    return all(run(frame, node) for node in nodes)


def _block(frame: Frame, node: Any) -> bool:
    with frame.block():
        return run_all(frame, node.children)


def _plain(frame: Frame, node: Any) -> None:
    if node.children and node.children[0] is not None:
        effect(frame, node.children[0])


# Declarations -------------------------------------------------------------------------------


def _declaration(frame: Frame, node: Any) -> None:
    declare_variables(frame, node.children[0])


def declare_variables(frame: Frame, node: Any) -> None:
    """`int a[16], *p = x;`"""
    *specifiers, words = [n for n in node.children if n.data != "declarator"]
    constant = any(str(s.children[0]) == "__constant__" for s in specifiers if s.children)
    base = type_named(tuple(map(str, words.children)))
    for declarator in node.children:
        if declarator.data == "declarator":
            with frame.at(declarator):
                _declare(frame, base, declarator, constant)


def _declare(frame: Frame, base: CType, node: Any, constant: bool) -> None:
    stars, name, shape_node, initial = node.children
    kind, shape = type_of(base, stars), extents(frame, shape_node)
    if constant and kind.pointee is not None:
        kind = pointer_to(kind.pointee, AddressSpace.CONSTANT)
    if kind is ctypes.VOID:
        raise ProgramError("a value cannot have type void")
    if initial is None:
        value = TypedValue(frame.b.undef(tile(kind.element, shape)), kind)
    else:
        frame.expected = shape
        initial_value = evaluate(frame, initial)
        frame.expected = None
        value = values.fit(values.convert(frame.b, initial_value, kind), shape)
    frame.declare(str(name), kind, shape, value)


# Branches -----------------------------------------------------------------------------------


def _scalar(frame: Frame, node: Any) -> TypedValue | bool:
    """A condition that control depends on. Raises ProgramError for a tile."""
    result = evaluate(frame, node)
    if not isinstance(result, TypedValue):
        return bool(result)
    condition = values.condition(frame.b, result)
    if condition.shape:
        raise ProgramError(f"control cannot follow {describe(condition)}; predicate with @")
    return condition


def _if(frame: Frame, node: Any) -> bool:
    test, then, *otherwise = node.children
    chosen = _scalar(frame, test)
    if isinstance(chosen, bool):
        statements = [then] if chosen else otherwise
        return run_all(frame, statements)
    with frame.b.if_(chosen.expr), frame.block():
        through = run(frame, then)
    if not otherwise:
        return True
    with frame.b.else_(), frame.block():
        other = run(frame, otherwise[0])
    return through or other


def _under_predicate(frame: Frame, node: Any) -> bool:
    mask, body = node.children
    predicate = values.condition(frame.b, evaluate(frame, mask))
    with frame.under(predicate):
        if not run(frame, body):
            raise ProgramError("control cannot leave under a predicate", "TIR1001")
    return True


# Loops --------------------------------------------------------------------------------------


def _loop(frame: Frame, test: Any, body: Any, step: Any, *, test_first: bool = True) -> bool:
    b = frame.b
    header, inside = b.block("loop"), b.block("body")
    latch, done = b.block("latch"), b.block("done")
    b.br(header if test_first else inside)
    b.enter(header)
    chosen = True if test is None else _scalar(frame, test)
    b.cond_br(chosen.expr if isinstance(chosen, TypedValue) else chosen, inside, done)
    b.enter(inside)
    frame.loops.append(OpenLoopFrame(latch, done, frame.predicate))
    if run(frame, body):
        b.br(latch)
    elif b.current.block is not None:
        b.unreachable()
    loop = frame.loops.pop()
    b.enter(latch)
    if step is not None:
        effect(frame, step)
    b.br(header)
    b.enter(done)
    endless = chosen is True and not loop.left
    if endless:
        b.unreachable()
    return not endless


def _while(frame: Frame, node: Any) -> bool:
    test, body = node.children
    return _loop(frame, test, body, None)


def _do_while(frame: Frame, node: Any) -> bool:
    body, test = node.children
    return _loop(frame, test, body, None, test_first=False)


def _for(frame: Frame, node: Any) -> bool:
    first, test, step, body = node.children
    with frame.block():
        if first.children and first.children[0] is not None:
            (inner,) = first.children
            if inner.data == "variable":
                declare_variables(frame, inner)
            else:
                effect(frame, inner)
        return _loop(frame, test, body, step)


def _jump(leaves: bool) -> Callable[[Frame, Any], bool]:
    def apply(frame: Frame, node: Any) -> bool:
        if not frame.loops:
            raise ProgramError("there is no loop to leave", "TIR1001")
        loop = frame.loops[-1]
        if frame.predicate is not loop.predicate:
            raise ProgramError("control cannot leave under a predicate", "TIR1001")
        loop.left |= leaves
        frame.b.br(loop.done if leaves else loop.continue_to)
        return False

    return apply


def _return(frame: Frame, node: Any) -> bool:
    value = node.children[0] if node.children else None
    if frame.predicate is not frame.outside:
        raise ProgramError("control cannot leave under a predicate", "TIR1001")
    if frame.exit is None:
        if value is not None:
            raise ProgramError("a kernel returns nothing", "TIR1001")
        frame.b.ret()
        return False
    if frame.result in (None, ctypes.VOID):
        if value is not None:
            raise ProgramError("this function returns nothing")
        frame.b.br(frame.exit)
        return False
    if value is None:
        raise ProgramError(f"this function returns {frame.result}")
    assert frame.result is not None
    result = values.convert(frame.b, evaluate(frame, value), frame.result)
    if result.shape:
        raise ProgramError(f"this function returns {frame.result}, not {describe(result)}")
    frame.b.br(frame.exit(result.expr))
    return False


_RULES: dict[str, Callable[[Frame, Any], Any]] = {
    "block": _block, "plain": _plain, "declaration": _declaration, "if_": _if, "if_else": _if,
    "predicated": _under_predicate, "while_": _while, "do_while": _do_while, "for_": _for,
    "break_": _jump(leaves=True), "continue_": _jump(leaves=False), "return_": _return,
}  # fmt: skip
