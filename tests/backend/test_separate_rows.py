"""Rows whose stride is known at run time only: no barrier where masks keep columns within it."""

import attrs
import numpy as np
import pytest

import tileir
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.shared_memory.separate_rows import with_constant_strides
from tileir.backend.target import target
from tileir.textual import parse

ROWS = """tir 1.0

define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y, i32 %n, i32 %m) {
entry:
  %p = program_id i32
  %b = mul i32 %p, 8 {overflow = nsw}
  %r8 = make_range i32<8>
  %bs = splat i32<8> %b
  %r = add i32<8> %bs, %r8 {overflow = nsw}
  %r64 = sext i64<8> %r
  %rows = reshape i64<8, 1> %r64
  %n64 = sext i64 %n
  %ns = splat i64<8, 1> %n64
  %rn = mul i64<8, 1> %rows, %ns {overflow = nsw}
  %rb = broadcast i64<8, 64> %rn
  br loop
loop:
  %i = phi i32 [0, entry], [%next, body]
  %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
  cond_br %more, body, done
body:
  %c64 = make_range i32<64>
  %is = splat i32<64> %i
  %c = add i32<64> %is, %c64 {overflow = nsw}
  %columns = reshape i32<1, 64> %c
  %cw = sext i64<1, 64> %columns
  %cb = broadcast i64<8, 64> %cw
  %at = add i64<8, 64> %rb, %cb {overflow = nsw}
  %bound = splat i32<1, 64> %n
  %inside, _ = icmp (i1<1, 64>, i1<1, 64>) %columns, %bound {predicate = slt}
  %mask = broadcast i1<8, 64> %inside
  %xs = splat f32*<8, 64> %x
  %px = getelementptr f32*<8, 64> %xs, %at
  %v = load f32<8, 64> %px, %mask, 0.0
  %ys = splat f32*<8, 64> %y
  %py = getelementptr f32*<8, 64> %ys, %at
  %w = fmul f32<8, 64> %v, 2.0
  store %py, %w, %mask
  %next = add i32 %i, 64 {overflow = nsw}
  br loop
done:
  ret
}
"""
"""8 rows of %n columns for each instance, 64 columns by an iteration."""


def barriers(text):
    """The number of barriers of the block."""
    lowered = run_pipeline(parse(text), target("sm_90a"), Options(num_warps=4), None)
    return sum(op.mnemonic == "gpu.barrier" for op in lowered.stages["barriers"].kernel().ops)


def replace_text(*pairs):
    text = ROWS
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_columns_within_the_stride_are_written_once():
    assert barriers(ROWS) == 0
    assert barriers(replace_text(("(i1, i1) %i, %n", "(i1, i1) %i, %m"))) == 0
    bounded = replace_text(("splat i64<8, 1> %n64", "splat i64<8, 1> 100"),
                    ("%bound = splat i32<1, 64> %n", "%bound = splat i32<1, 64> 100"))  # fmt: skip
    assert barriers(bounded) == 0
    assert barriers(bounded.replace("splat i32<1, 64> 100", "splat i32<1, 64> 101")) > 0


