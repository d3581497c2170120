"""Order and scope of every atomic access in PTX: op by order by scope by type by target.

A kernel makes all accesses one after the other; what PTX has of them, in that order, is compared
with the table here, and assembled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import cycle, product

import pytest

from tileir import textual
from tileir.backend import compile as compile_kernel
from tileir.backend.target import TARGETS

SCOPES = ("cta", "gpu", "sys")
SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")
INTEGERS = ("smax", "smin", "umax", "umin", "and", "or", "xor", "add", "xchg")
FLOATS = ("fadd", "fmax", "fmin", "xchg")
KINDS = {
    "i16": ("xchg",), "i32": (*INTEGERS, "inc", "dec"), "i64": INTEGERS, "f16": FLOATS,
    "bf16": FLOATS, "f32": FLOATS, "f64": FLOATS,
}  # fmt: skip
BITS = {"i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
ADDS = {"f16": "add.noftz.f16", "bf16": "add.noftz.bf16", "f32": "add.f32", "f64": "add.f64"}
NATIVE = {
    "add": "add.u", "smax": "max.s", "smin": "min.s", "umax": "max.u", "umin": "min.u",
    "and": "and.b", "or": "or.b", "xor": "xor.b", "inc": "inc.u", "dec": "dec.u", "xchg": "exch.b",
}  # fmt: skip
ACCESS = re.compile(r"(atom|red|ld|st)\.(relaxed|acquire|release|acq_rel)\.\S+|fence\.\S+")


def accesses(kinds: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, str, str, str]]:
    """Type, op, order, scope."""
    for element, names in kinds.items():
        yield from product([element], (*names, "cas"), SEMANTICS, SCOPES)
        yield from product([element], ["load"], ("relaxed", "acquire"), SCOPES)
        yield from product([element], ["store"], ("relaxed", "release"), SCOPES)


def statement(number: int, access: tuple[str, str, str, str], read: bool, count: int) -> str:
    element, name, sem, scope = access
    shape = f"<{count}>" if count else ""
    order, value = f"sem = {sem}, scope = {scope}", f"%v_{element}"
    pointer = f"%p_{element}"
    if name == "store":
        return f"  atomic_store {pointer}, {value} {{{order}}}\n"
    text = {"cas": f"atomic_cas {element}{shape} {pointer}, {value}, {value} {{{order}}}",
            "load": f"atomic_load {element}{shape} {pointer} {{{order}}}"}.get(
        name, f"atomic_rmw {element}{shape} {pointer}, {value} {{op = {name}, {order}}}"
    )  # fmt: skip
    attributes = f"  store {pointer.replace('p', 'q', 1)}, %o{number}\n" if read else ""
    return f"  %o{number} = {text}\n{attributes}"


def kernel(cases: list[tuple[str, str, str, str]], read: bool, count: int) -> str:
    elements = dict.fromkeys(c[0] for c in cases)
    parameters = ", ".join(f"{e}* %x_{e}, {e}* %y_{e}, {e} %n_{e}" for e in elements)
    lines = [f"  %i = make_range i32<{count}>\n"] if count else []
    for e in elements:
        if count:
            for p, x in (("p", "x"), ("q", "y")):
                lines.append(f"  %s{p}_{e} = splat {e}*<{count}> %{x}_{e}\n")
                lines.append(f"  %{p}_{e} = getelementptr {e}*<{count}> %s{p}_{e}, %i\n")
            lines.append(f"  %v_{e} = splat {e}<{count}> %n_{e}\n")
        else:
            zero = f"{e}* %{{}}_{e}, i32 0\n"
            lines += [f"  %p_{e} = getelementptr {zero}".format("x")]
            lines += [f"  %q_{e} = getelementptr {zero}".format("y")]
            lines += [f"  %v_{e} = {'f' if 'f' in e else ''}add {e} %n_{e}, %n_{e}\n"]
    body = [statement(i, case, read, count) for i, case in enumerate(cases)]
    text = "".join((*lines, *body))
    return f"tir 1.0\n\ndefine kernel void @k({parameters}) {{\nentry:\n{text}  ret\n}}\n"


def instructions(
    access: tuple[str, str, str, str], target: str, read: bool, count: int
) -> Iterator[str]:
    """What PTX has of `count` accesses by a thread, without registers: fences around several."""
    element, name, sem, scope = access
    bits, fenced = BITS[element], count > 1 and sem != "relaxed"
    semantics = f"{'relaxed' if fenced else sem}.{scope}.global"
    loops = name in ("fmax", "fmin") or (name == "xchg" and bits == 16)
    loops |= name == "fadd" and element == "bf16" and not TARGETS[target].bf16_atomics
    if loops:
        one = [f"ld.relaxed.{scope}.global.b{bits}", f"atom.{semantics}.cas.b{bits}"]
    elif name in ("load", "store"):
        one = [f"{'ld' if name == 'load' else 'st'}.{semantics}.b{bits}"]
    elif name == "cas":
        one = [f"atom.{semantics}.cas.b{bits}"]
    else:
        word = "atom" if read or name == "xchg" or sem in ("acquire", "acq_rel") else "red"
        one = [f"{word}.{semantics}.{ADDS[element] if name == 'fadd' else f'{NATIVE[name]}{bits}'}"]
    if fenced and sem in ("release", "acq_rel"):
        yield f"fence.acq_rel.{scope}"
    yield from one * count
    if fenced and sem in ("acquire", "acq_rel"):
        yield f"fence.acq_rel.{scope}"


def accesses_of(ptx: str) -> list[str]:
    return [m.group().removesuffix(";") for m in ACCESS.finditer(ptx)]


SHAPES = {"scalar": (0, 1), "one each": (128, 1), "four each": (512, 4)}
"""Elements of a tile, 0 for a scalar, and of each of 128 threads."""
HOW = cycle([("scalar", True), ("one each", False)])
"""The shapes of accesses, and whether they are read, of one target after the other."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("target", "shape", "read"),
    [(t, *how) for t, how in zip(TARGETS, HOW, strict=False)],
)
def test_every_access_says_its_order_and_scope(target: str, shape: str, read: bool) -> None:
    check(KINDS, target, shape, read)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("shape", ["scalar", "four each"])
