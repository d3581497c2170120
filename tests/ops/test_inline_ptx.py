"""Inline assembly in the interpreter: PTX on the elements of tiles."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.sizes import for_each
from tileir.errors import InterpretError
from tileir.machine import Machine, Tensor
from tileir.machine.tensor import dtype_of
from tileir.op import lookup
from tileir.types import BF16, F16, F32, F64, I1, I8, I16, I32, I64, Element, Tile
from tileir.values import Value

MACHINE = Machine()
WORDS = [0, 1, -1, 77, -12345, 2**31 - 1, -(2**31), 0x12345678]
OTHERS = [3, -1, 5, -7, 11, 2, 31, -13]


def run(
    text: str, constraints: str, results: list[Element], *inputs: tuple[Element, Any],
    pack: int = 1, undef: tuple[int, ...] = (),
) -> list[Tensor]:  # fmt: skip
    """The results of an op on rows; lanes `undef` of its first operand are undefined."""
    count = len(inputs[0][1]) if inputs else 4
    row = [Tile(element, (count,)) for element, _ in inputs]
    tensors = [Tensor(np.array(data).astype(dtype_of(e))) for e, data in inputs]
    if undef:
        tensors[0] = Tensor(tensors[0].data, np.isin(np.arange(count), undef))
    op: Any = lookup("inline_asm")
    instance = op(
        tuple(Tile(e, (count,)) for e in results), tuple(Value(t) for t in row), text=text,
        constraints=constraints, pack=pack,
    )  # fmt: skip
    got = instance.evaluate(MACHINE, tuple(tensors))
    return list(got) if isinstance(got, tuple) else [got]


def as_signed(number: int, bits: int = 32) -> int:
    low = number & (1 << bits) - 1
    return low - (low >> bits - 1 << bits)


def u32(number: int) -> int:
    return number & 0xFFFFFFFF


def lop3(a: int, b: int, c: int, table: int) -> int:
    return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i
               for i in range(32))  # fmt: skip


@for_each(
    ("body", "expected"),
    [
        ("add.s32 $0, $1, $2;", lambda a, b: a + b),
        ("sub.u32 $0, $1, $2;", lambda a, b: a - b),
        ("mul.lo.s32 $0, $1, $2;", lambda a, b: a * b),
        ("mul.hi.s32 $0, $1, $2;", lambda a, b: a * b >> 32),
        ("mul.hi.u32 $0, $1, $2;", lambda a, b: u32(a) * u32(b) >> 32),
        ("mad.lo.s32 $0, $1, $2, -9;", lambda a, b: a * b - 9),
        ("div.s32 $0, $1, $2;", lambda a, b: int(np.trunc(a / b))),
        ("rem.s32 $0, $1, $2;", lambda a, b: int(np.fmod(float(a), float(b)))),
        ("rem.u32 $0, $1, $2;", lambda a, b: u32(a) % u32(b)),
        ("min.s32 $0, $1, $2;", min),
        ("max.u32 $0, $1, $2;", lambda a, b: max(u32(a), u32(b))),
        ("abs.s32 $0, $1;", lambda a, b: abs(a)),
        ("neg.s32 $0, $1;", lambda a, b: -a),
        ("and.b32 $0, $1, $2;", lambda a, b: a & b),
        ("xor.b32 $0, $1, 0xf0f0f0f0;", lambda a, b: a ^ 0xF0F0F0F0),
        ("not.b32 $0, $1;", lambda a, b: ~a),
        ("shl.b32 $0, $1, 4;", lambda a, b: a << 4),
        ("shl.b32 $0, $1, 40;", lambda a, b: 0),
        ("shr.s32 $0, $1, 3;", lambda a, b: a >> 3),
        ("shr.s32 $0, $1, 99;", lambda a, b: a >> 31),
        ("shr.u32 $0, $1, $2;", lambda a, b: u32(a) >> min(u32(b), 32)),
        ("popc.b32 $0, $1;", lambda a, b: u32(a).bit_count()),
        ("clz.b32 $0, $1;", lambda a, b: 32 - u32(a).bit_length()),
        ("brev.b32 $0, $1;", lambda a, b: int(f"{u32(a):032b}"[::-1], 2)),
        ("bfe.u32 $0, $1, 4, 9;", lambda a, b: a >> 4 & 511),
        ("bfi.b32 $0, $1, $2, 8, 4;", lambda a, b: b & ~0xF00 | (a & 15) << 8),
        ("prmt.b32 $0, $1, $2, 0x4103;", lambda a, b: int.from_bytes(
            [u32(a) >> 24, u32(a) & 255, u32(a) >> 8 & 255, u32(b) & 255],
            "little")),
        ("prmt.b32 $0, $1, $2, 0xbbbb;", lambda a, b: -1 if a < 0 else 0),
        ("lop3.b32 $0, $1, $2, 255, 0xea;", lambda a, b: lop3(a, b, 255, 0xEA)),
        ("{ .reg .b32 t<2>; mov.b32 t1, $2; or.b32 $0, $1, t1; }", lambda a, b: a | b),
        ("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, $1; mov.b32 $0, {hi, lo}; }",
         lambda a, b: u32(a) >> 16 | u32(a) << 16),
        ("{ .reg .pred p; setp.lt.s32 p, $1, $2; selp.b32 $0, $1, $2, p; }", min),
        ("{ .reg .pred p; setp.lo.u32 p, $1, $2; mov.b32 $0, 1; @!p mov.b32 $0, 2; }",
         lambda a, b: 1 if u32(a) < u32(b) else 2),
        ("{ .reg .s8 t; cvt.s8.s32 t, $1; cvt.s32.s8 $0, t; } // sign",
         lambda a, b: as_signed(a, 8)),
        ("cvt.sat.s8.s32 $0, $1;", lambda a, b: max(-128, min(127, a))),
    ],
)  # fmt: skip
def test_integers(body: str, expected: Any) -> None:
    (got,) = run(body, "=r,r,r", [I32], (I32, WORDS), (I32, OTHERS))
    assert got.data.tolist() == [
        as_signed(expected(a, b)) for a, b in zip(WORDS, OTHERS, strict=True)
    ]


def test_the_nth_bit_that_is_set() -> None:
    text = "fns.b32 $0, $1, 0, $2;"
    (got,) = run(text, "=r,r,r", [I32], (I32, [0b10110] * 4), (I32, [1, 2, 3, 4]))
    assert got.data.tolist() == [1, 2, 4, -1]
    (down,) = run("fns.b32 $0, $1, 3, $2;", "=r,r,r", [I32], (I32, [0b10110]), (I32, [-2]))
    assert down.data.tolist() == [1]


def test_multiplications_of_twice_the_width() -> None:
    (got,) = run("mul.wide.s32 $0, $1, $2;", "=l,r,r", [I64], (I32, WORDS), (I32, OTHERS))
    assert got.data.tolist() == [a * b for a, b in zip(WORDS, OTHERS, strict=True)]
    (high,) = run("mul.hi.s64 $0, $1, $2;", "=l,l,l", [I64], (I64, [2**62, -3]), (I64, [12, 5]))
    assert high.data.tolist() == [3, -1]


X = np.array([0.0, -0.5, 1.25, 3.75, -7.5, 1e-41, 130.0, np.inf], np.float32)


@for_each(
    ("body", "expected"),
    [
        ("tanh.approx.f32 $0, $1;", np.tanh),
        ("ex2.approx.ftz.f32 $0, $1;", np.exp2),
        ("sin.approx.f32 $0, $1;", np.sin),
        ("fma.rn.f32 $0, $1, $1, 0f3f800000;", lambda x: x * x + 1),
        ("add.rz.f32 $0, $1, 1.0;", lambda x: np.where(x == X[5], 1.0, x + 1)),
        ("add.ftz.f32 $0, $1, $1;", lambda x: np.where(x == X[5], 0.0, x + x)),
        ("mul.sat.f32 $0, $1, $1;", lambda x: np.clip(x * x, 0, 1)),
        ("max.f32 $0, $1, 0f00000000;", lambda x: np.maximum(x, 0)),
        ("div.full.f32 $0, $1, 4.;", lambda x: x / 4),
        ("cvt.rni.f32.f32 $0, $1;", np.rint),
        ("abs.f32 $0, $1;", np.abs),
    ],
)  # fmt: skip
def test_floats(body: str, expected: Any) -> None:
    (got,) = run(body, "=f,f", [F32], (F32, X))
    with np.errstate(all="ignore"):
        reference = expected(X.astype(np.float64)).astype(np.float32)
    assert np.array_equal(got.data, reference, equal_nan=True), (got.data, reference)


def test_a_softplus_with_a_guarded_branch() -> None:
    text = """{ .reg .pred p;
        setp.gt.f32  p, $1, 15.;
        @p  mov.f32  $0, $1;
        @!p ex2.approx.ftz.f32 $0, $1;
        @!p add.f32            $0, $0, 1.0;
        @!p lg2.approx.ftz.f32 $0, $0;
    } """
    (got,) = run(text, "=r,r", [F32], (F32, [-3.0, 0.0, 14.5, 16.0]))
    assert np.allclose(got.data, [np.log2(1 + 2**-3), 1.0, np.log2(1 + 2**14.5), 16], rtol=1e-6)


def test_conversions_to_narrow_floats() -> None:
    x = np.array([0.3, -500.0, 7.0, 1e-9], np.float32)
    y = x[::-1].copy()
    text = "cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;"
    (got,) = run(text, "=h,f,f", [I16], (F32, x), (F32, y))
    pairs = np.stack([y, x], -1).clip(-448, 448).astype(ml_dtypes.float8_e4m3fn)
    assert np.array_equal(got.data, pairs.view(np.int16)[:, 0])
    (back,) = run("cvt.rn.f16x2.e4m3x2 $0, $1;", "=r,h", [I32], (I16, got.data))
    assert np.array_equal(back.data, pairs.astype(np.float16).view(np.int32)[:, 0])
    text = "{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, $1, $2; mov.b32 $0, {t, t, t, t}; }"
    (nibbles,) = run(text, "=r,f,f", [I32], (F32, [1.5, -9.0]), (F32, [0.5, 3.2]))
    assert nibbles.data.view(np.uint32).tolist() == [0x31313131, 0xF5F5F5F5]
    (whole,) = run("cvt.rzi.s32.f32 $0, $1;", "=r,f", [I32], (F32, [2.9, -2.9, 1e20, np.nan]))
    assert whole.data.tolist() == [2, -2, 2**31 - 1, 0]


@for_each("element", [F16, BF16])
def test_pairs_of_half_floats_share_a_register(element: Element) -> None:
    x = np.arange(7).astype(dtype_of(element))
    text = f"add.rn.{element}x2 $0, $1, $1;"
    (got,) = run(text, "=r,r", [element], (element, x), pack=2)
    assert np.array_equal(got.data, x + x)


def test_elements_that_share_a_register_and_undefined_ones() -> None:
    x = np.arange(8)
    (got,) = run("shl.b32 $0, $1, 1;", "=r,r", [I8], (I8, x), pack=4, undef=(1,))
    assert got.data.tolist() == (2 * x).tolist()
    assert got.undef is not None
    assert np.flatnonzero(got.undef).tolist() == [0, 1, 2, 3]
    (alone,) = run("mov.b32 $0, $1;", "=r,r", [I32], (I32, x), undef=(1,))
    assert alone.undef is not None
    assert np.flatnonzero(alone.undef).tolist() == [1]


def test_several_results_and_an_operand_in_the_register_of_a_result() -> None:
    text = "sub.s32 $1, $2, $3; add.s32 $0, $0, $3;"
    total, difference = run(text, "=&r,=r,0,r", [I32, I32], (I32, [5, 6]), (I32, [1, 9]))
    # the tied operand is also $2
    assert total.data.tolist() == [6, 15]
    assert difference.data.tolist() == [4, -3]


def test_doubles_and_code_without_operands() -> None:
    (got,) = run("mul.rn.f64 $0, $1, 0d4000000000000000;", "=d,d", [F64], (F64, [1.5, 3.0]))
    assert got.data.tolist() == [3.0, 6.0]
    assert run("mov.u32 $0, 7;", "=r", [I32])[0].data.tolist() == [7] * 4
    (flag,) = run("setp.ge.s32 $0, $1, 2;", "=b,r", [I1], (I32, [1, 2, 3]))
    assert flag.data.tolist() == [False, True, True]


@for_each(
    "text",
    [
        "mov.u32 $0, %laneid;", "ld.global.u32 $0, [$1];", "bra done;", "done: mov.b32 $0, $1;",
        "add.s32.cc $0, $1, $1;", "mul.s32 $0, $1, $1;", "bfe.s32 $0, $1, 1, 2;", "mov.b32 $0, t;",
        "add.s32 $0, $1;", "mov.b32 $0, $1", "shfl.sync.bfly.b32 $0, $1, 1, 31, -1;",
        "{ .reg .b128 t; mov.b32 $0, $1; }", "setp.lt.s32 p|q, $1, $1;", "cvt.rna.tf32.f32 $0, $1;",
    ],
)  # fmt: skip
def test_what_has_no_meaning_outside_a_gpu(text: str) -> None:
    with pytest.raises(InterpretError, match="no meaning outside a GPU") as caught:
        run(text, "=r,r", [I32], (I32, [1, 2]))
    assert caught.value.code == "TIR0555"
