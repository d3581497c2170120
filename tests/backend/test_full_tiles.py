"""Wide accesses where users did not ask: the copies of Triton PTX 2023, and the add of OpenAI,
"Introducing Triton"."""

import re

import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.passmanager import run
from tileir.textual import parse

COPY = """tir 1.0

define kernel void @copy(f32* aligned(16) %x, f32* aligned(16) %y, i32 {n} %n) {{
entry:
  %last = add i32 %n, 127
  %tiles = sdiv i32 %last, 128
  %whole = sub i32 %tiles, {short}
  %some, _ = icmp (i1, i1) %whole, 0 {{predicate = sgt}}
  cond_br %some, loop, exit
loop:
  %i = phi i32 [0, entry], [%j, loop]
  %start = mul i32 %i, 128
  %from = splat i32<128> %start
  %r = make_range i32<128>
  %offs = add i32<128> %from, %r
  %xs = splat f32*<128> %x
  %p = getelementptr f32*<128> %xs, %offs
  %ys = splat f32*<128> %y
  %q = getelementptr f32*<128> %ys, %offs
  {inside}
  %j = add i32 %i, 1
  %more, _ = icmp (i1, i1) %j, %whole {{predicate = slt}}
  cond_br %more, loop, exit
exit:
  {after}
  ret
}}
"""

MASKED = """%ns = splat i32<128> %n
  %m, _ = icmp (i1<128>, i1<128>) %offs, %ns {predicate = slt}
  %v = load f32<128> %p, %m
  store %q, %v, %m"""
BARE = """%v = load f32<128> %p
  store %q, %v"""
LAST = """%first = mul i32 %whole, 128
  %from.1 = splat i32<128> %first
  %r.1 = make_range i32<128>
  %offs.1 = add i32<128> %from.1, %r.1
  %xs.1 = splat f32*<128> %x
  %p.1 = getelementptr f32*<128> %xs.1, %offs.1
  %ys.1 = splat f32*<128> %y
  %q.1 = getelementptr f32*<128> %ys.1, %offs.1
  %ns.1 = splat i32<128> %n
  %m.1, _ = icmp (i1<128>, i1<128>) %offs.1, %ns.1 {predicate = slt}
  %v.1 = load f32<128> %p.1, %m.1
  store %q.1, %v.1, %m.1"""

KERNELS = {
    "05": COPY.format(n="", short=0, inside=MASKED, after=""),
    "05 with multiple_of(4)": COPY.format(n="multiple_of(4)", short=0, inside=MASKED, after=""),
    "06": COPY.format(n="multiple_of(16)", short=0, inside=MASKED, after=""),
    "07": COPY.format(n="", short=1, inside=BARE, after=LAST),
}


def counts(ptx):
    return {
        name: len(re.findall(pattern, ptx))
        for name, pattern in (
            ("wide loads", r"\bld\.global\S*\.v4\.\w+"),
            ("wide stores", r"\bst\.global\S*\.v4\.\w+"),
            ("loads", r"\bld\.global\.(?!\S*v4)"),
            ("stores", r"\bst\.global\.(?!\S*v4)"),
        )
    }


@pytest.mark.parametrize("name", KERNELS)
def test_copies_of_triton_ptx_2023_are_wide_without_help(name):
    """The document: kernel 05 has four loads and stores of one element, even where n is said to be
    a multiple of 4; 06 and 07 are wide since the user saw to it."""
    instructions = counts(compile_kernel(parse(KERNELS[name]), "sm_90", {"num_warps": 1}).ptx)
    narrow = {"05": 4, "07": 4}.get(name, 0)
    more = 2 if name == "07" else 1
    assert instructions["wide loads"] == instructions["wide stores"] == more
    assert instructions["loads"] == instructions["stores"] == narrow


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n", [1000, 128, 8, 1024])
def test_copies_copy(name, n):
    n = n // 16 * 16 if "06" in name else n
    x = np.arange(n, dtype=np.float32)
    for launch in (SimtExecutor().launch, tileir.interpret):
        y = np.zeros_like(x)
        launch(parse(KERNELS[name]), None, 1, [x.copy(), y, n])
        np.testing.assert_array_equal(x, y)


# OpenAI, "Introducing Triton" (2021), verbatim but for the spelling of today.
ADD = """tir 1.0

define kernel void @add(i32* aligned(16) %X, i32* aligned(16) %Y, i32* aligned(16) %Z, \
i32 multiple_of({n}) %N) {{
entry:
  %0 = program_id i32 {{axis = 0}}
  %1 = mul i32 %0, 512
  %3 = make_range i32<512>
  %4 = splat i32<512> %1
  %6 = add i32<512> %4, %3
  %9 = splat i32<512> %N
  %11, _ = icmp (i1<512>, i1<512>) %6, %9 {{predicate = slt}}
  %14 = splat i32*<512> %X
  %16 = getelementptr i32*<512> %14, %6
  %22 = load i32<512> %16, %11
  %26 = splat i32*<512> %Y
  %28 = getelementptr i32*<512> %26, %6
  %34 = load i32<512> %28, %11
  %38 = splat i32*<512> %Z
  %40 = getelementptr i32*<512> %38, %6
  %43 = add i32<512> %22, %34
  store %40, %43, %11
  ret
}}
"""

