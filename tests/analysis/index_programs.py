"""Random programs about indices: narrow integers that wrap, tiles of odd shapes, pointers,
comparisons, diamonds and loops."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tileir.ir import Block, Function, Parameter, ParameterAttributes
from tileir.op import Op, Successor, all_ops
from tileir.ops.arith import DivRounding, Overflow, RemRounding
from tileir.ops.compare import IntegerPredicate
from tileir.types import F32, I1, I8, I16, I32, I64, Pointer, Tile, Type, element_of, shape_of, tile
from tileir.values import Operand, Value, constant

CLASSES = {cls.mnemonic: cls for cls in all_ops()}
INTEGERS = (I8, I16, I32)
POINTER = Pointer(F32)
SHAPES = ((1,), (2,), (6,), (8,), (16,), (48,), (4, 8), (3, 4), (1, 8), (8, 1), (2, 4, 2))


class Program:
    """A function under construction: the ops of one block at a time, and the values in scope."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.scope: list[Value] = []
        self.ops: list[Op] = []
        self.blocks: dict[str, Block] = {}
        self.parameters: list[Parameter] = []
        self.depth = 0

    def pick(self, fits: Callable[[Value], bool]) -> Value | None:
        found = [v for v in self.scope if fits(v)]
        return (
            self.random.choice(found[-12:] if self.random.random() < 0.8 else found)
            if found
            else None
        )

    def of_type(self, type: Type) -> Operand:
        """A value or, now and then, a literal of `type`."""
        element: Any = element_of(type)
        found = self.pick(lambda v: v.type is type)
        if found is not None and self.random.random() < 0.75:
            return found
        if isinstance(element, Pointer):
            return found if found is not None else constant(type, 1 << 12)
        if element is I1:
            return constant(type, self.random.random() < 0.5)
        half = 1 << (element.bits - 1)
        number = self.random.choice((0, 1, 2, 3, 4, 8, 12, 16, 64, half - 1, -half, -1, -4, 48))
        return constant(type, max(-half, min(number, half - 1)))

    def emit(self, mnemonic: str, *operands: Any, **attributes: Any) -> Value:
        made = CLASSES[mnemonic](*operands, **attributes)
        self.ops.append(made)
        self.scope.extend(made.results)
        return made.results[0]

    def close(self, label: str, terminator: Op, parameters: Sequence[Value] = ()) -> None:
        self.blocks[label] = Block(label, tuple(parameters), (*self.ops, terminator))
        self.ops = []


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
    p.emit(word, *_shuffled(p, lhs, p.of_type(lhs.type)), **attributes)


def _shuffled(p: Program, a: Any, b: Any) -> tuple[Any, Any]:
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
        p.emit(word, lhs, constant(lhs.type, p.random.choice((0, 1, 2, 3, 5))))


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


def _tile(v: Value) -> bool:
    return isinstance(v.type, Tile)


def _shape(p: Program) -> None:
    value = p.pick(_tile)
    if value is None:
        return
    type_: Any = value.type
    kind = p.random.choice(
        (
            "expand",
            "broadcast",
            "trans",
            "reshape",
            "join",
            "split",
            "cat",
            "slice",
            "insert",
            "gather",
            "reduce",
            "scan",
        )
    )
    _SHAPERS[kind](p, value, type_.element, type_.shape)


