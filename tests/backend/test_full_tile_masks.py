"""Versions without masks are taken where every lane of a mask holds, whatever it is made of."""

import itertools

import attrs
import numpy as np
import pytest

from tests.sizes import for_each
from tileir.analysis.uses import uses
from tileir.backend.transforms.full_tiles import version_full_tiles
from tileir.interp import interpret
from tileir.passmanager import run
from tileir.textual import parse

KERNEL = """tir 1.0
define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y, i32* %limit, i32 %n, i32 %m) {{
entry:
  %r = make_range i32<64>
  %pid = program_id i32
  %first = mul i32 %pid, 64
  %start = splat i32<64> %first
  %o = add i32<64> %start, %r
  %ns = splat i32<64> %n
  %ms = splat i32<64> %m
{masks}
  %xs = splat f32*<64> %x
  %p = getelementptr f32*<64> %xs, %o
  %v = load f32<64> %p, %mask, -7.0
{between}
  %ys = splat f32*<64> %y
  %q = getelementptr f32*<64> %ys, %o
  store %q, %v, {mask}
  ret
}}
"""
RELATIONS = ("slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge", "eq", "ne")


def compare(name, relation, left, right, *, second=False):
    """A comparison, or its opposite."""
    pair = f"%{name}.o, %{name}" if second else f"%{name}, %{name}.o"
    return f"  {pair} = icmp (i1<64>, i1<64>) {left}, {right} {{predicate = {relation}}}"


def masks():
    """Text of masks by their description."""
    for relation, (left, right) in itertools.product(RELATIONS, (("%o", "%ns"), ("%ns", "%o"))):
        for second in (False, True):
            text = compare("mask", relation, left, right, second=second)
            yield f"{relation} {left}{' second' * second}", text
    for op in ("and", "or", "xor"):
        for relation in ("slt", "sge", "ult"):
            parts = [compare("a", "slt", "%o", "%ns"), compare("b", relation, "%o", "%ms")]
            parts.append(f"  %mask = {op} i1<64> %a, %b")
            yield f"{op} {relation}", "\n".join(parts)
    for relation, bound in itertools.product(("slt", "sle", "ult", "ule"), ("100", "-3", "%ms")):
        text = compare("mask", relation, "%moved", bound)
        yield (
            f"{relation} moved {bound}",
            f"  %moved = add i32<64> %ns, %r {{overflow = nsw}}\n{text}",
        )
    yield "divided", "\n".join((
        "  %half = sdiv i32<64> %o, 2", compare("mask", "slt", "%half", "%ns"),
    ))  # fmt: skip
    for divisor, relation in itertools.product((2, 32), ("slt", "sge", "uge")):
        turned = [f"  %part = sdiv i32<64> %r, {divisor}", "  %back = sub i32<64> %ns, %part"]
        for name in ("%part", "%back"):
            text = compare("mask", relation, name, "%ms")
            yield f"{relation} {name} {divisor}", "\n".join((*turned, text))
    yield "turned", "\n".join(("  %neg = sub i32<64> %ns, %o", compare("mask", "sgt", "%neg", "0")))
    yield "wrapped", "\n".join((
        "  %far = add i32<64> %o, 2147483600", compare("mask", "slt", "%far", "%ns"),
    ))  # fmt: skip

    for relation, pair in itertools.product(RELATIONS[4:8], (("%r", "%ps"), ("%ps", "%r"))):
        text = compare("mask", relation, *pair)
        yield (
            f"{relation} {pair[0]} positive",
            f"  %p0 = smax i32 %n, 0\n  %ps = splat i32<64> %p0\n{text}",
        )
    some = compare("some", "slt", "%o", "%ns")
    yield "splat", "\n".join((
        some, "  %one, _ = icmp (i1, i1) %n, %m {predicate = sgt}",
        "  %all = splat i1<64> %one", "  %mask = and i1<64> %all, %some",
    ))  # fmt: skip
    yield "broadcast", "\n".join((
        some, "  %n1 = splat i32<1> %n", "  %m1 = splat i32<1> %m",
        "  %one, _ = icmp (i1<1>, i1<1>) %n1, %m1 {predicate = sgt}",
        "  %all = broadcast i1<64> %one", "  %mask = and i1<64> %all, %some",
    ))  # fmt: skip
    for name, wide in (
        ("expanded", "expand_dims i1<64, 1> %some {axis = 1}"),
        ("reshaped", "reshape i1<1, 64> %some"),
    ):
        yield name, f"{some}\n  %wide = {wide}\n  %mask = reshape i1<64> %wide"