CHANGING = replace_text(
    ("  %n64 = sext i64 %n\n  %ns = splat i64<8, 1> %n64\n"
     "  %rn = mul i64<8, 1> %rows, %ns {overflow = nsw}\n"
     "  %rb = broadcast i64<8, 64> %rn\n", ""),
    ("  %c64", "  %s = sub i32 %n, %i {overflow = nsw}\n  %n64 = sext i64 %s\n"
     "  %ns = splat i64<8, 1> %n64\n  %rn = mul i64<8, 1> %rows, %ns {overflow = nsw}\n"
     "  %rb = broadcast i64<8, 64> %rn\n  %c64"),
    ("splat i32<1, 64> %n", "splat i32<1, 64> %s"),
)  # fmt: skip
OWN_STRIDES = replace_text(
    ("  br loop\nloop", "  %m64 = sext i64 %m\n  %ms = splat i64<8, 1> %m64\n"
     "  %rm = mul i64<8, 1> %rows, %ms {overflow = nsw}\n"
     "  %rmb = broadcast i64<8, 64> %rm\n  br loop\nloop"),
    ("  %next = add i32 %i, 64 {overflow = nsw}",
     "  %j = add i32 %i, 64 {overflow = nsw}\n"
     "  %js = splat i32<64> %j\n"
     "  %cf = add i32<64> %js, %c64 {overflow = nsw}\n"
     "  %further = reshape i32<1, 64> %cf\n"
     "  %fw = sext i64<1, 64> %further\n"
     "  %fb = broadcast i64<8, 64> %fw\n"
     "  %atm = add i64<8, 64> %rmb, %fb {overflow = nsw}\n"
     "  %boundm = splat i32<1, 64> %m\n"
     "  %insidem, _ = icmp (i1<1, 64>, i1<1, 64>) %further, %boundm {predicate = slt}\n"
     "  %maskm = broadcast i1<8, 64> %insidem\n"
     "  %pym = getelementptr f32*<8, 64> %ys, %atm\n"
     "  store %pym, %w, %maskm\n"
     "  %next = add i32 %j, 64 {overflow = nsw}"),
)  # fmt: skip
"""Stores to blocks of columns in turn; in rows of %n, and of %m."""


@pytest.mark.parametrize(
    "text",
    [
        # columns within another extent, or within none
        replace_text(("%bound = splat i32<1, 64> %n", "%bound = splat i32<1, 64> %m")),
        replace_text(("store %py, %w, %mask", "store %py, %w")),
        replace_text(("{predicate = slt}\n  %mask", "{predicate = sle}\n  %mask")),
        # columns that may be negative
        replace_text(("phi i32 [0, entry]", "phi i32 [-1, entry]")),
        replace_text(("phi i32 [0, entry]", "phi i32 [%m, entry]")),
        # numbers that may wrap
        replace_text(("mul i64<8, 1> %rows, %ns {overflow = nsw}", "mul i64<8, 1> %rows, %ns")),
        # a stride and a start that change
        replace_text(("getelementptr f32*<8, 64> %ys", "getelementptr f32*<8, 64> %yi"),
                ("  %ys = splat f32*<8, 64> %y\n",
                 "  %yn = getelementptr f32* %y, %i\n  %yi = splat f32*<8, 64> %yn\n")),
        replace_text(("i64<8, 64> %rb, %cb {overflow = nsw}", "i64<8, 64> %rb, %cb")),
        # a stride that is another one in each iteration
        CHANGING,
        # strides of their own
        OWN_STRIDES,
        # a pointer to any tensor
        replace_text(("  %next", "  %q = select f32* %more, %x, %y\n  store %q, 1.0\n  %next")),
        # another access of the same tensor
        replace_text(("  %next", "  store %y, 1.0\n  %next")),
    ],
)  # fmt: skip
def test_others_are_not(text):
    assert barriers(text) > 0


