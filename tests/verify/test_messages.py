"""What findings say and point at, word for word: a user has nothing else to go by."""

from __future__ import annotations

import pytest

from tests.verify.shared_memory import (
    HEADER as ROOMY,
    HERE as WRITTEN,
    STAGE,
    TAKE,
    THERE,
    A,
    other,
    scratch,
)
from tests.verify.test_modules import HERE, ONE, RET, C, N, P, function, jump, module
from tests.verify.test_predicates import module_text
from tests.verify.test_text import MAX, RECORD, TABLE, TWO, body, findings
from tileir.errors import Diagnostic
from tileir.ir import Block, Function, Module, Parameter
from tileir.op import Op, Successor
from tileir.ops.arith import Add
from tileir.ops.control import Branch, Return
from tileir.ops.symbols import Call
from tileir.types import F32, I1, I32, VOID
from tileir.values import Value
from tileir.verify import diagnose, verify


def texts_of(diagnostics: tuple[Diagnostic, ...]) -> list[str]:
    """Code, message and operand of each."""
    return [f"{d.code} {d.message} | {d.operand}" for d in diagnostics]


TEXTS = [
    ("", "  ret %n\n", "TIR0215 @k returns nothing, not 1 values | None"),
    ("", "  %a = add i32 %a, 1\n  ret\n", "TIR0212 %a is used before its definition | 0"),
    (
        "",
        "  cond_br %c, a, b\na:\n  %v = add i32 %n, 1\n  ret\nb:\n  store %y, %v\n  ret\n",
        "TIR0212 %v, defined in a, does not dominate this use in b | 1",
    ),
    ("", "  call @no\n  ret\n", "TIR0301 @no is not declared | callee"),
    (TABLE, "  call @table\n  ret\n", "TIR0302 @table is a global, not a function | callee"),
    ("", "  %p = global_address f32* @no\n  ret\n", "TIR0301 @no is not declared | None"),
    (
        RECORD,
        "  %p = global_address f32* @sq\n  ret\n",
        "TIR0302 @sq is a function, not a global | None",
    ),
    (RECORD, "  call @sq, %n\n  ret\n", "TIR0304 @sq returns i32, not void | results"),
    (
        TWO,
        "  %r = call i32 @two, %n, %f\n  ret\n",
        "TIR0304 @two returns i32, f32, not i32 | results",
    ),
    (
        MAX,
        "  %t = splat i32<8> %n\n  %s = reduce i32 %t {axis = 0, combiner = @max2}\n  ret\n",
        "TIR0305 combiner @max2 of reduce must be (i32, i32) -> i32, not (f32, f32) -> f32"
        " | combiner",
    ),
]


@pytest.mark.parametrize(("before", "text", "expected"), TEXTS)
def test_messages(before: str, text: str, expected: str) -> None:
    assert expected in texts_of(findings(before + body(text)))


PREDICATES = [
    (
        "@%in %v = load f32<8> %q\n  store %q, %v",
        "TIR0230 %v is undefined where %in is false, and is read here | 1",
    ),
    (
        "@%in %a, _ = icmp (i1<8>, i1<8>) %r, 2 {predicate = ne}\n  @%a store %q, 0.0",
        "TIR0230 %a is undefined where %in is false, and is read here | predicate",
    ),
    (
        "@false %v = load f32<8> %q\n  store %q, %v",
        "TIR0230 %v is undefined where a literal is false, and is read here | 1",
    ),
    (
        "%v = psi i32<8> [%low, %r], [%low, %r], [%out, %t]",
        "TIR0233 psi: value 0 is never chosen, later predicates hold where its does | 0",
    ),
    (
        "%v = psi i32<8> [%out, %r], [%low, %r], [%low, %t]",
        "TIR0233 psi: value 1 is never chosen, later predicates hold where its does | 2",
    ),
    (
        "%v = psi i32 [i1 true, 0], [%c, %n], [%d, 1]",
        "TIR0232 psi: predicate 1 and later ones may hold together; the last decides | 2",
    ),
]


@pytest.mark.parametrize(("text", "expected"), PREDICATES)
def test_messages_about_predicates(text: str, expected: str) -> None:
    assert expected in texts_of(findings(module_text(text)))


def test_a_predicate_that_is_defined_nowhere() -> None:
    lost = Add(N, ONE, predicate=Value(I1, "q"), location=HERE)
    diagnostics = diagnose(module(Block("entry", (), (lost, RET))))
    assert texts_of(diagnostics) == ["TIR0211 %q is not defined in @f | predicate"]
    argument = module(
        Block("entry", (), (jump("next", Value(I32, "q")),)), Block("next", (P,), (RET,))
    )
    assert texts_of(diagnose(argument)) == ["TIR0211 %q is not defined in @f | None"]


def test_functions_after_a_declaration_are_checked() -> None:
    declared = Function("d", (Parameter(Value(I32)),), (I32,))
    broken = function(Block("entry", (), (Return((N,)),)))
    assert [d.code for d in diagnose(Module({"d": declared, "f": broken}))] == ["TIR0215"]


def test_what_follows_a_call_is_checked() -> None:
    ops = "  call @no\n  %p = global_address f32* @neither\n  ret\n"
    messages = texts_of(findings(body(ops)))
    assert [f.split(" is")[0] for f in messages] == ["TIR0301 @no", "TIR0301 @neither"]