PRINTED = 22
"""Instructions of the PTX that OpenAI, "Introducing Triton" prints, without ret."""


def instructions(ptx):
    body = ptx[ptx.index("{", ptx.index(".entry")) :]
    lines = [line.strip() for line in body.splitlines()]
    values = [x for line in lines for x in line.replace("{ ", "").split(";") if x.strip()]
    skipped = (".reg", "{", "}", "//", "$", ".loc", ".pragma", "ret")
    return [x for x in values if not x.strip().startswith(skipped) and ":" not in x]


def test_add_of_introducing_triton_is_as_short_as_printed():
    compiled = compile_kernel(parse(ADD.format(n=4)), "sm_90", {"num_warps": 4})
    ptx = compiled.ptx
    assert len(re.findall(r"@%p\d+ ld\.global\.v4\.\w+", ptx)) == 2
    assert len(re.findall(r"st\.global\.v4\.\w+", ptx)) == 1
    assert counts(ptx)["loads"] == counts(ptx)["stores"] == 0
    assert len(instructions(ptx)) <= PRINTED, "\n".join(instructions(ptx))


RELATIONS = ("slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def masked_copy(choose):
    """A copy under one or two masks, conjunctions of comparisons of lanes, of what rises with them,
    falls, or is the same in all, with one another, in either order."""
    lines, names = [], []

    def side(kind):
        name = f"%s{len(names)}"
        names.append(name)
        shift = int(choose.integers(-3, 4))
        match kind:
            case "rises":
                lines.append(f"{name} = add i32<128> %i, {shift}")
            case "falls":
                lines.append(f"{name} = sub i32<128> {128 + shift}, %i")
            case "jumps":
                lines.append(f"{name} = xor i32<128> %i, {int(choose.choice([1, 4, 96]))}")
            case "stays":
                lines.append(f"{name} = add i32<128> %{choose.choice(['ns', 'ms'])}, {shift}")
            case "stays positive":  # whatever the bound: unsigned comparisons are signed ones
                lines.append(f"{name} = and i32<128> %{choose.choice(['ns', 'ms'])}, 255")
        return name

    def mask():
        mask_name = None
        for _ in range(int(choose.choice([1, 1, 2]))):
            left = side(choose.choice(["rises", "rises", "rises", "falls", "jumps", "stays"]))
            kinds = ["stays", "stays", "stays positive", "stays positive", "rises", "falls"]
            right = side(choose.choice(kinds))
            if choose.random() < 0.4:
                left, right = right, left
            name, names_of = f"%m{len(names)}", choose.choice(RELATIONS)
            lines.append(f"{name}, _ = icmp (i1<128>, i1<128>) {left}, {right} "
                         f"{{predicate = {names_of}}}")  # fmt: skip
            if mask_name is not None:
                lines.append(f"%a{len(names)} = and i1<128> {mask_name}, {name}")
                name = f"%a{len(names)}"
            mask_name = name
        return mask_name

    load, store = mask(), None
    store = mask() if choose.random() < 0.5 else load
    body = "\n  ".join(lines)
    return parse(f"""tir 1.0

define kernel void @k(i32* aligned(16) %x, i32* aligned(16) %y, i32 %n, i32 %m) {{
entry:
  %i = make_range i32<128>
  %ns = splat i32<128> %n
  %ms = splat i32<128> %m
  %xs = splat i32*<128> %x
  %p = getelementptr i32*<128> %xs, %i
  %ys = splat i32*<128> %y
  %q = getelementptr i32*<128> %ys, %i
  {body}
  %v = load i32<128> %p, {load}, -7
  store %q, %v, {store}
  ret
}}
""")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(8))
def test_whole_tiles_are_those_whose_masks_hold_everywhere(seed):
    """Generated masks, by the interpreter, with and without a version for whole tiles: what is
    loaded and stored is the same for every bound, negative ones too."""
    choose, versions = np.random.default_rng(seed), 0
    for _ in range(40):
        module = masked_copy(choose)
        done = run(module, "version-full-tiles").module
        if done is module:
            continue
        versions += 1
        for n, m in choose.choice([-(2**31), -200, -1, 0, 1, 50, 126, 127, 128, 131, 300], (6, 2)):
            results = []
            for version in (module, done):
                y = np.full(128, -1, np.int32)
                tileir.interpret(version, "k", 1, [np.arange(128, dtype=np.int32), y, n, m])
                results.append(y)
            np.testing.assert_array_equal(results[0], results[1])
    assert versions
