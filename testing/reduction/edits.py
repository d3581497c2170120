"""The edits of a reduction, in the order in which they are tried: those that remove most come
first, those that only simplify come last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import attrs

from tileir.field import READING, SEVERAL, FieldKind, Successor
from tileir.ir import Function, Linkage, Module, ParameterAttributes, Visibility
from tileir.op import Op
from tileir.ops.control import Branch, CondBranch, Return
from tileir.ops.symbols import Call
from tileir.passes.cfg_edit import map_edges
from tileir.passes.dce import dce
from tileir.passes.inline import inline
from tileir.passes.simplify_cfg import drop_unreachable, simplify_cfg
from tileir.testing.reduction.convert import convert_ops, convertible
from tileir.testing.reduction.edit import (
    Edit,
    Place,
    op_places,
    substitute,
    with_functions,
    with_ops,
    zero,
)
from tileir.testing.reduction.retype import (
    extents,
    shrink_extents,
    with_scalars,
)
from tileir.testing.reduction.unloop import run_once, tested_loops
from tileir.values import Constant, Operand, Value

# Functions and globals ----------------------------------------------------------------------


def _names(module: Module) -> list[Place]:
    return [*((n, "function") for n in module.functions), *((n, "global") for n in module.globals)]


def _without_symbols(module: Module, places: Sequence[Place]) -> Module:
    gone = {place[0] for place in places}
    naming = [place for place, op in op_places(module) if not gone.isdisjoint(_symbols(op))]
    pruned = _without_ops(module, naming, _as_zero)
    functions = {n: f for n, f in pruned.functions.items() if n not in gone}
    return pruned.evolve(
        functions=functions, globals={n: g for n, g in pruned.globals.items() if n not in gone}
    )


def _symbols(op: Op) -> list[str]:
    result = [getattr(op, field.name) for field in op.fields(FieldKind.SYMBOL)]
    combiner = getattr(op, "combiner", None)
    return [*result, combiner] if type(combiner) is str else result


# Control flow -------------------------------------------------------------------------------


def _choices(module: Module) -> list[Place]:
    places = [place for place, op in op_places(module) if isinstance(op, CondBranch)]
    return [(*place, arm) for place in places for arm in ("otherwise", "then")]


def _take_arm(module: Module, places: Sequence[Place]) -> Module:
    arms = {place[:3]: place[3] for place in places}
    changed = dict(module.functions)
    for (name, label, _), arm in arms.items():
        function = changed[name]
        block = function.blocks[label]
        jump = Branch(getattr(block.terminator, arm))
        blocks = {**function.blocks, label: attrs.evolve(block, ops=(*block.ops[:-1], jump))}
        changed[name] = function.with_blocks(blocks)
    reached = {name: drop_unreachable(f) if f.blocks else f for name, f in changed.items()}
    return module.with_functions(reached)


def _jumps(module: Module) -> list[Place]:
    return [place for place, op in op_places(module) if op.is_terminator and op.successors]


def _cut(module: Module, places: Sequence[Place]) -> Module:
    def return_zeros(_: Op, function: Function) -> Op:
        return Return(tuple(zero(type) for type in function.results))

    cut = with_ops(module, places, return_zeros)
    named = {place[0]: drop_unreachable(cut.functions[place[0]]) for place in places}
    return with_functions(cut, named)


# Ops ----------------------------------------------------------------------------------------

Choice = Callable[[Op, Value, Function], Operand]
"""The replacement of a result of an op that is removed."""


def _ops(module: Module) -> list[Place]:
    return [place for place, op in op_places(module) if not op.is_terminator][::-1]


def _without_ops(module: Module, places: Sequence[Place], choice: Choice) -> Module:
    expected = set(places)
    env: dict[str, dict[Value, Operand]] = {}
    for place, op in op_places(module):
        if place in expected:
            chosen = {v: choice(op, v, module.functions[place[0]]) for v in op.results}
            env.setdefault(place[0], {}).update(chosen)
    shorter = with_ops(module, places, lambda op, function: None)
    changed = {name: substitute(shorter.functions[name], values) for name, values in env.items()}
    return with_functions(shorter, changed)


def _as_zero(op: Op, value: Value, function: Function) -> Operand:
    return zero(value.type)


def _as_one(op: Op, value: Value, function: Function) -> Operand:
    literal = zero(value.type)
    return Constant(value.type, 1) if isinstance(literal, Constant) else literal


def _as_operand(op: Op, value: Value, function: Function) -> Operand:
    """An operand of `op` with the type of `value`, or else a parameter of the function with that
    type."""
    same = [v for v in op.inputs if v.type is value.type]
    parameters = [p.value for p in function.parameters if p.type is value.type]
    return next(iter([*same, *parameters]), zero(value.type))


def _as_earlier(op: Op, value: Value, function: Function) -> Operand:
    """The last value of the type of `value` that is computed before `op` in its block."""
    block = next(b for b in function.blocks.values() if op in b.ops)
    before = block.ops[: block.ops.index(op)]
    same = [v for other in before for v in other.results if v.type is value.type]
    return same[-1] if same else zero(value.type)


def _as_last_operand(op: Op, value: Value, function: Function) -> Operand:
    same = [v for v in op.inputs if v.type is value.type]
    return same[-1] if same else zero(value.type)


# Parameters ---------------------------------------------------------------------------------


def _block_parameters(module: Module) -> list[Place]:
    return [
        (f.name, label, index)
        for f in module.functions.values()
        for label, block in f.blocks.items()
        for index in range(len(block.parameters))
    ]


def _without_block_parameters(module: Module, places: Sequence[Place], *, entering: bool) -> Module:
    changed: dict[str, Function] = {}
    for name in dict.fromkeys(place[0] for place in places):
        gone = {(label, index) for n, label, index in places if n == name}
        changed[name] = _with_fewer(module.functions[name], gone, entering=entering)
    return with_functions(module, changed)


def _with_fewer(function: Function, gone: set[tuple[str, int]], *, entering: bool) -> Function:
    edges = [e for block in function.blocks.values() for e in block.successors]
    env: dict[Value, Operand] = {}
    for label, index in sorted(gone):
        value = function.blocks[label].parameters[index]
        incoming = next((e.arguments[index] for e in edges if e.label == label), None)
        env[value] = zero(value.type) if incoming is None or not entering else incoming

    def shorter(edge: Successor) -> Successor:
        arguments = [a for i, a in enumerate(edge.arguments) if (edge.label, i) not in gone]
        return Successor(edge.label, tuple(arguments))

    blocks = {
        label: attrs.evolve(
            block,
            parameters=[v for i, v in enumerate(block.parameters) if (label, i) not in gone],
            ops=(*block.ops[:-1], map_edges(block.terminator, shorter)),
        )
        for label, block in function.blocks.items()
    }
    return substitute(function.with_blocks(blocks), env)


def _parameters(module: Module) -> list[Place]:
    return [(f.name, i) for f in module.functions.values() for i in range(len(f.parameters))]


def _without_parameters(module: Module, places: Sequence[Place]) -> Module:
    gone = set(places)

    def with_fewer_arguments(op: Op, _: Function) -> Op:
        assert isinstance(op, Call)
        arguments = (a for i, a in enumerate(op.arguments) if (op.callee, i) not in gone)
        return op.evolve(arguments=tuple(arguments))

    calls = [place for place, op in op_places(module) if isinstance(op, Call)]
    module = with_ops(module, calls, with_fewer_arguments)
    changed: dict[str, Function] = {}
    for name in dict.fromkeys(place[0] for place in places):
        function = module.functions[name]
        values = [p.value for i, p in enumerate(function.parameters) if (name, i) in gone]
        parameters = tuple(p for i, p in enumerate(function.parameters) if (name, i) not in gone)
        if function.blocks:
            function = substitute(function, {v: zero(v.type) for v in values})
        changed[name] = function.evolve(parameters=parameters)
    return with_functions(module, changed)


# Operands and attributes --------------------------------------------------------------------


def _operands(module: Module) -> list[Place]:
    places: list[Place] = []
    for place, op in op_places(module):
        for field in op.fields(*READING):
            value = getattr(op, field.name)
            several = value if field.kind in SEVERAL else (value,)
            places += [(*place, field.name, i) for i, v in enumerate(several) if type(v) is Value]
    return places[::-1]


def _with_literals(module: Module, places: Sequence[Place]) -> Module:
    for *place, name, index in places:  # one after the other: several may belong to one op

        def literal(op: Op, _: Function, name: str = name, index: int = index) -> Op:
            value = getattr(op, name)
            if not isinstance(value, tuple):
                return op.evolve(**{name: zero(value.type)})
            result = (zero(v.type) if i == index else v for i, v in enumerate(value))
            return op.evolve(**{name: tuple(result)})

        module = with_ops(module, [tuple(place)], literal)
    return module


def _settings(module: Module) -> list[Place]:
    """The places of attributes that differ from their default, optional operands, predicates, and
    notes."""
    return [(*place, name) for place, op in op_places(module) for name in _plain(op)]


def _plain(op: Op) -> dict[str, Any]:
    """The fields of `op` that can be simplified, with their simplified values."""
    result: dict[str, Any] = {}
    for field in op.fields(FieldKind.ATTRIBUTE, FieldKind.OPTIONAL):
        default = None if field.kind is FieldKind.OPTIONAL else field.default
        if default is not attrs.NOTHING and getattr(op, field.name) != default:
            result[field.name] = default
    nothing: dict[str, Any] = {"predicate": None, "comments": (), "location": None}
    for name, value in nothing.items():
        current = getattr(op, name)
        if current != value and not (name == "location" and not current.written):
            result[name] = value
    return result


def _without_settings(module: Module, places: Sequence[Place]) -> Module:
    for *place, name in places:

        def plain(op: Op, _: Function, name: str = name) -> Op:
            return op.evolve(**{name: _plain(op)[name]}) if name in _plain(op) else op

        module = with_ops(module, [tuple(place)], plain)
    return module


def _headers(module: Module) -> list[Place]:
    """The places of the settings of functions, parameters and the module."""
    headers: list[Place] = [("metadata", key) for key in module.metadata]
    headers += [("notes",)] if module.comments or module.header_comments else []
    for function in module.functions.values():
        plain = _bare(function)
        if _header(plain) != _header(function):
            headers.append(("header", function.name))
        headers += [("attribute", function.name, key) for key in function.attributes]
    return headers


def _without_headers(module: Module, places: Iterable[Place]) -> Module:
    for what, *names in places:
        if what == "metadata":
            kept = {k: v for k, v in module.metadata.items() if k != names[0]}
            module = module.evolve(metadata=kept)
        elif what == "notes":
            module = module.evolve(comments=(), header_comments=())
        elif what == "header":
            bare = _bare(module.functions[names[0]])
            module = with_functions(module, {bare.name: bare})
        else:
            function = module.functions[names[0]]
            kept = {k: v for k, v in function.attributes.items() if k != names[1]}
            module = with_functions(module, {function.name: function.evolve(attributes=kept)})
    return module


def _bare(function: Function) -> Function:
    nothing = ParameterAttributes()
    parameters = tuple(attrs.evolve(p, attributes=nothing) for p in function.parameters)
    return function.evolve(
        parameters=parameters, visibility=Visibility.PUBLIC, linkage=Linkage.EXTERNAL,
        alignment=0, comments=(),
    )  # fmt: skip


def _header(function: Function) -> tuple[Any, ...]:
    promises = tuple(p.attributes for p in function.parameters)
    return promises, function.visibility, function.linkage, function.alignment, function.comments


# Whole programs -----------------------------------------------------------------------------

_TIDY: dict[str, Callable[[Module], Module]] = {
    "dce": lambda module: _each(module, dce),
    "simplify-cfg": lambda module: _each(module, simplify_cfg),
    "inline": inline,
}


def _each(module: Module, change: Callable[[Function], Function]) -> Module:
    functions = module.functions.items()
    return module.with_functions({n: change(f) if f.blocks else f for n, f in functions})


def _tidy(module: Module, places: Sequence[Place]) -> Module:
    for (name,) in places:
        module = _TIDY[name](module)
    return module


def _tiles(module: Module) -> list[Place]:
    return [("all",)] if extents(module) else []


def _extents(smallest: int, module: Module) -> list[Place]:
    return [(n,) for n in sorted(extents(module), reverse=True) if n > smallest]


def _with_extents(smallest: int, module: Module, places: Sequence[Place]) -> Module:
    return shrink_extents(module, {place[0]: smallest for place in places})


TIDY = Edit("passes", lambda module: [(name,) for name in _TIDY], _tidy)
EDITS: tuple[Edit, ...] = (
    Edit("functions and globals", _names, _without_symbols),
    Edit("jumps", _jumps, _cut),
    Edit("branches", _choices, _take_arm),
    Edit("ops", _ops, partial(_without_ops, choice=_as_zero)),
    Edit("loops", tested_loops, run_once),
    Edit("tiles to scalars", _tiles, lambda module, places: with_scalars(module)),
    TIDY,
    Edit("ops, passing on an operand", _ops, partial(_without_ops, choice=_as_operand)),
    Edit("ops, passing on the last one", _ops, partial(_without_ops, choice=_as_last_operand)),
    Edit("ops, passing on an earlier value", _ops, partial(_without_ops, choice=_as_earlier)),
    Edit("ops, converting an operand", convertible, convert_ops),
    Edit("ops, giving one", _ops, partial(_without_ops, choice=_as_one)),
    Edit(
        "block parameters", _block_parameters, partial(_without_block_parameters, entering=False)
    ),
    Edit(
        "block parameters, as on entry", _block_parameters,
        partial(_without_block_parameters, entering=True),
    ),
    Edit("operands", _operands, _with_literals),
    TIDY,
    Edit("parameters", _parameters, _without_parameters),
    Edit("attributes", _settings, _without_settings),
    Edit("headers", _headers, _without_headers),
    *(Edit(f"extents to {n}", partial(_extents, n), partial(_with_extents, n)) for n in (1, 2, 4)),
)  # fmt: skip
"""Every kind of edit, in the order in which they are tried."""
