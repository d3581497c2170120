"""Block parameters: narrow elements are carried in words where every edge brings words."""

import ctypes
from typing import Any

import pytest

import tileir.backend
from tileir.backend.nvptx.llvm_codegen import llvm_binding
from tileir.backend.nvptx.phis import PhiBuilder
from tileir.backend.nvptx.thread import LlvmThread
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.types import BF16, I8, I16, Element


def counting_function(element: Element, words: bool) -> tuple[str, bool]:
    """A function of a word and a count that adds one to the word, or to each of its elements,
    that often; and whether the word is carried as one."""
    thread = LlvmThread()
    joins, each = PhiBuilder(thread), thread.per_word(element)
    values: list[Any] = joins.add_parameter("loop", element, each)
    (index,) = joins.add_parameter("loop", I32, 1)
    first = thread._unpack(element, each, I32, ["%w"])
    thread.line("br label %loop")
    thread.start("loop")
    place = len(thread.lines)
    thread.lines.append("")
    if words:
        (old,) = thread._pack(element, values, I32, 1)
        after = thread._unpack(element, each, I32, [thread.binary("add", I32, old, "1")])
    else:
        after = [thread.binary("add", element, x, "1") for x in values]
    following = thread.binary("add", I32, index, "1")
    more = thread.compare("ult", I32, following, "%n")
    (result,) = thread._pack(element, after, I32, 1)
    thread.line(f"br i1 {more}, label %loop, label %end")
    thread.start("end")
    thread.line(f"ret i32 {result}")
    edges = {"loop": [("entry", [*first, "0"]), ("loop", [*after, following])]}
    carried = joins.packed_words(edges)
    thread.lines[place] = "\n".join(joins.lines("loop", edges["loop"], carried))
    return "\n".join(("define i32 @f(i32 %w, i32 %n) {", "entry:", *thread.lines, "}")), bool(
        carried
    )


def run(text: str, word: int, count: int) -> int:
    binding = llvm_binding()
    parsed = binding.parse_assembly(text)
    parsed.verify()
    parsed.triple = binding.get_process_triple()
    target = binding.Target.from_triple(parsed.triple).create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(parsed, target)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
    return kind(engine.get_function_address("f"))(word, count)


@pytest.mark.parametrize("element", [I8, I16])
def test_words_are_carried_where_every_edge_brings_one(element: Element) -> None:
    text, carried = counting_function(element, True)
    assert carried and "phi i32" in text and f"phi i{element.bits}" not in text
    assert run(text, 0x01FFFEFD, 3) == 0x01FFFEFD + 3


@pytest.mark.parametrize("element", [I8, I16])
def test_elements_are_carried_where_an_edge_computes_them(element: Element) -> None:
    text, carried = counting_function(element, False)
    assert not carried and f"phi i{element.bits}" in text
    ones = sum(3 << shift for shift in range(0, 32, element.bits))
    expected = run(text, 0x01020304, 3)
    assert expected == 0x01020304 + ones


def test_literals_alone_make_no_words() -> None:
    thread = LlvmThread()
    joins = PhiBuilder(thread)
    joins.add_parameter("b", BF16, 2)
    assert joins.packed_words({"b": [("entry", ["0xR3F80", "0xR0000"])]}) == set()
    assert thread.word(BF16, ("0xR3F80", "0xRC000")) == str(0xC0003F80 - (1 << 32))
    assert thread.word(I8, ("-1", "2", "0", "1")) == str(0x010002FF)
    assert thread.word(F16, ("%a", "%b")) is None


def test_fragments_read_a_step_ahead_cross_the_loop_as_words() -> None:
    b, data = Builder(), arg(pointer(F16), aligned=16)
    with b.kernel("k", x=data, y=data, z=pointer(F32), n=I32) as (x, y, z, n):
        i, step, acc = b.arange(64), b.arange(32), b.var(b.zeros((64, 64)), name="acc")
        with b.for_(0, n, 32) as start:
            left = (x + i[:, None] * 4096 + (start + step)).load()
            right = (y + (start + step)[:, None] * 64 + i).load()
            acc.set(left.dot(right, acc))
        (z + i[:, None] * 64 + i).store(acc)
    done = tileir.backend.compile(
        b.module(), "sm_80", {"num_warps": 4, "num_stages": 3, "prefetch_operands": True}
    )
    assert "ldmatrix" in done.optimized_llvm
    assert "phi half" not in done.optimized_llvm and "phi i16" not in done.optimized_llvm
    assert "insertelement" not in done.optimized_llvm