MASKS = dict(masks())
VERSIONED = {
    "slt %o", "sle %o", "sgt %ns", "sge %ns", "and slt",
    *(f"{relation} moved {bound}" for relation in ("slt", "sle") for bound in ("100", "-3", "%ms")),
    "ult %r positive", "ule %r positive", "ugt %ps positive", "uge %ps positive",
    "splat", "expanded", "reshaped", "broadcast",
}  # fmt: skip
"""Masks whose last lane is the last to hold. Unsigned comparisons are those without a sign where
neither side is negative."""
BETWEEN = {
    "the same mask": ("%mask", ""),
    "a bound that is loaded in between": ("%late", "\n".join((
        "  %w = load i32 %limit", "  %ws = splat i32<64> %w", compare("late", "slt", "%o", "%ws"),
    ))),
    "a bound that is computed in between": ("%late", "\n".join((
        "  %w = add i32 %m, 3", "  %ws = splat i32<64> %w", compare("late", "slt", "%o", "%ws"),
    ))),
    "another mask": ("%late", compare("late", "sle", "%o", "%ms")),
}  # fmt: skip
"""The mask of the store, and what is between the accesses."""


@pytest.mark.parametrize("between", BETWEEN)
def test_masks_hold_in_all_lanes_of_versions_without_them(between):
    versioned, (mask, text_between) = set(), BETWEEN[between]
    for name, text in MASKS.items():
        module = parse(KERNEL.format(masks=text, mask=mask, between=text_between))
        changed = run(module, "version-full-tiles").module
        if changed is module:
            continue
        versioned.add(name)
        blocks = changed.kernel().blocks
        parts = [[label for label in blocks if label.endswith(x)] for x in (".whole", ".part")]
        assert [len(labels) for labels in parts] == [1, 1], name
        for label in itertools.chain(*parts):
            assert [s.label for s in blocks[label].successors] == ["entry.rest"]
        for n, m in ((0, 0), (1, 70), (64, 63), (70, 5), (128, 64), (-1, 128), (-70, -1)):
            results = []
            for each in (module, changed):
                x, y = np.arange(128, dtype=np.float32), np.full(128, -1, np.float32)
                interpret(each, "k", (2,), [x, y, np.array([m], np.int32), n, m])
                results.append(y)
            assert (results[0] == results[1]).all(), (name, n, m)
    assert versioned == VERSIONED if between == "the same mask" else versioned >= VERSIONED


def without_stores(module, end):
    """`module`, whose block with a label that ends so stores nothing."""
    function = module.kernel()
    blocks = {
        label: attrs.evolve(block, ops=tuple(op for op in block.ops if op.mnemonic != "store"))
        if label.endswith(end)
        else block
        for label, block in function.blocks.items()
    }
    return module.with_functions({function.name: function.with_blocks(blocks)})


NUMBERS = [(0, 0), (1, 70), (63, 63), (64, 64), (65, 5), (70, 5), (127, 128), (128, 127), (36, 99),
           (37, 100), (-67, -3), (-3, 7)]  # fmt: skip


@for_each("name", sorted(VERSIONED))
def test_versions_without_masks_run_wherever_the_masks_hold(name):
    """Also where a tile ends with the array."""
    module = parse(KERNEL.format(masks=MASKS[name], mask="%mask", between=""))
    changed = without_stores(run(module, "version-full-tiles").module, ".whole")
    whole = set()
    for n, m in NUMBERS:
        results = []
        for each in (module, changed):
            y = np.full(128, -1, np.float32)
            interpret(each, "k", (2,), [np.ones(128, np.float32), y, np.zeros(1, np.int32), n, m])
            results.append(y.reshape(2, 64))
        for expected, left in zip(*results, strict=True):
            whole.add(holds := bool((expected == 1).all()))
            assert (left == (-1 if holds else expected)).all(), (n, m)
    assert whole == {True, False}


@pytest.mark.parametrize("what", ["", "volatile", "predicated"])
def test_volatile_and_predicated_accesses_have_no_versions(what):
    text = KERNEL.format(masks=compare("mask", "slt", "%o", "%ns"), mask="%mask", between="")
    if what == "volatile":
        text = text.replace("-7.0", "-7.0 {volatile = true}")
        text = text.replace("store %q, %v, %mask", "store %q, %v, %mask {volatile = true}")
    elif what == "predicated":
        test = "%some, %none = icmp (i1, i1) %m, 0 {predicate = sgt}"
        text = text.replace("%xs = splat", f"{test}\n  %xs = splat")
        text = text.replace("%v = load", "@%some %v = load").replace("store", "@%some store")
    module = parse(text)
    assert (run(module, "version-full-tiles").module is module) == bool(what)


