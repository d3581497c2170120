"""Joining modules: each rule of `tileir.linker`."""

from __future__ import annotations

from typing import Any

import pytest

from tileir import LinkError, Location, Module, link
from tileir.ir import Block, Function, Global, Linkage, Parameter, Visibility
from tileir.linker import undefined_functions
from tileir.op import Op, lookup
from tileir.types import F32, I32, Tile, Type, pointer
from tileir.values import Value, constant


def make(mnemonic: str, *operands: Any, **facts: Any) -> Op:
    entry = lookup(mnemonic)
    assert entry is not None
    return entry(*operands, **facts)


def function(name: str, result: int = 1, type_: Type = I32, **facts: Any) -> Function:
    """A function of one parameter that returns `result`."""
    x = Value(type_, "x")
    entry = Block("entry", (), (make("ret", (constant(I32, result),)),))
    facts = {"results": (I32,), "blocks": {"entry": entry}, **facts}
    return Function(name, (Parameter(x),), **facts)


def declaration(name: str, type_: Type = I32, **facts: Any) -> Function:
    return function(name, type_=type_, blocks={}, **facts)


def caller(name: str, callee: str) -> Function:
    """A kernel that calls `callee`."""
    x = Value(I32, "x")
    call = make("call", (I32,), callee, (x,))
    return Function(
        name,
        (Parameter(x),),
        (),
        {"entry": Block("entry", (), (call, make("ret", ())))},
        kernel=True,
    )


def variable(name: str, *values: int, **facts: Any) -> Global:
    initial = tuple(constant(I32, v) for v in values) or None
    return Global(name, I32, facts.pop("count", len(values) or 1), initial=initial, **facts)


def module(*symbols: Function | Global, **facts: Any) -> Module:
    functions = {s.name: s for s in symbols if isinstance(s, Function)}
    globals_ = {s.name: s for s in symbols if isinstance(s, Global)}
    return Module(functions, globals_, **facts)


HERE, THERE = Location("a.tir", 3, 1), Location("b.tir", 7, 1)


def clashes(code: str, *modules: Module) -> str:
    with pytest.raises(LinkError) as caught:
        link(*modules)
    assert caught.value.code == code
    return str(caught.value)


def body(of: Function) -> int:
    return of.entry.ops[0].inputs[0].value  # type: ignore[union-attr,return-value]


# Functions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("definition_first", [True, False])
def test_a_declaration_takes_the_definition(definition_first: bool) -> None:
    parts = [module(function("f", 5)), module(declaration("f"), caller("k", "f"))]
    linked = link(*(parts if definition_first else parts[::-1]))
    assert set(linked.functions) == {"f", "k"}
    assert body(linked.functions["f"]) == 5
    assert not list(undefined_functions(linked))


def test_what_is_never_defined_stays_declared() -> None:
    linked = link(module(declaration("f"), caller("k", "f")), module(declaration("f")))
    assert [f.name for f in undefined_functions(linked)] == ["f"]


def test_a_library_defines_what_is_missing() -> None:
    linked = link(module(declaration("f")), library=lambda d: function(d.name, 9))
    assert body(linked.functions["f"]) == 9
    kept = link(module(function("f", 5)), library=lambda d: function(d.name, 9))
    assert body(kept.functions["f"]) == 5


@pytest.mark.parametrize(
    "other", [declaration("f", F32), declaration("f", results=()), function("f", kernel=True)]
)
def test_types_must_agree(other: Function) -> None:
    first = module(function("f", location=HERE))
    message = clashes("TIR0330", first, module(other.evolve(location=THERE)))
    assert message.startswith("b.tir:7:1") and "a.tir:3:1" in message
    assert "@f is" in message and "i32 (i32)" in message


def test_two_definitions_clash_at_both_places() -> None:
    first, second = function("f", 1, location=HERE), function("f", 1, location=THERE)
    message = clashes("TIR0331", module(first), module(second))
    assert message.startswith("b.tir:7:1") and "a.tir:3:1" in message


def test_every_clash_is_reported() -> None:
    with pytest.raises(LinkError) as caught:
        link(module(function("f"), function("g")), module(function("f"), function("g")))
    assert [d.code for d in caught.value.diagnostics] == ["TIR0331", "TIR0331"]


def test_equal_linkonce_definitions_merge() -> None:
    one, two = (function("f", 4, linkage=Linkage.LINKONCE) for _ in range(2))
    assert body(link(module(one), module(two)).functions["f"]) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"result": 5}, {"attributes": {"num_warps": 8}},
        {"blocks": {"start": Block("start", (), (make("unreachable"),))}},
    ],
)  # fmt: skip
def test_different_linkonce_definitions_clash(change: dict[str, Any]) -> None:
    one = function("f", linkage=Linkage.LINKONCE)
    clashes("TIR0332", module(one), module(function("f", **change, linkage=Linkage.LINKONCE)))


def test_linkonce_with_external_clashes() -> None:
    clashes("TIR0331", module(function("f", linkage=Linkage.LINKONCE)), module(function("f")))


@pytest.mark.parametrize("other", [Linkage.EXTERNAL, Linkage.LINKONCE])
@pytest.mark.parametrize("weak_first", [True, False])
def test_weak_gives_way(other: Linkage, weak_first: bool) -> None:
    weak, strong = function("f", 1, linkage=Linkage.WEAK), function("f", 2, linkage=other)
    order = (weak, strong) if weak_first else (strong, weak)
    assert body(link(*map(module, order)).functions["f"]) == 2