def test_void_is_no_result() -> None:
    function = Function("f", (), (VOID,), location=HERE)
    message = "TIR0216 void is not a value: @f has no results instead | None"
    assert texts_of(diagnose(Module({"f": function}))) == [message]


def test_the_least_of_every_setting() -> None:
    names = ("num_warps", "num_ctas", "num_stages", "max_registers")
    least = function(Block("entry", (), (RET,)), alignment=1, attributes=dict.fromkeys(names, 1))
    assert verify(Module({"f": least})) == ()
    loop = "  br l\nl:\n  cond_br %c, l, out {stages = 1, unroll = 1}\nout:\n  ret\n"
    assert findings(body(loop)) == ()


def test_recursion_says_how() -> None:
    def calling(name: str, *callees: str) -> Function:
        ops: list[Op] = [Call((), c, (), location=HERE) for c in callees]
        return Function(name, (), (), {"e": Block("e", (), (*ops, RET))})

    callees = {"above": "over", "over": "a", "a": "b", "b": "a", "c": "c"}
    functions = [calling(*pair) for pair in callees.items()]
    diagnostics = diagnose(Module({f.name: f for f in functions}))
    end = "; device functions are inlined and cannot recurse | None"
    assert texts_of(diagnostics) == [
        "TIR0306 @a calls itself through @b" + end,
        "TIR0306 @b calls itself through @a" + end,
        "TIR0306 @c calls itself" + end,
    ]


@pytest.mark.parametrize(
    ("label", "code"), [("next", "TIR0207"), ("nowhere", "TIR0204")], ids=["arguments", "label"]
)
def test_predicates_are_left_alone_where_blocks_are_wrong(label: str, code: str) -> None:
    op = Add(N, ONE, predicate=C)
    leave = Branch(Successor(label, (op.result, op.result)))
    broken = module(Block("entry", (), (op, leave)), Block("next", (P,), (RET,)))
    assert code in [d.code for d in diagnose(broken)]


def test_results_of_two_types() -> None:
    function = Function("f", (Parameter(N),), (I32, F32), {"e": Block("e", (), (Return((N,)),))})
    assert texts_of(diagnose(Module({"f": function}))) == [
        "TIR0215 @f returns i32, f32, not 1 values | None"
    ]


def roomy(text: str) -> tuple[Diagnostic, ...]:
    return findings(STAGE + ROOMY + text + "  ret\n}\n")


def test_messages_about_allocations() -> None:
    result = roomy(A + WRITTEN + scratch(496) + TAKE)
    message = "unsplat has bytes 496 to 511, where gpu.shared_alloc still needs some"
    assert texts_of(result) == [f"TIR0228 {message} | shared"]
    assert [note.message for note in result[0].notes] == ["it has bytes 0 to 511"]
    message = "TIR0227 unsplat has bytes 1009 to 1024, and @k 1024 in all | shared"
    assert texts_of(roomy(scratch(1009))) == [message]


def test_allocations_that_touch_the_end_or_one_another() -> None:
    upper = A.replace("[0, 512]", "[512, 512]")
    assert roomy(scratch(1008) + upper + WRITTEN + scratch(496).replace("%u", "%v") + TAKE) == ()


def test_a_byte_of_a_function_without_any() -> None:
    text = STAGE + ROOMY.replace(" {shared = 1024}", "") + scratch(0).replace("16]", "1]")
    assert [d.code for d in findings(text + "  ret\n}\n")] == ["TIR0227"]


def test_a_buffer_may_be_allotted_where_another_is_in_use() -> None:
    assert roomy(A + WRITTEN + other(0).replace("«", "") + TAKE + THERE) == ()


def test_a_clash_is_reported_once() -> None:
    twice = "  %t = gpu.local_load f16<8, 16> %a, 0\n  %w = gpu.local_load f16<8, 16> %b, 0\n"
    stores = WRITTEN + "  gpu.local_store %s, %b, 0\n"
    assert [d.code for d in roomy(A + other(256) + stores + twice)] == ["TIR0228"]


def test_a_buffer_without_an_allocation_yet_overlaps_with_none() -> None:
    assert roomy(A.replace(", shared = [0, 512]", "") + WRITTEN + scratch(0) + TAKE) == ()


def test_allocations_are_left_alone_where_blocks_are_wrong() -> None:
    result = roomy(A + WRITTEN + scratch(496) + TAKE + "  br nowhere\n")
    assert "TIR0228" not in [d.code for d in result]


@pytest.mark.parametrize(("kind", "space"), [("global", 4), ("constant", 3)])
def test_globals_in_the_wrong_place(kind: str, space: int) -> None:
    (diagnostic,) = findings(f"{kind} addrspace({space}) f32 @x = 1.0\n")
    assert diagnostic.message == f"@x: a {kind} cannot be in address space {space}"


@pytest.mark.parametrize(("more", "end"), [(0, ""), (7, ""), (8, ", ...")])
def test_a_label_that_is_none_names_some_that_are(more: int, end: str) -> None:
    labels = [f"b{n}" for n in range(more)]
    broken = module(Block("entry", (), (jump("nowhere"),)), *(Block(b, (), (RET,)) for b in labels))
    labels_named = ", ".join(["entry", *labels][:8]) + end
    assert (
        texts_of(diagnose(broken))[0]
        == f"TIR0204 no block nowhere in @f; it has {labels_named} | None"
    )