TWO = """tir 1.0
define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y, i32 %n) {{
entry:
  %i = make_range i32<8>
  %j = make_range i32<16>
  %i1 = expand_dims i32<8, 1> %i {{axis = 1}}
  %j1 = expand_dims i32<1, 16> %j {{axis = 0}}
  %row = broadcast i32<8, 16> %i1
  %column = broadcast i32<8, 16> %j1
  %down = mul i32<8, 16> %row, 16
  %o = add i32<8, 16> %down, %column
  %ns = splat i32<8, 16> %n
  %la = mul i32<8, 16> %row, {0}
  %lb = mul i32<8, 16> %column, {1}
  %left = add i32<8, 16> %la, %lb
  %ra = mul i32<8, 16> %row, {2}
  %rb = mul i32<8, 16> %column, {3}
  %rc = add i32<8, 16> %ra, %rb
  %right = add i32<8, 16> %rc, %ns
  %mask, _ = icmp (i1<8, 16>, i1<8, 16>) %left, %right {{predicate = {4}}}
  %xs = splat f32*<8, 16> %x
  %p = getelementptr f32*<8, 16> %xs, %o
  %v = load f32<8, 16> %p, %mask, -7.0
  %ys = splat f32*<8, 16> %y
  %q = getelementptr f32*<8, 16> %ys, %o
  store %q, %v, %mask
  ret
}}
"""
SCALES = [(0, 1, 0, 0), (1, 1, 0, 0), (16, 1, 0, 0), (0, 1, 1, 0), (0, 1, 0, 1), (-1, 1, 0, 0),
          (-2, 1, 0, 0), (1, -1, 0, 0), (0, 1, -1, 0), (0, 1, 2, 0), (1, 0, 0, -1), (-16, 1, 0, 0),
          (1, 0, 0, 0), (0, -1, 0, 0), (0, 0, 0, 0), (0, 1, -3, 0), (16, 1, 1, 1)]  # fmt: skip
"""Steps of the left side along rows and columns, and of the right side."""


@for_each(("scales", "relation"), itertools.product(SCALES, ("slt", "sge", "sgt")))
def test_masks_of_two_dimensions_hold_in_all_lanes(scales, relation):
    """Comparisons that increase, decrease, or do either along each dimension and side."""
    module = run(parse(TWO.format(*scales, relation)), "default").module
    changed = run(module, "version-full-tiles").module
    if changed is module:
        return
    for n in (-120, -16, -1, 0, 1, 8, 15, 16, 17, 40, 128, 200):
        results = []
        for each in (module, changed):
            x, y = np.arange(128, dtype=np.float32), np.full(128, -1, np.float32)
            interpret(each, "k", (1,), [x, y, n])
            results.append(y)
        assert (results[0] == results[1]).all(), n


def test_masks_of_two_dimensions_have_versions_without_them():
    modules = [run(parse(TWO.format(*scales, "slt")), "default").module for scales in SCALES]
    changed = [run(module, "version-full-tiles").module is not module for module in modules]
    assert changed[0] and sum(changed) >= 2


BETWEEN_ACCESSES = [
    ("%u = fadd f32<64> %v, 1.0", 1), ("%d = sdiv i32<64> %o, %ms", 1), ("%e = sdiv i32 %n, %m", 1),
    ("%f = make_range i32<64>", 1), ("%g = splat i32<64> %m", 1),
    ("%h = expand_dims f32<64, 1> %v {axis = 1}", 1), ("%h = program_id i32 {axis = 1}", 1),
    ("%l = load f32<64> %p", 1), ("_ = atomic_rmw f32<64> %p, %v {op = fadd}", 2),
    ("%s = reduce f32 %v {combiner = fadd}", 2), ("%s = scan f32<64> %v {combiner = fadd}", 2),
    ("_ = atomic_rmw i32 %limit, 1 {op = add}", 2), ("barrier", 2),
    ("fence {sem = acq_rel, scope = gpu}", 2), ("%t = histogram i32<8> %r", 2), ("assert %some", 2),
    ("%w = reshape f32<8, 8> %v\n  %z = dot f32<8, 8> %w, %w, 0.0", 2),
    *(("\n  ".join(f"%a{i} = add i32 %n, {i}" for i in range(count)), 1 + (count >= 60))
      for count in (0, 1, 59, 60, 126)),
]  # fmt: skip
"""Ops between two accesses, and how many versions of a part of the block there are."""


