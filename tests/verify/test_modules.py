"""Rules that only a program building modules by hand can break, and what a run reports."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import tileir
from tests.counting import calls_of
from tileir.error_codes import CODES
from tileir.errors import Diagnostic, Location, Severity, VerifyError
from tileir.ir import Block, Function, Global, Module, Parameter, ParameterAttributes
from tileir.op import Op, Successor
from tileir.ops.arith import Add
from tileir.ops.atomic import Barrier
from tileir.ops.control import Branch, CondBranch, Return
from tileir.ops.debug import Print
from tileir.ops.shape import MakeRange, Splat
from tileir.ops.symbols import Call
from tileir.types import F32, I1, I32, VOID, Pointer, Tile
from tileir.values import Constant, Value, constant
from tileir.verify import diagnose, verify

N, C = Value(I32, "n"), Value(I1, "c")
ONE = constant(I32, 1)
HERE = Location("k.tir", 7, 3)


def function(*blocks: Block, name: str = "f", **settings: object) -> Function:
    by_label = {b.label: b for b in blocks}
    return Function(name, (Parameter(N), Parameter(C)), blocks=by_label, **settings)  # type: ignore[arg-type]


def module(*blocks: Block) -> Module:
    return Module({"f": function(*blocks)})


def codes(diagnostics: tuple[Diagnostic, ...]) -> list[str]:
    return [d.code for d in diagnostics if d.severity is Severity.ERROR]


def jump(label: str, *arguments: Value | Constant, location: Location | None = None) -> Branch:
    return Branch(Successor(label, arguments), location=location)


RET = Return(())
SYNC = Barrier(location=HERE)
P = Value(I32, "p")


def taking(*parameters: Value) -> Block:
    return Block("next", parameters, (RET,))


STRUCTURES: list[tuple[str, Module]] = [
    ("TIR0201", module(Block("entry", (), (), location=HERE))),
    ("TIR0203", module(Block("other", (), (RET,), location=HERE)).evolve(
        functions={"f": Function("f", (), (), {"entry": Block("x", (), (RET,), location=HERE)})})),
    ("TIR0205", module(Block("entry", (Value(I32),), (RET,), location=HERE))),
    ("TIR0207", module(Block("entry", (), (jump("next", location=HERE),)), taking(P))),
    ("TIR0207", module(Block("entry", (), (jump("next", ONE, ONE, location=HERE),)), taking(P))),
    ("TIR0207", module(Block("entry", (), (jump("next", ONE, location=HERE),)), taking())),
    ("TIR0208", module(Block("entry", (), (jump("next", C, location=HERE),)), taking(P))),
    ("TIR0208", module(
        Block("entry", (), (jump("next", constant(Tile(I32, (1,)), 0), location=HERE),)),
        taking(P))),
    ("TIR0209", module(
        Block("entry", (), (
            CondBranch(C, Successor("next", (ONE,)), Successor("next", (N,)), location=HERE),)),
        taking(P))),
    ("TIR0210", module(Block("entry", (), (RET,)), Block("lost", (), (RET,), location=HERE))),
    ("TIR0210", module(
        Block("entry", (), (RET,)),
        Block("a", (), (jump("b"),), location=HERE), Block("b", (), (jump("a"),), location=HERE))),
    ("TIR0211", module(Block("entry", (), (Add(N, Value(I32, "q"), location=HERE), RET)))),
    ("TIR0211", module(
        Block("entry", (), (Add(N, ONE, predicate=Value(I1, "q"), location=HERE), RET)))),
    ("TIR0211", module(
        Block("entry", (), (jump("next", Value(I32, "q"), location=HERE),)), taking(P))),
    ("TIR0212", module(
        Block("entry", (), (CondBranch(C, Successor("a"), Successor("b")),)),
        Block("a", (P,), (RET,)), Block("b", (), (Add(P, ONE, location=HERE), RET)))),
    ("TIR0213", module(Block("entry", (N,), (RET,), location=HERE))),
    ("TIR0213", module(Block("entry", (), (jump("next", ONE, ONE),)),
                       Block("next", (P, P), (RET,), location=HERE))),
    ("TIR0213", module(Block("entry", (), (Add(N, ONE, results=(N,), location=HERE), RET)))),
    ("TIR0215", module(Block("entry", (), (Return((N,), location=HERE),)))),
]  # fmt: skip


@pytest.mark.parametrize(("code", "broken"), STRUCTURES)
def test_structure(code: str, broken: Module) -> None:
    diagnostics = [d for d in diagnose(broken) if d.code == code]
    assert diagnostics and diagnostics[0].location == HERE, list(map(str, diagnose(broken)))


def test_one_op_in_two_blocks_is_two_definitions() -> None:
    twice = Add(N, ONE, location=HERE)
    broken = module(Block("entry", (), (twice, jump("next"))), Block("next", (), (twice, RET)))
    assert codes(diagnose(broken)) == ["TIR0213"]


@pytest.mark.parametrize("blocks", [
    (Block("entry", (), (SYNC, SYNC, RET)),),
    (Block("entry", (), (SYNC, jump("next"))), Block("next", (), (SYNC, RET))),
])  # fmt: skip
def test_an_op_without_results_is_at_one_place(blocks: tuple[Block, ...]) -> None:
    """A pass that places ops by what it knows of each object would move both to one place."""
    diagnostics = diagnose(module(*blocks))
    assert codes(diagnostics) == ["TIR0214"] and diagnostics[0].location == HERE
    assert not diagnose(module(Block("entry", (), (SYNC, attrs.evolve(SYNC), RET))))


def test_one_op_in_two_functions_is_two_definitions() -> None:
    shared, a, b = MakeRange(Tile(I32, (8,)), location=HERE), Value(I32), Value(I32)
    broken = Module({
        name: Function(name, (Parameter(v),), (), {"e": Block("e", (), (shared, RET))})
        for name, v in (("f", a), ("g", b))
    })  # fmt: skip
    diagnostics = diagnose(broken)
    assert codes(diagnostics) == ["TIR0213"] and diagnostics[0].location == HERE


def test_functions_may_share_what_is_no_value() -> None:
    block = Block("e", (), (RET,))
    functions = {n: Function(n, (Parameter(Value(I32)),), (), {"e": block}) for n in "fg"}
    assert verify(Module(functions)) == ()


GLOBALS = [
    Global("g", Tile(F32, (4,)), 1, location=HERE),
    Global("g", VOID, 1, location=HERE),
    Global("g", F32, 0, location=HERE),
    Global("g", F32, -3, location=HERE),
    Global("g", F32, 1.5, location=HERE),  # type: ignore[arg-type]
    Global("g", F32, "1", location=HERE),  # type: ignore[arg-type]
    Global("g", F32, 4, initial=(constant(F32, 1.0),) * 3, location=HERE),
    Global("g", F32, 4, initial=(constant(F32, 1.0),) * 5, location=HERE),
    Global("g", F32, 4, initial=(), location=HERE),
    Global("g", F32, 4, initial=(ONE,), location=HERE),
    Global("g", F32, 2, initial=(constant(F32, 1.0), ONE), location=HERE),
    Global("g", F32, 1, initial=(constant(F32, 1.0),), external=True, location=HERE),
]


@pytest.mark.parametrize("symbol", GLOBALS, ids=range(len(GLOBALS)))
def test_globals(symbol: Global) -> None:
    diagnostics = diagnose(Module(globals={"g": symbol}))
    assert [(d.code, d.location) for d in diagnostics] == [("TIR0307", HERE)]


@pytest.mark.parametrize("alignment", [3, 12, -8, 4.0, "4", True])
def test_alignment_of_globals(alignment: Any) -> None:
    broken = Module(globals={"g": Global("g", F32, 4, alignment=alignment, location=HERE)})
    assert [(d.code, d.location) for d in diagnose(broken)] == [("TIR0221", HERE)]


@pytest.mark.parametrize("settings", [
    {"alignment": "8"}, {"alignment": 8.0}, {"attributes": {"cluster": 2.0}},
    {"attributes": {"cluster": np.array([1, 2])}},
])  # fmt: skip
def test_settings_of_another_kind_than_numbers(settings: dict[str, Any]) -> None:
    result = codes(diagnose(Module({"f": function(Block("e", (), (RET,)), **settings)})))
    assert result[-1] == ("TIR0221" if "alignment" in settings else "TIR0222")


@pytest.mark.parametrize("promise", [{"aligned": "16"}, {"aligned": 1.0}, {"multiple_of": "2"}])
def test_promises_of_another_kind_than_numbers(promise: dict[str, Any]) -> None:
    kind = Pointer(F32) if "aligned" in promise else I32
    parameter = Parameter(Value(kind), ParameterAttributes(**promise))
    broken = Function("f", (parameter,), (), {"e": Block("e", (), (RET,))})
    assert codes(diagnose(Module({"f": broken}))) == ["TIR0220"]


def test_globals_that_fit() -> None:
    fine = (None, (constant(F32, 0.5),), (constant(F32, 0.5),) * 4)
    for initial in fine:
        assert (
            verify(Module(globals={"g": Global("g", F32, 4, initial=initial, alignment=16)})) == ()
        )
    pointers = Global("p", Pointer(F32), 2, constant=True)
    assert verify(Module(globals={"p": pointers})) == ()


def test_symbols_are_filed_under_their_names() -> None:
    ret = Block("e", (), (RET,))
    assert codes(diagnose(Module({"g": function(ret, location=HERE)}))) == ["TIR0308"]
    assert codes(diagnose(Module(globals={"h": Global("g", F32, 1)}))) == ["TIR0308"]
    both = Module({"f": function(ret, location=HERE)}, {"f": Global("f", F32, 1, location=HERE)})
    (diagnostics,) = diagnose(both)
    assert diagnostics.code == "TIR0308" and diagnostics.notes[0].location == HERE


UNWRITABLE = [
    None, {}, b"x", F32, ("a", 1), (True,), (1.5,), 10**40, (-(10**40),), "\ud800", ("a", "\udfff"),
]  # fmt: skip


@pytest.mark.parametrize("value", UNWRITABLE, ids=ascii)
def test_what_no_text_can_spell_is_no_attribute(value: object) -> None:
    broken = Module({"f": function(attributes={"x": value}, location=HERE)}, metadata={"y": value})
    diagnostics = diagnose(broken)
    assert codes(diagnostics) == ["TIR0310", "TIR0310"] and diagnostics[1].location == HERE
    assert diagnostics[0].message.startswith("metadata hold y = ")


def test_symbols_and_labels_are_text() -> None:
    half = "a\ud800"
    assert codes(diagnose(Module(globals={half: Global(half, F32, 1)}))) == ["TIR0308"]
    function = Function(half, (), (), {half: Block(half, (), (RET,))})
    assert codes(diagnose(Module({half: function}))) == ["TIR0308", "TIR0203"]
    with pytest.raises(VerifyError, match="TIR0106"):
        Print((ONE,), prefix=half)


@pytest.mark.parametrize("name", ["", "a b", "1", "é", 'a"', "a\n"])
def test_names_of_attributes_are_words(name: str) -> None:
    assert codes(diagnose(Module({}, metadata={name: 1}))) == ["TIR0310"]


def test_attributes_that_fit() -> None:
    attributes = {"a.b-c$": 10**40 - 1, "_": (), "nan": ("a",), "x": [1, 2], "y": 1.5, "z": True}
    assert verify(Module({"f": function(attributes=attributes)}, metadata=attributes)) == ()


def test_a_global_is_no_function() -> None:
    call = Call((), "g", (), location=HERE)
    broken = module(Block("e", (), (call, RET))).evolve(globals={"g": Global("g", F32, 1)})
    diagnostics = diagnose(broken)
    assert codes(diagnostics) == ["TIR0302"] and diagnostics[0].location == HERE


def test_an_op_newer_than_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Add, "since", (1, 7))
    block = Block("e", (), (Add(N, ONE, location=HERE), RET))
    diagnostics = diagnose(module(block))
    assert codes(diagnostics) == ["TIR0401"] and "tir 1.7" in diagnostics[0].message
    assert diagnose(module(block).evolve(version=(1, 7))) == ()


def test_layouts_need_a_stage() -> None:
    block = Block("e", (), (Splat(N, Tile(I32, (8,), "blocked"), location=HERE), RET))
    diagnostics = diagnose(module(block))
    assert codes(diagnostics) == ["TIR0225"] and diagnostics[0].location == HERE
    assert diagnose(module(block).evolve(stage="gpu")) == ()


def test_recursion_is_found_once_per_function() -> None:
    def calling(name: str, *callees: str) -> Function:
        ops: list[Op] = [Call((), c, (), location=HERE) for c in callees]
        return Function(name, (), (), {"e": Block("e", (), (*ops, Return(())))})

    functions = [calling("a", "b", "d"), calling("b", "c"), calling("c", "a"), calling("d")]
    diagnostics = diagnose(Module({f.name: f for f in functions}))
    assert [d.message.split()[0] for d in diagnostics] == ["@a", "@b", "@c"]
    assert {d.code for d in diagnostics} == {"TIR0306"}


def test_calls_without_cycles_are_fine() -> None:
    def calling(name: str, *callees: str) -> Function:
        ops = [Call((), c, ()) for c in callees]
        return Function(name, (), (), {"e": Block("e", (), (*ops, Return(())))})

    functions = [calling("a", "b", "c"), calling("b", "c"), calling("c"), calling("d", "a", "a")]
    assert verify(Module({f.name: f for f in functions})) == ()


def test_all_errors_come_in_one_run_in_the_order_of_the_text() -> None:
    broken = module(
        Block("entry", (), (Add(N, Value(I32, "q")), jump("a"))),
        Block("a", (), (Return((N,)),)),
        Block("b", (), (jump("nowhere"),)),
    )
    with pytest.raises(VerifyError) as caught:
        tileir.verify(broken)
    assert {d.code for d in caught.value.diagnostics} == {
        "TIR0204",
        "TIR0210",
        "TIR0211",
        "TIR0215",
    }
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), VerifyError)


def test_a_use_that_is_not_dominated_names_the_definition() -> None:
    op = Add(N, ONE, location=Location("k.tir", 4, 3))
    broken = module(
        Block("entry", (), (CondBranch(C, Successor("a"), Successor("b")),)),
        Block("a", (), (op, jump("b"))),
        Block("b", (), (Add(ONE, op.result, location=HERE), RET)),
    )
    (diagnostics,) = diagnose(broken)
    assert diagnostics.location == HERE and diagnostics.operand == 1
    assert [note.location for note in diagnostics.notes] == [op.location]


def test_an_argument_is_used_where_its_edge_leaves() -> None:
    op = Add(N, ONE)
    fine = module(
        Block("entry", (), (CondBranch(C, Successor("a"), Successor("next", (N,))),)),
        Block("a", (), (op, jump("next", op.result))),
        taking(P),
    )
    assert verify(fine) == ()


def test_promises_that_fit() -> None:
    promises = [
        (Pointer(F32), ParameterAttributes(aligned=16, readonly=True, noalias=True)),
        (Pointer(F32), ParameterAttributes(writeonly=True)),
        (I32, ParameterAttributes(multiple_of=12)),
    ]
    parameters = tuple(Parameter(Value(t), p) for t, p in promises)
    block = Block("e", (), (RET,))
    kernel = Function("f", parameters, (), {"e": block}, kernel=True, alignment=64,
                      attributes={"num_warps": 12})  # fmt: skip
    assert verify(Module({"f": kernel})) == ()


def test_declarations_have_no_blocks_to_check() -> None:
    declared = Function("f", (Parameter(Value(I32)),), (I32,))
    assert verify(Module({"f": declared})) == ()


def test_every_code_of_the_verifier_is_explained() -> None:
    folder = Path(str(sys.modules["tileir.verify"].__file__)).parent
    words = {w for path in folder.glob("*.py") for w in path.read_text().split('"')}
    used = {w for w in words if w.startswith("TIR0")}
    assert used and used <= CODES.keys()


def _chain(count: int) -> Module:
    ops = [Add(N, ONE)]
    for _ in range(count):
        ops.append(Add(ops[-1].result, N))
    return module(Block("e", (), (*ops, RET)))


def test_verifying_is_linear() -> None:
    """Three calls an op: the target is 300,000 ops a second."""
    small, large = _chain(2000), _chain(16_000)
    verify(_chain(10))
    few, many = calls_of(lambda: verify(small)), calls_of(lambda: verify(large))
    assert many <= 9 * few and many < 5 * 16_000


def test_deep_dominator_trees_need_no_recursion() -> None:
    blocks = [Block(f"b{i}", (), (jump(f"b{i + 1}"),)) for i in range(5000)]
    assert verify(module(*blocks, Block("b5000", (), (RET,)))) == ()
