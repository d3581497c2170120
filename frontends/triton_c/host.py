"""Statements outside of functions: the host runs them, to fill constants (MAPL'19, Listing 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tileir.frontends.triton_c import ctypes, numbers, values
from tileir.frontends.triton_c.errors import CompilationError, ProgramError, error_at
from tileir.frontends.triton_c.reading import Text

_MOST_ITERATIONS = 1 << 20
"""The most iterations of a loop on the host, which is then treated as endless."""


class _Leave(Exception):  # noqa: N818 - `break`, which is no error
    pass


class _Continue(_Leave):
    pass


@attrs.define(eq=False)
class Host:
    """The host's names: numbers, and arrays that can be indexed. The types of some are known; for
    arrays, those of their elements."""

    text: Text
    names: dict[str, Any]
    kinds: dict[str, ctypes.CType]
    iterations: int = 0
    loops: int = 0

    def run(self, node: Any) -> None:
        """Execute a statement. Raises CompilationError."""
        self._apply_rule(node, _STATEMENTS.get(node.data))

    def value(self, node: Any) -> Any:
        """The value of an expression. Raises CompilationError."""
        return self._apply_rule(node, _EXPRESSIONS.get(node.data))

    def _apply_rule(self, node: Any, rule: Callable[[Host, Any], Any] | None) -> Any:
        place = self.text.place(getattr(node.meta, "line", 1), getattr(node.meta, "column", 1))
        try:
            if rule is None:
                raise ProgramError("the host does not do this", "TIR1001")
            return rule(self, node)
        except CompilationError:
            raise
        except ProgramError as error:
            raise error_at(error.message, place, error.code) from None
        except (IndexError, OverflowError, TypeError, ValueError) as error:
            raise error_at(str(error), place, "TIR1003") from None

    def look_up(self, name: str) -> Any:
        """The value of `name`. Raises ProgramError."""
        if name not in self.names:
            raise ProgramError(f"the host has no {name}; give it as constants={{...}}", "TIR1002")
        return self.names[name]

    def convert(self, name: str, value: Any) -> Any:
        """`value` as `name` holds it, or as its elements are. Raises ProgramError."""
        return values.as_kind(value, self.kinds[name]) if name in self.kinds else value


def execute(
    text: Text, statements: list[Any], names: Mapping[str, Any], kinds: Mapping[str, ctypes.CType]
) -> dict[str, Any]:
    """The host's names after `statements`; `kinds` are the types of elements of arrays among them.
    Raises CompilationError."""
    host = Host(text, dict(names), dict(kinds))
    for statement in statements:
        host.run(statement)
    return host.names


def _plain(host: Host, node: Any) -> None:
    if node.children and node.children[0] is not None:
        host.value(node.children[0])


def _block(host: Host, node: Any) -> None:
    for statement in node.children:
        host.run(statement)


def _declaration(host: Host, node: Any) -> None:
    words = next(n for n in node.children[0].children if n.data == "type_name")
    kind = ctypes.type_named(tuple(map(str, words.children)))
    for declarator in node.children[0].children:
        if declarator.data == "declarator":
            stars, name, extents, initial = declarator.children
            if stars.children or extents.children[0] is not None or kind is ctypes.VOID:
                raise ProgramError("the host's variables are numbers, and alloc_const is memory")
            host.kinds[str(name)] = kind
            value = 0 if initial is None else host.value(initial)
            host.names[str(name)] = host.convert(str(name), value)


def _if(host: Host, node: Any) -> None:
    test, then, *otherwise = node.children
    for statement in [then] if host.value(test) else otherwise:
        host.run(statement)


def _while(host: Host, node: Any) -> None:
    test, body = node.children
    _loop(host, test, body, None)


def _do_while(host: Host, node: Any) -> None:
    body, test = node.children
    _loop(host, test, body, None, test_first=False)


def _for(host: Host, node: Any) -> None:
    first, test, step, body = node.children
    for inner in first.children:
        if inner is not None:
            if inner.data == "variable":
                _declaration(host, first)
            else:
                host.value(inner)
    _loop(host, test, body, step)


def _loop(host: Host, test: Any, body: Any, step: Any, *, test_first: bool = True) -> None:
    host.loops += 1
    while not test_first or test is None or host.value(test):
        test_first = True
        _count_iteration(host)
        try:
            host.run(body)
        except _Continue:
            pass
        except _Leave:
            break
        if step is not None:
            host.value(step)
    host.loops -= 1


def _count_iteration(host: Host) -> None:
    host.iterations += 1
    if host.iterations > _MOST_ITERATIONS:
        raise ProgramError(f"more than {_MOST_ITERATIONS} iterations on the host", "TIR1001")


def _jump(kind: type[_Leave]) -> Callable[[Host, Any], None]:
    def apply(host: Host, node: Any) -> None:
        if not host.loops:
            raise ProgramError("there is no loop to leave", "TIR1001")
        raise kind

    return apply


def _assign(host: Host, node: Any) -> Any:
    target, sign, source = node.children
    new, op = host.value(source), str(sign)[:-1]
    if op:
        new = numbers.binary(op, host.value(target), new)
    return _write(host, target, new)


def _write(host: Host, target: Any, new: Any) -> Any:
    """`target = new`; returns the new value. Raises ProgramError."""
    if target.data == "subscript":
        array, index = _element(host, target)
        if (
            target.children[0].data != "name"
            or str(target.children[0].children[0]) not in host.kinds
        ):
            raise ProgramError("the host changes elements of its own constants only")
        array[index] = host.convert(str(target.children[0].children[0]), new)
        return array[index]
    if target.data != "name":
        raise ProgramError("the host assigns to names and elements of arrays", "TIR1001")
    name = str(target.children[0])
    if hasattr(host.look_up(name), "__len__"):
        raise ProgramError(f"{name} is memory: its elements are assigned to")
    host.names[name] = host.convert(name, new)
    return host.names[name]


def _element(host: Host, node: Any) -> tuple[Any, int]:
    array, items = host.value(node.children[0]), node.children[1].children
    index = host.value(items[0])
    if not hasattr(array, "__len__"):
        raise ProgramError(f"{array} has no elements")
    if len(items) != 1 or not 0 <= index < len(array):
        raise ProgramError(f"there is no element {index} of {len(array)}")
    return array, index


def _subscript(host: Host, node: Any) -> Any:
    array, index = _element(host, node)
    return array[index].item() if hasattr(array[index], "item") else array[index]


def _binary(host: Host, node: Any) -> Any:
    left, sign, right = node.children
    return numbers.binary(str(sign), host.value(left), host.value(right))


def _unary(host: Host, node: Any) -> Any:
    return numbers.unary(str(node.children[0]), host.value(node.children[1]))


def _conditional(host: Host, node: Any) -> Any:
    test, then, otherwise = node.children
    return host.value(then if host.value(test) else otherwise)


def _step(host: Host, node: Any) -> Any:
    before = node.data == "before"
    target, sign = (node.children[1], node.children[0]) if before else node.children
    old = host.value(target)
    new = _write(host, target, numbers.binary(str(sign)[0], old, 1))
    return new if before else old


def _cast(host: Host, node: Any) -> Any:
    words, stars, extents, operand = node.children
    if stars.children or extents.children[0] is not None:
        raise ProgramError("the host computes with numbers")
    return values.as_kind(host.value(operand), ctypes.type_named(tuple(map(str, words.children))))


def _sequence(host: Host, node: Any) -> Any:
    return [host.value(part) for part in node.children][-1]


_STATEMENTS: dict[str, Callable[[Host, Any], None]] = {
    "plain": _plain, "block": _block, "declaration": _declaration, "if_": _if, "if_else": _if,
    "while_": _while, "do_while": _do_while, "for_": _for, "break_": _jump(_Leave),
    "continue_": _jump(_Continue),
}  # fmt: skip

_EXPRESSIONS: dict[str, Callable[[Host, Any], Any]] = {
    "number": lambda host, node: numbers.parse(str(node.children[0])),
    "truth": lambda host, node: node.children[0] == "true",
    "name": lambda host, node: host.look_up(str(node.children[0])),
    "assign": _assign, "subscript": _subscript, "binary": _binary, "unary": _unary,
    "conditional": _conditional, "before": _step, "after": _step, "cast": _cast,
    "sequence": _sequence,
}  # fmt: skip