def test_a_mask_of_rows_says_nothing_of_columns():
    """Rows and columns are one range, along two dimensions."""
    text = """tir 1.0

define kernel void @k(f32* aligned(16) %y, i32 %n, i32 %m) {
entry:
  %c = make_range i32<64>
  %w = sext i64<64> %c
  %rows = reshape i64<64, 1> %w
  %columns = reshape i64<1, 64> %w
  %small = reshape i32<64, 1> %c
  %n64 = sext i64 %n
  %ns = splat i64<64, 1> %n64
  %rn = mul i64<64, 1> %rows, %ns {overflow = nsw}
  %rb = broadcast i64<64, 64> %rn
  %cb = broadcast i64<64, 64> %columns
  %at = add i64<64, 64> %rb, %cb {overflow = nsw}
  %bound = splat i32<64, 1> %n
  %inside, _ = icmp (i1<64, 1>, i1<64, 1>) %small, %bound {predicate = slt}
  %mask = broadcast i1<64, 64> %inside
  %ys = splat f32*<64, 64> %y
  %py = getelementptr f32*<64, 64> %ys, %at
  br body
body:
  %i = phi i32 [0, entry], [%next, body]
  %v = load f32<64, 64> %py, %mask, 0.0
  %u = fadd f32<64, 64> %v, 1.0
  store %py, %u, %mask
  %next = add i32 %i, 1 {overflow = nsw}
  %more, _ = icmp (i1, i1) %next, %m {predicate = slt}
  cond_br %more, body, done
done:
  ret
}
"""

    def is_separable(text):
        function = parse(text).kernel()
        accesses = [(op, op.inputs[0]) for op in function.ops if op.mnemonic in ("load", "store")]
        base = function.parameters[0].value
        return with_constant_strides(function, {base: accesses}) is not function

    assert not is_separable(text)
    by_columns = text.replace("reshape i32<64, 1> %c", "reshape i32<1, 64> %c")
    by_columns = by_columns.replace("splat i32<64, 1> %n\n", "splat i32<1, 64> %n\n")
    by_columns = by_columns.replace("(i1<64, 1>, i1<64, 1>)", "(i1<1, 64>, i1<1, 64>)")
    assert is_separable(by_columns)


@pytest.mark.parametrize("n", [1, 40, 64, 100, 200])
def test_threads_write_what_the_program_does(n):
    """The simulator of threads reports races."""
    x = np.random.default_rng(n).integers(0, 9, 16 * n).astype(np.float32)
    arguments = {"x": x, "y": np.zeros_like(x), "n": n, "m": 0}
    tileir.interpret(parse(ROWS), "k", (2,), arguments)
    y = np.zeros_like(x)
    SimtExecutor().launch(parse(ROWS), None, 2, [x, y, n, 0], num_warps=4)
    np.testing.assert_array_equal(y, arguments["y"])
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("masked", [("load",), ("store",), ("load", "store"), ()])
@pytest.mark.parametrize("multiple", ["%rn", "%own"])
def test_a_multiple_is_replaced_where_all_that_depends_on_it_is_in_rows(masked, multiple):
    """Of two arrays each is in rows if its mask keeps the columns. A multiple that both depend on
    stays if only one of them is."""
    pairs = [
        ("  %rb = broadcast", "  %own = mul i64<8, 1> %rows, %ns {overflow = nsw}\n"
         f"  %rbo = broadcast i64<8, 64> {multiple}\n  %rb = broadcast"),
        ("getelementptr f32*<8, 64> %ys, %at",
         "getelementptr f32*<8, 64> %ys, %ato"),
        ("  %ys = splat", "  %ato = add i64<8, 64> %rbo, %cb {overflow = nsw}\n  %ys = splat"),
    ]  # fmt: skip
    if "load" not in masked:
        pairs.append(("%px, %mask, 0.0", "%px"))
    if "store" not in masked:
        pairs.append(("%py, %w, %mask", "%py, %w"))
    function = parse(replace_text(*pairs)).kernel()
    x, y = (p.value for p in function.parameters[:2])
    by_base = {
        base: [(op, op.inputs[0]) for op in function.ops if op.mnemonic == name]
        for base, name in ((x, "load"), (y, "store"))
    }
    changed = with_constant_strides(function, by_base)
    is_shared = multiple == "%rn" and len(masked) == 1
    assert (changed is function) == (not masked or is_shared)