def _expand(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    if len(shape) < 3:
        p.emit("expand_dims", value, axis=p.random.randint(0, len(shape)))


def _broadcast(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    p.emit(
        "broadcast",
        value,
        Tile(element, tuple(n if n > 1 else p.random.choice((1, 4, 6)) for n in shape)),
    )


def _trans(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    order = list(range(len(shape)))
    p.random.shuffle(order)
    p.emit("trans", value, order=tuple(order))


def _reshape(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    size = 1
    for n in shape:
        size *= n
    first = p.random.choice([d for d in (1, 2, 3, 4, 6, 8, 16) if size % d == 0])
    to = p.random.choice(((size,), (first, size // first), (size // first, first), (1, *shape)))
    if len(to) < 4:
        p.emit("reshape", value, Tile(element, to))


def _join(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    if len(shape) < 3:
        p.emit("join", value, p.of_type(value.type))


def _split(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    if shape[-1] == 2:
        p.emit("split", value)


def _cat(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    if len(shape) < 3:
        p.emit("cat", value, p.of_type(value.type), axis=p.random.randrange(len(shape)))


def _slice(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    small = tuple(p.random.choice([d for d in (1, 2, 4, n) if d <= n]) for n in shape)
    offsets = [constant(I32, p.random.randint(0, n - s)) for n, s in zip(shape, small, strict=True)]
    dynamic = p.pick(lambda v: v.type is I32)
    if dynamic is not None and p.random.random() < 0.3:
        offsets[0] = p.emit("and", dynamic, constant(I32, p.random.choice((0, 2, 4))))
    p.emit("extract_slice", value, Tile(element, small), offsets)


def _insert(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    small = tuple(p.random.choice([d for d in (1, 2, n) if d <= n]) for n in shape)
    offsets = [constant(I32, p.random.randint(0, n - s)) for n, s in zip(shape, small, strict=True)]
    p.emit("insert_slice", value, p.of_type(Tile(element, small)), offsets)


def _gather(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    axis = p.random.randrange(len(shape))
    if element is not I1 and axis == 0:
        p.emit("gather", value, constant(Tile(I32, (2, *shape[1:])), shape[0] - 1), axis=axis)


def _reduce(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    if element in INTEGERS:
        combiner = CLASSES["reduce"].schema[-1].attribute.enum  # type: ignore[union-attr]
        word = p.random.choice(("add", "smin", "smax", "umax", "and", "or", "xor", "mul"))
        p.emit("reduce", (value,), axis=p.random.randrange(len(shape)), combiner=combiner(word))


def _scan(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    if element in INTEGERS:
        field = next(f for f in CLASSES["scan"].schema if f.name == "combiner")
        word = p.random.choice(("add", "smin", "umax", "mul"))
        combiner: Any = field.attribute
        p.emit("scan", (value,), axis=p.random.randrange(len(shape)), combiner=combiner.enum(word))


_SHAPERS = {
    "expand": _expand, "broadcast": _broadcast, "trans": _trans, "reshape": _reshape,
    "join": _join, "split": _split, "cat": _cat, "slice": _slice, "insert": _insert,
    "gather": _gather, "reduce": _reduce, "scan": _scan,
}  # fmt: skip


def _compare(p: Program) -> None:
    lhs = p.pick(_integer)
    if lhs is not None:
        word = p.random.choice(tuple(IntegerPredicate))
        p.emit("icmp", *_shuffled(p, lhs, p.of_type(lhs.type)), predicate_=word)


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
        p.emit("select", condition, *_shuffled(p, value, p.of_type(value.type)))


def _psi(p: Program) -> None:
    value = p.pick(lambda v: True)
    condition = p.pick(lambda v: element_of(v.type) is I1)
    if (
        value is None
        or condition is None
        or shape_of(condition.type) not in ((), shape_of(value.type))
    ):
        return
    other = constant(condition.type, True)
    p.emit("psi", (other, p.of_type(value.type), condition, value))


def _pointer(p: Program) -> None:
    base = p.pick(lambda v: isinstance(element_of(v.type), Pointer))
    if base is None:
        return
    index = p.pick(lambda v: _integer(v) and shape_of(v.type) == shape_of(base.type))
    if index is None:
        shaped = p.pick(lambda v: _integer(v) and _tile(v))
        if shaped is None or shape_of(base.type):
            return
        base, index = p.emit("splat", base, tile(POINTER, shape_of(shaped.type))), shaped
    p.emit("getelementptr", base, index)


def _index(p: Program) -> None:
    """What kernels do: a block's offset plus a range, taken apart and compared with a bound."""
    element = p.random.choice(INTEGERS)
    size, unit = p.random.choice((8, 16, 48)), constant(element, p.random.choice((4, 8, 16, 48)))
    scalar = p.pick(lambda v: v.type is element)
    if scalar is None:
        return
    row = Tile(element, (size,))
    base = p.emit("splat", p.emit("mul", scalar, unit), row)
    offsets = p.emit("add", *_shuffled(p, base, p.emit("make_range", row, start=0)))
    kind = p.random.choice(("compare", "compare", "divide", "mask"))
    if kind == "compare":
        bound = p.emit("splat", p.of_type(element), row)
        word = p.random.choice(tuple(IntegerPredicate))
        p.emit("icmp", *_shuffled(p, offsets, bound), predicate_=word)
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
    _range, _program_id, _splat, _splat, _shape, _shape, _compare, _compare, _logic, _select,
    _psi, _pointer, _pointer, _address, _index, _index, _index,
)  # fmt: skip