def test_the_first_of_two_weak_ones_stays() -> None:
    weak = [function("f", n, linkage=Linkage.WEAK) for n in (1, 2)]
    assert body(link(*map(module, weak)).functions["f"]) == 1


def test_private_functions_are_renamed_with_their_calls() -> None:
    parts = [
        module(function("f", n, visibility=Visibility.PRIVATE), caller(f"k{n}", "f"))
        for n in (1, 2, 3)
    ]
    linked = link(*parts, module(function("f.1", 4)))
    assert len(linked.functions) == 7
    for n in (1, 2, 3):
        call: Any = linked.functions[f"k{n}"].entry.ops[0]
        assert body(linked.functions[call.callee]) == n
    assert body(linked.functions["f.1"]) == 4


def test_combiners_are_renamed_too() -> None:
    x = Value(pointer(I32), "x")
    spread = make("splat", x, Tile(pointer(I32), (8,)))
    load = make("load", spread.result)
    fold = make("reduce", (load.result,), axis=0, combiner="f")
    entry = Block("entry", (), (spread, load, fold, make("ret", ())))
    kernel = Function("k", (Parameter(x),), (), {"entry": entry}, kernel=True)
    private = function("f", 1, visibility=Visibility.PRIVATE)
    linked = link(module(function("f", 2)), module(private, kernel))
    renamed: Any = linked.functions["k"].entry.ops[2]
    assert renamed.combiner == "f.1"
    assert body(linked.functions["f.1"]) == 1


# Globals -----------------------------------------------------------------------------------


def test_equal_globals_merge() -> None:
    linked = link(module(variable("g", 1, 2)), module(variable("g", 1, 2, alignment=16)))
    assert linked.globals["g"].alignment == 16


@pytest.mark.parametrize("defined_first", [True, False])
def test_a_global_declared_elsewhere_takes_the_definition(defined_first: bool) -> None:
    parts = [module(variable("g", 1, 2)), module(variable("g", count=2, external=True))]
    linked = link(*(parts if defined_first else parts[::-1])).globals["g"]
    assert linked.initial is not None and not linked.external


@pytest.mark.parametrize(
    "other", [variable("g", 1, 2, 3), variable("g", 1, 2, constant=True), Global("g", F32, 2)]
)
def test_globals_must_agree_on_their_type(other: Global) -> None:
    clashes("TIR0333", module(variable("g", 1, 2)), module(other))


@pytest.mark.parametrize(
    ("mine", "other"), [({"space": 4}, {}), ({"constant": True}, {"constant": True, "space": 1})]
)
def test_globals_must_agree_on_their_address_space(mine: Any, other: Any) -> None:
    clashes("TIR0333", module(variable("g", 1, **mine)), module(variable("g", 1, **other)))


def test_equal_globals_in_a_stated_address_space_merge() -> None:
    a, b = (module(variable("g", 1, constant=True, space=1)) for _ in range(2))
    assert link(a, b).globals["g"].space == 1


def test_two_initial_values_clash() -> None:
    message = clashes("TIR0334", module(variable("g", 1, location=HERE)), module(variable("g", 2)))
    assert "a.tir:3:1" in message


@pytest.mark.parametrize("weak_first", [True, False])
def test_a_weak_global_gives_way(weak_first: bool) -> None:
    weak, strong = variable("g", 1, linkage=Linkage.WEAK), variable("g", 2)
    order = (weak, strong) if weak_first else (strong, weak)
    initial = link(*map(module, order)).globals["g"].initial
    assert initial is not None and initial[0].value == 2


def test_private_globals_are_renamed() -> None:
    parts = [module(variable("g", n, visibility=Visibility.PRIVATE)) for n in (1, 2)]
    assert set(link(*parts).globals) == {"g", "g.1"}


def test_functions_and_globals_share_one_name_space() -> None:
    clashes("TIR0335", module(function("f")), module(variable("f", 1)))


# Modules -----------------------------------------------------------------------------------


def test_metadata_is_merged() -> None:
    linked = link(module(metadata={"a": 1, "b": "x"}), module(metadata={"b": "x", "c": (1, 2)}))
    assert linked.metadata == {"a": 1, "b": "x", "c": (1, 2)}


def test_different_metadata_clash_naming_the_modules() -> None:
    message = clashes(
        "TIR0337",
        module(metadata={"a": 1}, source="one.tir"),
        module(metadata={"a": 2}, source="two.tir"),
    )
    assert "one.tir" in message and "two.tir" in message


def test_the_newest_version_counts() -> None:
    assert link(module(version=(1, 0)), module(version=(1, 3))).version == (1, 3)


def test_stages_must_be_one() -> None:
    assert link(module(stage="gpu"), module(stage="gpu")).stage == "gpu"
    assert "gpu" in clashes("TIR0336", module(stage="gpu"), module())


def test_linking_one_module_keeps_its_symbols() -> None:
    only = module(function("f"), variable("g", 1))
    linked = link(only)
    assert linked.functions["f"] is only.functions["f"]
    assert linked.globals["g"] is only.globals["g"]


def test_a_module_linked_with_itself() -> None:
    only = module(function("f"), variable("g", 1))
    assert link(only, only).functions == only.functions