STORES = """tir 1.0

define kernel void @k(i32* %y, i32* %t, i32 %n, i32 %m, i32* %to) {{
entry:
  %c4 = make_range i32<4>
  %r2 = make_range i32<2>
  %rows = reshape i32<2, 1> %r2
  %wide = broadcast i32<2, 4> %rows
  %k = add i32 %m, 50
  %kk = add i32 %k, %k
  %ts = splat i32*<4> %t
  %pt = getelementptr i32*<4> %ts, %c4
  %loaded = load i32<4> %pt
  %lanes = reshape i32<1, 4> %loaded
  %tile = broadcast i32<2, 4> %lanes
  %ys = splat i32*<2, 4> %y
  %yk = getelementptr i32* %y, %k
  %ykk = getelementptr i32* %yk, %k
  %here = splat i32*<2, 4> %to
  %c8 = make_range i32<8>
  %each = reshape i32<2, 4> %c8
  %record = getelementptr i32*<2, 4> %here, %each
  br loop
loop:
  %i = phi i32 [0, entry], [%next, loop]
  %further = phi i32 [4, entry], [%next_further, loop]
  %fallen = phi i32 [-3, entry], [%next_fallen, loop]
{stores}
  %next = add i32 %i, 8 {{overflow = nsw}}
  %next_further = add i32 %further, 8 {{overflow = nsw}}
  %next_fallen = add i32 %fallen, 8 {{overflow = nsw}}
  %more, _ = icmp (i1, i1) %next, 16 {{predicate = slt}}
  cond_br %more, loop, done
done:
  ret
}}
"""
"""Two stores to y in a loop. The offset of each element is also stored, in `to`."""

STORE = """
  %is.{a} = splat i32<4> {start}
  %c.{a} = add i32<4> %is.{a}, %c4 {{overflow = nsw}}
  %columns.{a} = reshape i32<1, 4> %c.{a}
  %bound.{a} = {bound}
  {test}
  %few.{a}, _ = icmp (i1<2, 1>, i1<2, 1>) %rows, 2 {{predicate = slt}}
  %below.{a} = broadcast i1<2, 4> %column.{a}
  %above.{a} = broadcast i1<2, 4> %few.{a}
  %both.{a} = and i1<2, 4> %above.{a}, %below.{a}
  %either.{a} = or i1<2, 4> %above.{a}, %below.{a}
  %stride.{a} = {stride}
  %rn.{a} = mul i32<2, 4> {multiplied} {{overflow = nsw}}
  %cs.{a} = broadcast i32<2, 4> %columns.{a}
  %at.{a} = {at}
  %base.{a} = {base}
  %p.{a} = getelementptr i32*<2, 4> %base.{a}, %at.{a}
  store %p.{a}, 1, {mask}
  %offset.{a} = {offset}
  %all.{a} = add i32<2, 4> %offset.{a}, %at.{a}
  %number.{a} = add i32 %i, {a}
  %place.{a} = splat i32<2, 4> %number.{a}
  %q.{a} = getelementptr i32*<2, 4> %record, %place.{a}
  store %q.{a}, %all.{a}, {mask}
"""
LESS = "%column.{a}, %no.{a} = icmp (i1<1, 4>, i1<1, 4>) %columns.{a}, %bound.{a} {predicate = slt}"
OPPOSITE = LESS.replace("%column.{a}, %no.{a}", "%no.{a}, %column.{a}")
PARTS: dict[str, tuple[dict[str, str], ...]] = {
    "columns": ({"start": "%i"}, {"start": "%further"}, {"start": "%fallen"}),
    "stride": (
        {"bound": "splat i32<1, 4> %n", "stride": "splat i32<2, 4> %n"},
        {"bound": "splat i32<1, 4> %m", "stride": "splat i32<2, 4> %m"},
        {"bound": "splat i32<1, 4> 3", "stride": "splat i32<2, 4> 3"},
        {"bound": "splat i32<1, 4> %m", "stride": "splat i32<2, 4> %n"},
        {"bound": "reshape i32<1, 4> %loaded", "stride": "broadcast i32<2, 4> %lanes"},
    ),
    "test": (
        {"test": LESS}, {"test": LESS.replace("slt", "sle")},
        {"test": LESS.replace("slt", "ult")}, {"test": OPPOSITE},
        {"test": LESS.replace("%columns.{a}, %bound.{a}", "%bound.{a}, %columns.{a}")},
    ),
    "multiplied": ({"multiplied": "%wide, %stride.{a}"}, {"multiplied": "%stride.{a}, %wide"}),
    "at": (
        {"at": "add i32<2, 4> %rn.{a}, %cs.{a} {overflow = nsw}"},
        {"at": "broadcast i32<2, 4> %columns.{a}"},
        {"at": "add i32<2, 4> %cs.{a}, %rn.{a} {overflow = nsw_nuw}"},
        {"at": "add i32<2, 4> %rn.{a}, %cs.{a} {overflow = nuw}"},
    ),
    "base": (
        {"base": "splat i32*<2, 4> %y", "offset": "splat i32<2, 4> 0"},
        {"base": "splat i32*<2, 4> %yk", "offset": "splat i32<2, 4> %k"},
        {"base": "splat i32*<2, 4> %ykk", "offset": "splat i32<2, 4> %kk"},
        {"base": "getelementptr i32*<2, 4> %ys, %tile", "offset": "add i32<2, 4> %tile, 0"},
        {"base": "getelementptr i32*<2, 4> %ys, %rn.{a}", "offset": "add i32<2, 4> %rn.{a}, 0"},
        {"base": "getelementptr i32*<2, 4> %ys, i32<2, 4> 1", "offset": "splat i32<2, 4> 1"},
    ),
    "mask": ({"mask": "%below.{a}"}, {"mask": "%both.{a}"}, {"mask": "%above.{a}"},
             {"mask": "%either.{a}"}),
}  # fmt: skip
"""The parts of a store. The first one of each kind is in rows."""
REPLACED = {
    ("columns", 1), ("stride", 1), ("stride", 2), ("multiplied", 1), ("base", 1), ("mask", 1),
    ("at", 2),
}  # fmt: skip
"""Parts with which a store is in rows as well."""