@for_each(("ops", "parts"), BETWEEN_ACCESSES)
def test_what_is_cheap_is_in_both_versions(ops, parts):
    text = compare("mask", "slt", "%o", "%ns")
    some = "  %some, _ = icmp (i1, i1) %n, %m {predicate = sgt}\n  "
    module = parse(KERNEL.format(masks=text, mask="%mask", between=some + ops))
    changed = run(module, "version-full-tiles").module
    function = changed.kernel()
    labels = [label for label in function.blocks if ".whole" in label]
    assert len(labels) == parts
    passed = [v for label, b in function.blocks.items() if ".rest" in label for v in b.parameters]
    assert all(uses(function).get(v) for v in passed), "only what is used afterward is passed"
    for label in labels:
        accesses = [op for op in changed.kernel().blocks[label].ops if op.mnemonic == "store"]
        assert all(getattr(op, "mask", None) is None for op in accesses)


@for_each(("threads", "reduced"), itertools.product((0, 16, 31, 32, 33, 64), ("", "64", "32")))
def test_threads_with_one_element_each_need_no_version(threads, reduced):
    """Unless a tile of the shape is reduced, which fewer threads may own."""
    between = f"%d = make_range i32<{reduced}>\n  %s = reduce i32 %d {{combiner = add}}"
    text = compare("mask", "slt", "%o", "%ns")
    between = between if reduced else ""
    module = parse(KERNEL.format(masks=text, mask="%mask", between=between))
    result = version_full_tiles(module.kernel(), threads=threads)
    assert (result.ir is not module.kernel()) == (threads <= 32 or reduced == "64")


SEVERAL = """tir 1.0
define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y, i32 %n, i32 %m) {{
entry:
  %o = make_range i32<64>
  %ns = splat i32<64> %n
  %ms = splat i32<64> %m
{masks}
  %xs = splat f32*<64> %x
  %p = getelementptr f32*<64> %xs, %o
  %ys = splat f32*<64> %y
  %q = getelementptr f32*<64> %ys, %o
  %v0 = load f32<64> %p, %{0}, -7.0
  %v1 = load f32<64> %p, %{1}, -5.0
  %u = fadd f32<64> %v0, %v1
  %v2 = load f32<64> %p, %{2}, -3.0
  %w = fadd f32<64> %u, %v2
  store %q, %w, %{3}
  ret
}}
"""


@for_each("names", [*itertools.product("ac", repeat=4), "bacb", "abba", "bcac", "acbc"])
def test_each_of_several_accesses_keeps_a_mask_that_may_not_hold(names):
    """`a` and `b` hold in all lanes if they do in the last one, `c` does not."""
    masks = "\n".join((
        compare("a", "slt", "%o", "%ns"), compare("b", "sgt", "%ms", "%o"),
        compare("c", "sgt", "%o", "%ms"),
    ))  # fmt: skip
    module = parse(SEVERAL.format(*names, masks=masks))
    result = version_full_tiles(module.kernel())
    assert len(result.remarks) == names.count("c")
    changed = module.with_functions({"k": result.ir})
    assert (result.ir is module.kernel()) == ({*names} == {"c"})
    for n, m in ((64, 64), (64, 3), (3, 64)):
        results = []
        for each in (module, changed):
            x, y = np.arange(64, dtype=np.float32), np.full(64, -1, np.float32)
            interpret(each, "k", (1,), [x, y, n, m])
            results.append(y)
        assert (results[0] == results[1]).all(), (n, m)


@for_each(("other", "is_versioned"), [
    ("  %all = splat i1<64> %flag", True), ("  %all = and i1<64> %some, true", True),
    ("  %all = and i1<64> %tile, %some", False), ("  %all = or i1<64> %some, %some", False),
])  # fmt: skip
def test_parameters_and_constants_hold_in_all_lanes_or_in_none(other, is_versioned):
    """A tile that is a parameter of a function may hold in any lanes."""
    some = compare("some", "slt", "%o", "%ns")
    masks = f"{some}\n{other}\n  %mask = and i1<64> %all, %some"
    text = KERNEL.format(masks=masks, mask="%mask", between="")
    if "%tile" in other:
        text = text.replace("define kernel", "define").replace("i32 %m)", "i32 %m, i1<64> %tile)")
    module = parse(text.replace("i32 %m)", "i32 %m, i1 %flag)"))
    (function,) = module.functions.values()
    result = version_full_tiles(function)
    assert (result.ir is not function) is is_versioned
    if not is_versioned:
        return
    changed = module.with_functions({"k": result.ir})
    for n, flag in ((128, True), (128, False), (70, True), (5, False)):
        results = []
        for each in (module, changed):
            x, y = np.arange(128, dtype=np.float32), np.full(128, -1, np.float32)
            interpret(each, "k", (2,), [x, y, np.zeros(1, np.int32), n, 0, flag])
            results.append(y)
        assert (results[0] == results[1]).all(), (n, flag)
