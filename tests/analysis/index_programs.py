"""Random programs about indices: narrow integers that wrap, tiles of odd shapes, pointers,
comparisons, diamonds and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.analysis.index_core import CLASSES, INTEGERS, POINTER, SHAPES, Program
from tests.analysis.index_shapes import is_tile, move
from tileir.ir import Function, Parameter, ParameterAttributes
from tileir.op import Op, Successor
from tileir.ops.arith import IntegerPredicate, Overflow
from tileir.ops.division import DivRounding, RemRounding
from tileir.types import I1, I8, I16, I32, I64, Pointer, Tile, Type, element_of, shape_of, tile
from tileir.values import Operand, Value, constant


def program(seed: int) -> Function:
    """One random function; parameters: two pointers and four integers."""
    p = Program(seed)
    r = p.random
    for name, type_ in (
        ("x", POINTER),
        ("y", POINTER),
        ("a", I32),
        ("b", I8),
        ("n", I32),
        ("m", I16),
    ):
        pointer = type_ is POINTER
        promise = ParameterAttributes(
            aligned=r.choice((0, 4, 16, 64)) if pointer else 0,
            multiple_of=0 if pointer else r.choice((0, 1, 4, 6, 16)),
        )
        p.parameters.append(Parameter(Value(type_, name), promise))
        p.scope.append(p.parameters[-1].value)
    _straight(p, r.randint(3, 8))
    label = "entry"
    for number in range(r.randint(0, 3)):
        label = (_loop if r.random() < 0.5 else _diamond)(p, label, number)
        _straight(p, r.randint(1, 6))
    p.close(label, CLASSES["ret"](()))
    return Function("f", tuple(p.parameters), (), p.blocks, kernel=True)


def _straight(p: Program, count: int) -> None:
    for _ in range(count):
        p.random.choice(_MAKERS)(p)


def _diamond(p: Program, label: str, number: int) -> str:
    _compare(p)
    condition = p.pick(lambda v: v.type is I1) or _scalar_compare(p)
    a, b, join = (f"{w}{number}" for w in ("then", "else", "join"))
    p.close(label, CLASSES["cond_br"](condition, Successor(a), Successor(b)))
    types = [v.type for v in p.random.sample(p.scope, min(3, len(p.scope)))]
    outer, passed = list(p.scope), []
    for side in (a, b):
        p.scope = list(outer)
        _straight(p, p.random.randint(0, 4))
        arguments = [p.of_type(t) for t in types]
        passed.append(arguments)
        p.close(side, CLASSES["br"](Successor(join, arguments)))
    p.scope = outer
    return _open(p, join, types)


def _open(p: Program, label: str, types: Sequence[Type]) -> str:
    """Start a block with parameters; they are put in place when it closes."""
    values = [Value(t) for t in types]
    p.scope = [*p.scope, *values]
    close = p.close

    def close_with(name: str, terminator: Op, parameters: Sequence[Value] = ()) -> None:
        close(name, terminator, values if name == label else parameters)

    p.close = close_with  # type: ignore[method-assign]
    return label


def _loop(p: Program, label: str, number: int) -> str:
    """Count by a random step up to a random bound, carrying random values along."""
    head, body, out = (f"{w}{number}" for w in ("head", "body", "out"))
    counter = p.random.choice(INTEGERS)
    carried = p.random.sample(p.scope, min(2, len(p.scope)))
    types = [counter, *(v.type for v in carried)]
    start, bound, step = (p.of_type(counter) for _ in range(3))
    p.close(label, CLASSES["br"](Successor(head, (start, *carried))))
    outer = list(p.scope)
    _open(p, head, types)
    i = p.scope[len(outer)]
    word = p.random.choice(("slt", "sle", "ne", "sgt", "ult"))
    test = p.emit("icmp", i, bound, predicate_=IntegerPredicate(word))
    p.close(head, CLASSES["cond_br"](test, Successor(body), Successor(out)))
    inside = list(p.scope)
    _straight(p, p.random.randint(0, 4))
    promise = p.random.choice((Overflow.NONE, Overflow.NSW))
    following = p.emit(p.random.choice(("add", "sub")), i, step, overflow=promise)
    moved = [_advance(p, v) for v in p.scope[len(outer) + 1 : len(outer) + 1 + len(carried)]]
    p.close(body, CLASSES["br"](Successor(head, (following, *moved))))
    p.scope = inside
    return out


def _advance(p: Program, value: Value) -> Operand:
    element = element_of(value.type)
    if isinstance(element, Pointer) and p.random.random() < 0.7:
        step = constant(tile(I32, shape_of(value.type)), p.random.choice((1, 4, 16, -8)))
        return p.emit("getelementptr", value, step)
    return p.of_type(value.type)


def _integer(v: Value) -> bool:
    return element_of(v.type) in INTEGERS


def _binary(p: Program) -> None:
    lhs = p.pick(_integer)
    if lhs is None:
        return
    word = p.random.choice(
        (
            "add",
            "add",
            "add",
            "sub",
            "mul",
            "mul",
            "and",
            "or",
            "xor",
            "smin",
            "smax",
            "umin",
            "umax",
        )
    )
    attributes = (
        {"overflow": p.random.choice(tuple(Overflow))} if word in ("add", "sub", "mul") else {}
    )
    p.emit(word, *_in_random_order(p, lhs, p.of_type(lhs.type)), **attributes)


def _in_random_order(p: Program, a: Any, b: Any) -> tuple[Any, Any]:
    return (a, b) if p.random.random() < 0.6 else (b, a)


def _divide(p: Program) -> None:
    lhs = p.pick(_integer)
    if lhs is None:
        return
    word = p.random.choice(("sdiv", "udiv", "srem", "urem"))
    divisor = p.random.choice((1, 2, 4, 6, 8, 16, -2, -4, 48))
    rhs = constant(lhs.type, divisor) if p.random.random() < 0.8 else p.of_type(lhs.type)
    attributes: dict[str, Any] = {}
    if word in ("sdiv", "udiv"):
        attributes["rounding"] = p.random.choice(tuple(DivRounding))
    elif word == "srem":
        attributes["rounding"] = p.random.choice(tuple(RemRounding))
    p.emit(word, lhs, rhs, **attributes)


def _shift(p: Program) -> None:
    lhs = p.pick(_integer)
    if lhs is not None:
        word = p.random.choice(("shl", "shl", "lshr", "ashr"))
        amount: Operand = constant(lhs.type, p.random.choice((0, 1, 2, 3, 5)))
        if p.random.random() < 0.4:
            amount = p.emit("and", p.of_type(lhs.type), constant(lhs.type, 3))
        p.emit(word, lhs, amount)


def _unary(p: Program) -> None:
    value = p.pick(_integer)
    if value is not None:
        p.emit(p.random.choice(("neg", "iabs", "ctpop", "clz")), value)


def _cast(p: Program) -> None:
    value = p.pick(lambda v: _integer(v) or element_of(v.type) is I1)
    if value is None:
        return
    old: Any = element_of(value.type)
    new: Any = p.random.choice([t for t in (I8, I16, I32, I64) if t is not old])
    if new.bits < old.bits:
        p.emit("trunc", value, tile(new, shape_of(value.type)))
    elif new.bits > old.bits:
        p.emit(p.random.choice(("sext", "zext")), value, tile(new, shape_of(value.type)))


def _range(p: Program) -> None:
    element = p.random.choice(INTEGERS)
    start = p.random.choice((0, 0, 0, 1, 8, 16, -4, -48, 75))
    p.emit("make_range", Tile(element, (p.random.choice((1, 2, 6, 8, 16, 48)),)), start=start)


def _program_id(p: Program) -> None:
    p.emit("program_id", axis=p.random.randrange(3))


def _splat(p: Program) -> None:
    value = p.pick(lambda v: not shape_of(v.type))
    if value is not None:
        element: Any = value.type
        shapes = [shape_of(v.type) for v in p.scope if shape_of(v.type)]
        p.emit("splat", value, Tile(element, p.random.choice(shapes or SHAPES)))


def _compare(p: Program) -> None:
    lhs = p.pick(_integer)
    if lhs is not None:
        word = p.random.choice(tuple(IntegerPredicate))
        p.emit("icmp", *_in_random_order(p, lhs, p.of_type(lhs.type)), predicate_=word)


def _scalar_compare(p: Program) -> Value:
    return p.emit("icmp", p.parameters[2].value, p.of_type(I32), predicate_=IntegerPredicate.SLT)


def _logic(p: Program) -> None:
    lhs = p.pick(lambda v: element_of(v.type) is I1)
    if lhs is not None:
        p.emit(p.random.choice(("and", "and", "or", "xor")), lhs, p.of_type(lhs.type))


def _select(p: Program) -> None:
    condition = p.pick(lambda v: element_of(v.type) is I1)
    if condition is None:
        return
    value = p.pick(lambda v: shape_of(v.type) == shape_of(condition.type) and v is not condition)
    if value is not None:
        p.emit("select", condition, *_in_random_order(p, value, p.of_type(value.type)))


def _psi(p: Program) -> None:
    condition = p.pick(lambda v: element_of(v.type) is I1)
    if condition is None:
        return
    shapes = {shape_of(condition.type)} if is_tile(condition) else set(SHAPES)
    value = p.pick(lambda v: shape_of(v.type) in shapes)
    if value is None:
        return
    other = constant(condition.type, True)
    p.emit("psi", (other, p.of_type(value.type), condition, value))


def _pointer(p: Program) -> None:
    base = p.pick(lambda v: element_of(v.type) is POINTER)
    if base is None:
        return
    index = p.pick(lambda v: _integer(v) and shape_of(v.type) == shape_of(base.type))
    if index is None:
        shaped = p.pick(lambda v: _integer(v) and is_tile(v))
        if shaped is None or shape_of(base.type):
            return
        base, index = p.emit("splat", base, tile(POINTER, shape_of(shaped.type))), shaped
    p.emit("getelementptr", base, index)


def _load(p: Program) -> None:
    """Numbers from memory, under masks, with and without a value for the lanes left out."""
    base = p.pick(lambda v: element_of(v.type) is POINTER)
    if base is None:
        return
    shape = shape_of(base.type)
    address = p.emit("bitcast", base, tile(Pointer(I32), shape))
    mask, other = p.of_type(tile(I1, shape)), p.of_type(tile(I32, shape))
    kind = p.random.choice(((), (mask,), (mask, other)))
    p.emit("load", address, *kind, volatile=p.random.random() < 0.1)


def _index(p: Program) -> None:
    """What kernels do: a block's offset plus a range, taken apart and compared with a bound."""
    element = p.random.choice(INTEGERS)
    size, unit = p.random.choice((8, 16, 48)), constant(element, p.random.choice((4, 8, 16, 48)))
    scalar = p.pick(lambda v: v.type is element)
    if scalar is None:
        return
    row = Tile(element, (size,))
    base = p.emit("splat", p.emit("mul", scalar, unit), row)
    offsets = p.emit("add", *_in_random_order(p, base, p.emit("make_range", row, start=0)))
    kind = p.random.choice(("compare", "compare", "divide", "mask"))
    if kind == "compare":
        bound = p.emit("splat", p.of_type(element), row)
        word = p.random.choice(tuple(IntegerPredicate))
        p.emit("icmp", *_in_random_order(p, offsets, bound), predicate_=word)
    elif kind == "divide":
        word = p.random.choice(("udiv", "sdiv"))
        p.emit(word, offsets, p.of_type(row), rounding=p.random.choice(tuple(DivRounding)))
        p.emit("srem", offsets, p.of_type(row), rounding=p.random.choice(tuple(RemRounding)))
    else:
        p.emit("select", p.of_type(Tile(I1, (size,))), offsets, base)


def _address(p: Program) -> None:
    base = p.pick(lambda v: isinstance(element_of(v.type), Pointer))
    if base is not None:
        number = p.emit("ptrtoint", base, tile(I64, shape_of(base.type)))
        if p.random.random() < 0.5:
            p.emit("inttoptr", number, tile(POINTER, shape_of(base.type)))


_MAKERS = (
    _binary, _binary, _binary, _binary, _divide, _divide, _shift, _unary, _cast, _cast, _range,
    _range, _program_id, _splat, _splat, move, move, _compare, _compare, _logic, _select,
    _psi, _pointer, _pointer, _address, _index, _index, _index,
    _load, _load,
)  # fmt: skip
