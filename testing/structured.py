"""Random structured programs. The builder builds a program as a kernel, and Python executes it
directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from tileir.builder import F32, I32, Builder, Expr, pointer
from tileir.ir import Module

EXTENT = 5
SCALARS, TILE, FLOATS = ("a", "b"), "t", "f"
STORES = 3
Statement: TypeAlias = tuple[Any, ...]

INTEGER = ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "max", "min", "where")
FLOATING = ("+", "-", "*", "max", "min", "where")
RELATIONS = ("<", "<=", ">", ">=", "==", "!=")


# Drawing -----------------------------------------------------------------------------------


def expressions(names: tuple[str, ...], operators: tuple[str, ...], depth: int = 2) -> Any:
    """Expressions as nested tuples of the variables `names` and small numbers."""
    leaves = st.sampled_from(names) | st.integers(-9, 9)
    if depth == 0:
        return leaves
    below = expressions(names, operators, depth - 1)
    return leaves | st.tuples(st.sampled_from(operators), below, below)


@st.composite
def bodies(draw: Any, depth: int, loops: int) -> list[Statement]:
    """Statements nested up to `depth`, inside `loops` loops."""
    kinds = ["set", "set", "store", "return"]
    kinds += ["if", "for", "while"] if depth else []
    kinds += ["break", "continue"] if loops else []
    result: list[Statement] = []
    for _ in range(draw(st.integers(0 if depth < 3 else 2, 4))):
        result.append(draw(statements(draw(st.sampled_from(kinds)), depth, loops)))
    return result


@st.composite
def statements(draw: Any, kind: str, depth: int, loops: int) -> Statement:
    """One statement: its kind, then the arguments of `_StatementWriter.on_KIND`."""
    scalars = SCALARS + tuple(f"i{n}" for n in range(loops))
    number = expressions(scalars, INTEGER)
    condition = st.tuples(st.sampled_from(RELATIONS), number, number)
    if kind == "set":
        name = draw(st.sampled_from((*SCALARS, TILE, FLOATS)))
        names = scalars + {TILE: (TILE,), FLOATS: (TILE, FLOATS)}.get(name, ())
        operators = FLOATING if name == FLOATS else INTEGER
        return kind, name, draw(expressions(names, operators))
    if kind == "store":
        return kind, draw(st.integers(0, STORES - 1)), draw(expressions((*scalars, TILE), INTEGER))
    if kind == "if":
        otherwise = draw(st.none() | bodies(depth - 1, loops))
        return kind, draw(condition), draw(bodies(depth - 1, loops)), otherwise
    if kind == "for":
        low, high = draw(st.integers(-2, 2)), draw(st.sampled_from((-2, 0, 1, 3, "a")))
        step = draw(st.sampled_from((1, 2, -1)))
        return kind, low, high, step, draw(bodies(depth - 1, loops + 1))
    if kind == "while":
        return kind, draw(condition), draw(st.integers(0, 3)), draw(bodies(depth - 1, loops + 1))
    return kind, draw(st.none() | condition)


# Building ----------------------------------------------------------------------------------


def build(program: list[Statement]) -> Module:
    """The program as kernel `main`. Variables a and b are its parameters; t and f are loaded from
    memory."""
    b = Builder(locations=False)
    types = {"t_in": pointer(I32), "f_in": pointer(F32), "out": pointer(I32), "fout": pointer(F32)}
    with b.kernel("main", a=I32, b=I32, **types) as (a, c, t_in, f_in, out, fout):
        lane = b.arange(EXTENT)
        env: dict[str, Any] = {
            "a": b.var(a, name="a"),
            "b": b.var(c, name="b"),
            TILE: b.var((t_in + lane).load(), name="t"),
            FLOATS: b.var((f_in + lane).load(), name="f"),
        }
        last, rows = out + STORES * EXTENT + lane, out + lane
        _StatementWriter(b, env, rows).body(program, 0)
        if b.insertion is not None:
            last.store(env["a"] + env[TILE] * env["b"])
            (fout + lane).store(env[FLOATS])
    return b.module()


class _StatementWriter:
    """Emits statements; `env` maps names to variables and loop counters."""

    def __init__(self, b: Builder, env: dict[str, Any], out: Expr) -> None:
        self.b, self.env, self.out = b, env, out

    def body(self, statements: list[Statement], loops: int) -> None:
        for kind, *parts in statements:
            if self.b.insertion is None:
                return  # no op may follow an unconditional jump
            getattr(self, f"on_{kind}")(loops, *parts)

    def on_set(self, loops: int, name: str, value: Any) -> None:
        result = self.value(value)
        if name == FLOATS and isinstance(result, Expr):
            result = result.to(F32)
        self.env[name].set(result)

    def on_store(self, loops: int, row: int, value: Any) -> None:
        (self.out + row * EXTENT).store(self.value(value))

    def on_if(self, loops: int, condition: Any, then: Any, otherwise: Any) -> None:
        with self.b.if_(self.value(condition)):
            self.body(then, loops)
        if otherwise is not None:
            with self.b.else_():
                self.body(otherwise, loops)

    def on_for(self, loops: int, low: Any, high: Any, step: int, body: Any) -> None:
        top = self.value(high)
        if isinstance(top, Expr):
            top = self.b.minimum(top, 4)
        with self.b.for_(low, top, step) as i:
            with self.b.if_(i < -4):
                self.b.break_()
            self.env[f"i{loops}"] = i
            self.body(body, loops + 1)

    def on_while(self, loops: int, condition: Any, iterations: int, body: Any) -> None:
        left = self.b.var(iterations)
        with self.b.while_(lambda: (left > 0) & self.value(condition)):
            left.set(left - 1)
            self.env[f"i{loops}"] = left.get()
            self.body(body, loops + 1)

    def on_break(self, loops: int, condition: Any) -> None:
        self.jump_if(condition, self.b.break_)

    def on_continue(self, loops: int, condition: Any) -> None:
        self.jump_if(condition, self.b.continue_)

    def on_return(self, loops: int, condition: Any) -> None:
        self.jump_if(condition, self.b.ret)

    def jump_if(self, condition: Any, jump: Callable[[], None]) -> None:
        if condition is None:
            jump()
            return
        with self.b.if_(self.value(condition)):
            jump()

    def value(self, e: Any) -> Any:
        if isinstance(e, str):
            return self.env[e]
        if isinstance(e, int):
            return e
        operator, left, right = e[0], self.value(e[1]), self.value(e[2])
        if not isinstance(left, Expr) and not isinstance(right, Expr):
            left = self.b.constant(I32, left)
        return OPERATORS[operator](self.b, left, right)


OPERATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "+": lambda b, x, y: x + y,
    "-": lambda b, x, y: x - y,
    "*": lambda b, x, y: x * y,
    "//": lambda b, x, y: x // ((y & 7) + 1),
    "%": lambda b, x, y: x % ((y & 7) + 1),
    "&": lambda b, x, y: x & y,
    "|": lambda b, x, y: x | y,
    "^": lambda b, x, y: x ^ y,
    "<<": lambda b, x, y: x << (y & 7),
    ">>": lambda b, x, y: x >> (y & 7),
    "max": lambda b, x, y: b.maximum(x, y),
    "min": lambda b, x, y: b.minimum(x, y),
    "where": lambda b, x, y: b.where(x < y, y - x, x),
    "<": lambda b, x, y: x < y,
    "<=": lambda b, x, y: x <= y,
    ">": lambda b, x, y: x > y,
    ">=": lambda b, x, y: x >= y,
    "==": lambda b, x, y: x == y,
    "!=": lambda b, x, y: x != y,
}
"""One text for both sides: `b` is the builder, or numpy's namespace for the reference."""


