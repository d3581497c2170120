"""LLVM IR as it is written: nothing twice, nothing that is known."""

import re
from types import SimpleNamespace

import pytest

from tests.sizes import for_each
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.nvptx.emit import _parameter
from tileir.backend.nvptx.llvm_codegen import negations_kept, with_wide_multiply_adds
from tileir.backend.nvptx.text import fold_constants, global_name, kernel_name, symbol
from tileir.backend.nvptx.thread import LlvmThread
from tileir.builder import Builder, arg, pointer
from tileir.errors import CompileError
from tileir.ir import Parameter
from tileir.types import F8E4M3, F16, F32, I1, I8, I32, Descriptor, Tile
from tileir.values import Value


@for_each(
    ("name", "element", "a", "b", "expected"),
    [
        ("add", I32, "%x", "0", "%x"),
        ("add", I32, "0", "%x", "%x"),
        ("sub", I32, "0", "%x", None),
        ("sub", I32, "%x", "0", "%x"),
        ("mul", I32, "%x", "0", "0"),
        ("mul", I32, "1", "%x", "%x"),
        ("udiv", I32, "%x", "1", "%x"),
        ("udiv", I32, "8", "2", None),
        ("shl", I32, "0", "%x", None),
        ("and", I32, "%x", "-1", "%x"),
        ("and", I32, "%x", "31", None),
        ("add", I32, "2147483647", "1", "-2147483648"),
        ("mul", I8, "100", "3", "44"),
        ("xor", I8, "-1", "1", "-2"),
        ("or", I1, "true", "%x", None),
        ("fadd", F32, "%x", "0x0000000000000000", None),
        ("add", I32, "%x", "%y", None),
    ],
)
def test_arithmetic_on_literals(name, element, a, b, expected):
    assert fold_constants(name, element, a, b) == expected


def test_a_block_has_an_instruction_once():
    thread = LlvmThread()
    first = thread.binary("add", I32, "%a", "%b")
    assert thread.binary("add", I32, "%a", "%b") == first
    assert thread.binary("add", I32, "%a", "%b", "nsw") != first
    thread.start("next")
    assert thread.binary("add", I32, "%a", "%b") != first
    assert sum("add i32 %a, %b" in line for line in thread.lines) == 2


@pytest.mark.parametrize(("condition", "a", "b"), [("%c", "%x", "%x"), ("true", "%x", "%y")])
def test_a_choice_that_is_known_is_no_instruction(condition, a, b):
    thread = LlvmThread()
    assert thread.select(I32, condition, a, b) == "%x"
    assert not thread.lines


def test_what_the_entry_has_is_known_everywhere():
    thread = LlvmThread()
    entry = thread.once("sum", lambda: thread.binary("add", I32, "%a", "%b"))
    thread.start("next")
    assert thread.binary("add", I32, "%a", "%b") == entry
    assert len(thread.at_entry) == 1


def test_what_is_in_a_block_is_not_known_at_the_entry():
    thread = LlvmThread()
    here = thread.binary("add", I32, "%a", "%b")
    assert thread.once("sum", lambda: thread.binary("add", I32, "%a", "%b")) != here


def test_loads_are_not_joined():
    thread = LlvmThread()
    assert thread.load_shared(F32, 1, "%a") != thread.load_shared(F32, 1, "%a")


def test_words_that_are_unpacked_are_packed_by_name():
    thread = LlvmThread()
    low, high = thread.from_words(F16, ["%w"]), thread.load_matrix(F16, 1, False, "%a", 0)
    assert len(high) == 2
    count = len(thread.lines)
    (word,) = thread._pack(F16, high, I32, 1)
    assert any(line.startswith(f"  {word} = call i32 asm") for line in thread.lines)
    assert len(thread.lines) == count
    assert thread._pack(F16, [low, high[1]], I32, 1) != [word]


def test_halves_of_two_words_are_put_together_by_one_instruction():
    thread = LlvmThread()
    elements = thread._unpack(F8E4M3, 8, I32, ["%v", "%w"])
    count = len(thread.lines)
    (word,) = thread._pack(F8E4M3, elements[2:6], I32, 1)
    (line,) = thread.lines[count:]
    assert line == f"  {word} = call i32 @llvm.nvvm.prmt(i32 %v, i32 %w, i32 {0x5432})"


def test_bits_cast_there_and_back_are_the_value():
    thread = LlvmThread()
    (word,) = thread.to_words(F32, "%x")
    assert thread.from_words(F32, [word]) == "%x"
    assert len(thread.lines) == 1


def test_elements_narrower_than_a_byte_are_recreated():
    """A byte in memory may hold more than the bit that was taken from it."""
    thread = LlvmThread()
    result = thread._unpack(I1, 4, I32, ["%w"])
    assert thread._pack(I1, result, I32, 1) != ["%w"]


NEGATED = """
	neg.s32 	%r5, %r1;
	max.s32 	%r6, %r5, %r2;
	neg.s64 	%rd5, %rd1;
"""


def test_negations_of_what_a_maximum_takes_are_spelled_out():
    result = negations_kept(NEGATED)
    assert "not.b32 \t%r5, %r1;\n\tadd.s32 \t%r5, %r5, 1;\n" in result
    assert "neg.s32" not in result and "neg.s64" in result
    others = NEGATED.replace("max", "add")
    assert negations_kept(others) == others