@pytest.mark.parametrize("read", [False, True])
def test_several_accesses_by_a_thread_are_between_fences(
    target: str, shape: str, read: bool
) -> None:
    check({"i32": ("add", "xchg"), "bf16": ("fadd", "fmax")}, target, shape, read)


def check(kinds: dict[str, tuple[str, ...]], target: str, shape: str, read: bool) -> None:
    cases, (size, count) = list(accesses(kinds)), SHAPES[shape]
    text = kernel(cases, read, size)
    compiled = compile_kernel(textual.parse(text), target, {"num_warps": 4})
    expected = [x for case in cases for x in instructions(case, target, read, count)]
    assert accesses_of(compiled.ptx) == expected
    assert compiled.cubin
    for line in compiled.llvm.splitlines():
        if ACCESS.search(line):  # LLVM moves no access over it
            assert "asm sideeffect" in line and '~{memory}"' in line


@pytest.mark.parametrize("target", TARGETS)
def test_every_fence_says_its_scope(target: str) -> None:
    cases = list(product(SEMANTICS[1:], SCOPES))
    fences = "".join(f"  fence {{sem = {sem}, scope = {scope}}}\n" for sem, scope in cases)
    text = f"tir 1.0\n\ndefine kernel void @k(i32* %x) {{\nentry:\n{fences}  ret\n}}\n"
    compiled = compile_kernel(textual.parse(text), target)
    stated = [tuple(x.split(".")[1:]) for x in accesses_of(compiled.ptx)]
    assert len(stated) == len(cases)
    for (order, where), (sem, scope) in zip(stated, cases, strict=True):
        assert order in (sem, "acq_rel") and where == scope
    assert compiled.cubin


VECTOR = """tir 1.0

define kernel void @k({element}* aligned(16) %x, {element}* aligned(16) %y) {{
entry:
  %i = make_range i32<1024>
  %xs = splat {element}*<1024> %x
  %p = getelementptr {element}*<1024> %xs, %i
  %v = sitofp {element}<1024> %i
{body}  ret
}}
"""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize(
    ("target", "element", "width", "vector"),
    [("sm_80", "f16", 2, "add.noftz.f16x2"), ("sm_80", "f32", 1, "add.f32"),
     ("sm_90", "f16", 8, "add.noftz.v4.f16x2"), ("sm_90", "bf16", 8, "add.noftz.v4.bf16x2"),
     ("sm_90", "f32", 4, "add.v4.f32"), ("sm_120", "f32", 4, "add.v4.f32")],
)  # fmt: skip
def test_vectors_keep_order_and_scope(
    target: str, element: str, width: int, vector: str, read: bool
) -> None:
    cases = list(product(SEMANTICS, SCOPES))
    body = "".join(
        f"  %o{i} = atomic_rmw {element}<1024> %p, %v {{op = fadd, sem = {sem}, scope = {scope}}}\n"
        + (f"  store %p, %o{i}\n" if read else "")
        for i, (sem, scope) in enumerate(cases)
    )
    text = VECTOR.format(element=element, body=body)
    compiled = compile_kernel(textual.parse(text), target, {"num_warps": 4})
    expected: list[str] = []
    for sem, scope in cases:
        fenced = 8 > width and sem != "relaxed"
        semantics = "relaxed" if fenced else sem
        word = "atom" if read or sem in ("acquire", "acq_rel") else "red"
        fence = [f"fence.acq_rel.{scope}"]
        expected += fence * (fenced and sem in ("release", "acq_rel"))
        expected += [f"{word}.{semantics}.{scope}.global.{vector}"] * (8 // width)
        expected += fence * (fenced and sem in ("acquire", "acq_rel"))
    assert accesses_of(compiled.ptx) == expected
    assert compiled.cubin