# Running directly -----------------------------------------------------------------------------


class _Numpy:
    maximum, minimum, where = np.maximum, np.minimum, np.where


class _Break(Exception):  # noqa: N818 - a jump, not an error
    pass


class _TestContinue(Exception):  # noqa: N818 - a jump, not an error
    pass


class _Return(Exception):  # noqa: N818 - a jump, not an error
    pass


JUMPS = {"break": _Break, "continue": _TestContinue, "return": _Return}


def run(
    program: list[Statement], a: int, b: int, t: np.ndarray, f: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The contents of `out` and `fout` after the kernel, computed by Python and numpy."""
    env: dict[str, Any] = {"a": np.int32(a), "b": np.int32(b), TILE: t.copy(), FLOATS: f.copy()}
    out = np.zeros((STORES + 1, EXTENT), np.int32)
    floats = np.zeros(EXTENT, np.float32)
    with np.errstate(all="ignore"):
        try:
            _run_body(program, env, out, 0)
            out[STORES] = env["a"] + env[TILE] * env["b"]
            floats[:] = env[FLOATS]
        except _Return:
            pass
    return out, floats


def _run_body(statements: list[Statement], env: dict[str, Any], out: np.ndarray, n: int) -> None:
    for kind, *parts in statements:
        if kind == "set":
            _run_set(env, *parts)
        elif kind == "store":
            out[parts[0]] = _value(parts[1], env)
        elif kind == "if":
            condition, then, otherwise = parts
            _run_body(then if _value(condition, env) else otherwise or [], env, out, n)
        elif kind in ("for", "while"):
            _run_loop(kind, parts, env, out, n)
        elif parts[0] is None or _value(parts[0], env):
            raise JUMPS[kind]


def _run_set(env: dict[str, Any], name: str, value: Any) -> None:
    result = _value(value, env)
    old = env[name]
    env[name] = np.broadcast_to(np.asarray(result, old.dtype), old.shape)[()]


def _run_loop(kind: str, parts: Any, env: dict[str, Any], out: np.ndarray, n: int) -> None:
    for i in _for(env, *parts[:3]) if kind == "for" else _while(env, *parts[:2]):
        env[f"i{n}"] = np.int32(i)
        try:
            _run_body(parts[-1], env, out, n + 1)
        except _TestContinue:
            continue
        except _Break:
            return


def _for(env: dict[str, Any], low: int, high: Any, step: int) -> Any:
    top = min(int(_value(high, env)), 4) if isinstance(high, str) else high
    for i in range(low, top, step):
        if i < -4:
            return
        yield i


def _while(env: dict[str, Any], condition: Any, iterations: int) -> Any:
    while iterations > 0 and _value(condition, env):
        iterations -= 1
        yield iterations


def _value(e: Any, env: dict[str, Any]) -> Any:
    if isinstance(e, str):
        return env[e]
    if isinstance(e, int):
        return np.int32(e)
    left, right = (_value(x, env) for x in e[1:])
    return OPERATORS[e[0]](_Numpy, *_promote(left, right))


def _promote(left: Any, right: Any) -> tuple[Any, Any]:
    """Convert an integer operand of a float op to f32, as the builder does. numpy would choose
    f64."""
    if np.asarray(left).dtype != np.asarray(right).dtype:
        return np.float32(left), np.float32(right)
    return left, right