def store(first, **chosen):
    text = STORE
    parts = {k: v for kind, c in PARTS.items() for k, v in c[chosen.get(kind, 0)].items()}
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return text.replace("{a}", str(first)).replace("{{", "{").replace("}}", "}")


def offsets(module, numbers):
    """The offsets that the stores of `module` record, -1000 where a mask excludes one."""
    n, m, *tile = numbers
    to = np.full(32, -1000, np.int32)
    y = np.zeros(400, np.int32)
    tileir.interpret(module, "k", (1,), [y[100:], np.array(tile, np.int32), n, m, to])
    return to


def check_equal_offsets(*chosen):
    """Whether strides are replaced; offsets that are equal are equal then, too."""
    stores = "".join(store(16 * i, **c) for i, c in enumerate(chosen))
    module = parse(STORES.format(stores=stores))
    function = module.kernel()
    to_y = [(op, op.pointer) for op in function.ops if op.mnemonic == "store"][::2]
    changed = with_constant_strides(function, {function.parameters[0].value: to_y})
    if changed is function:
        return False
    other = attrs.evolve(module, functions={"k": changed})
    for numbers in ((3, 2, 3, 1, 2, 4), (6, 4, 1, 2, 2, 1), (10, 11, 4, 3, 2, 1)):
        replaced_by = {}
        for offset, replaced in zip(offsets(module, numbers), offsets(other, numbers), strict=True):
            assert replaced_by.setdefault(offset, replaced) == replaced, numbers
    return True


CHOICES = [(kind, i) for kind, parts in PARTS.items() for i in range(1, len(parts))]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_elements_that_are_equal_are_equal_with_the_stride_replaced(choice):
    """In one of two stores, in both, or both with another part that is not the first one."""
    assert check_equal_offsets({}, {})
    kind, number = choice
    chosen = {kind: number}
    assert check_equal_offsets(chosen, chosen) == (choice in REPLACED)
    check_equal_offsets(chosen, {})
    check_equal_offsets({}, {**chosen, "columns": 1})
    for other_kind, other in CHOICES:
        if other_kind > kind:
            pair = {kind: number, other_kind: other}
            check_equal_offsets(pair, pair)
            check_equal_offsets(chosen, {**chosen, other_kind: other})