MULTIPLICATION, ADDITION = "\tmul.wide.s32 \t%rd1, %r1, 2;\n", "\tadd.s64 \t%rd2, %rd3, %rd1;\n"
FUSED = "\tmad.wide.s32 \t%rd2, %r1, 2, %rd3;\n"


@for_each(
    ("text", "expected"),
    [
        (MULTIPLICATION + ADDITION, FUSED),
        (MULTIPLICATION + "\tadd.s64 \t%rd2, %rd1, %rd3;\n", FUSED),
        (
            MULTIPLICATION.replace("s32", "u32").replace("2;", "%r2;") + ADDITION,
            FUSED.replace("s32", "u32").replace(" 2,", " %r2,"),
        ),
        (
            MULTIPLICATION + "\tadd.s32 \t%r3, %r1, 1;\n" + ADDITION,
            "\tadd.s32 \t%r3, %r1, 1;\n" + FUSED,
        ),
        (MULTIPLICATION + ADDITION + "\tst.global.b64 \t[%rd4], %rd1;\n", None),  # another reader
        (MULTIPLICATION + "\tadd.s64 \t%rd2, %rd1, %rd1;\n", None),
        (
            MULTIPLICATION + "\tadd.s32 \t%r1, %r1, 1;\n" + ADDITION,
            None,
        ),  # the next iteration's operand
        (
            MULTIPLICATION + "\tmov.b32 %r4, %r5; mov.b32 %r1, %r5;\n" + ADDITION,
            None,
        ),  # inline assembly
        (MULTIPLICATION.replace("2;", "%r2;") + "\tmov.b32 \t{%rs1, %r2}, %r5;\n" + ADDITION, None),
        (MULTIPLICATION + "$L__BB0_2:\n" + ADDITION, None),  # other ways lead there
        (ADDITION + MULTIPLICATION, None),
        (MULTIPLICATION + ADDITION.replace("s64", "f64"), None),
    ],
)
def test_a_multiplication_and_its_only_addition_are_one_instruction(text, expected):
    assert with_wide_multiply_adds(text) == (text if expected is None else expected)


@pytest.mark.parametrize("dot", ["mma.sync.aligned", "wgmma.mma_async.sync.aligned", ""])
def test_addresses_of_kernels_with_dots_stay(dot):
    address = "\tmul.wide.s32 \t%rd2, %r1, 4;\n\tadd.s64 \t%rd3, %rd1, %rd2;\n"
    text = f"{address}\t{dot};\n"
    assert (with_wide_multiply_adds(text) == text) is bool(dot)


def test_the_address_of_a_row_is_one_multiply_add():
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", x=kind, y=kind, n=arg(I32), m=arg(I32)) as (x, y, n, m):
        at, row = b.arange(512), b.program_id()
        value = (x + row * n + at).load()
        (y + row * m + at).store(value)
    compiled = compile_kernel(b.module(), "sm_90a", Options(num_warps=4))
    assert compiled.ptx.count("mad.wide.s32") == 2 and "mul.wide.s32" not in compiled.ptx


@pytest.mark.parametrize("name", ["count", "a_b$", "9", ""])
def test_names_that_are_identifiers_stay(name):
    assert global_name(name) == f"g${name}"
    assert kernel_name(name) == (name if name[:1].isalpha() else f"k${name}")


@pytest.mark.parametrize("name", [global_name, kernel_name])
def test_no_two_names_are_one_in_ptx(name):
    assert name("a.b") in ("g$a_$_b", "k$a_$_b")
    odd = ["a b", "a;b", "a$20$b", "a$b", "a_b", "a.b", "a. b", "a$2e$$20$b", "é", "_$_", ""]
    odd += ["a_$_b", ".$_", "_$.", "..", "_$__$_", "._$", "g$a_b", "k$a_b", "k$a_$_b", "kx$20$"]
    results = [name(each) for each in odd]
    assert len(set(results)) == len(odd)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_$]*|[_$][A-Za-z0-9_$]+", x) for x in results)


def test_kernels_are_not_called_as_ptx_is():
    assert [kernel_name(n) for n in ("_", "$", "WARP_SZ")] == ["k$_", "k$$", "k$WARP_SZ"]


TAKEN = ["shared", "vprintf", "__assertfail", "__nv_sinf", "g$x", "k1$shared", "k1$g$x"]


@pytest.mark.parametrize("name", TAKEN)
def test_kernels_are_not_called_as_what_they_use(name):
    assert kernel_name(name) == f"k${name}" and kernel_name(f"a{name}") == f"a{name}"


def test_symbols_are_quoted_where_no_word_is_one():
    assert symbol("f.a_b") == "@f.a_b" and symbol('a "é') == '@"a\\20\\22\\C3\\A9"'


@pytest.mark.parametrize("kind", [Tile(F32, (4,)), Descriptor(Tile(F16, (4, 16)))])
@pytest.mark.parametrize("name", ["x", ""])
def test_code_has_scalars_and_pointers_for_parameters(kind, name):
    """What comes in tiles is inlined, and descriptors are taken apart."""
    lowering = SimpleNamespace(
        thread=LlvmThread(), values={}, function=SimpleNamespace(kernel=True)
    )
    with pytest.raises(CompileError, match=f"parameter {name or 3} has type") as error:
        _parameter(lowering, 3, Parameter(Value(kind, name)))
    assert error.value.code == "TIR0706" and not lowering.values
    for plain, text in ((I32, "i32 %a3"), (I8, "i8 %a3"), (F32, "float %a3"), (I1, "i8 %a3")):
        assert _parameter(lowering, 3, Parameter(Value(plain, name))) == text
