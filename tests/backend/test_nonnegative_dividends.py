"""Accesses at quotients and remainders are wide where no dividend is negative, and right anyway."""

import numpy as np
import pytest

from tileir import interpret
from tileir.backend.compile import compile as compile_kernel
from tileir.backend.transforms.nonnegative_dividends import version_nonnegative_dividends
from tileir.passmanager import run
from tileir.textual import parse, print_module

LOOP = """tir 1.0
define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y, i32 multiple_of(16) %from,
                      i32 multiple_of(16) %n, i32 %count) {{
entry:
  %middle = getelementptr f32* %x, i32 2048
  %r = make_range i32<128>
  %starts = splat i32<128> %from
  %first = add i32<128> %r, %starts
  %ns = splat i32<128> %n
  %xs = splat f32*<128> %middle
  %ys = splat f32*<128> %y
  br loop
loop:
  %step = phi i32 [0, entry], [%next, loop]
  %j = phi i32<128> [%first, entry], [%j.next, loop]
{address}
  %p = getelementptr f32*<128> %xs, %k
  %v = load f32<128> %p{mask}
  %at = mul i32 %step, 128
  %ats = splat i32<128> %at
  %o = add i32<128> %r, %ats
  %q = getelementptr f32*<128> %ys, %o
  store %q, %v
  %j.next = add i32<128> %j, i32<128> 128
  %next = add i32 %step, 1
  %more, _ = icmp (i1, i1) %next, %count {{predicate = slt}}
  cond_br %more, loop, done
done:
  ret
}}
"""
ADDRESSES = {
    "remainder": "  %k = srem i32<128> %j, %ns",
    "padded rows": """  %row = sdiv i32<128> %j, %ns
  %pad = mul i32<128> %row, 16
  %k = add i32<128> %j, %pad""",
    "either": """  %padded, _ = icmp (i1, i1) %count, 2 {predicate = sgt}
  cond_br %padded, rows, joined
rows:
  %row = sdiv i32<128> %j, %ns
  %pad = mul i32<128> %row, 16
  %moved = add i32<128> %j, %pad
  br joined
joined:
  %k = phi i32<128> [%j, loop], [%moved, rows]""",
}
OTHERS = {
    "floored": "  %k = srem i32<128> %j, %ns {rounding = floor}",
    "known to be nonnegative": "  %k = srem i32<128> %r, %ns",
    "not affine": "  %j2 = mul i32<128> %j, %j\n  %k = srem i32<128> %j2, %ns",
    "of an earlier iteration": "  %k = srem i32<128> %earlier, %ns",
}
MASK = "\n  %low, _ = icmp (i1<128>, i1<128>) %k, %ns {predicate = slt}"


def program(address, masked=False):
    """The kernel with one way to compute addresses."""
    mask = ", %low, -1.0" if masked else ""
    text = LOOP.format(address=address + MASK * masked, mask=mask)
    if "joined" in address:
        text = text.replace("[%next, loop]", "[%next, joined]")
        text = text.replace("[%j.next, loop]", "[%j.next, joined]")
    return parse(text)


def with_versions(module, threads=32):
    """`module` with a scalar offset in its loop, and versions of its load."""
    scalar = run(module, "scalarize-pointer-steps").module
    function = version_nonnegative_dividends(scalar.functions["k"], threads)
    return scalar.with_functions({"k": function}), function is not scalar.functions["k"]


def outputs(module, start, n, count):
    """The output of one instance."""
    x, y = np.arange(4096, dtype=np.float32), np.zeros(128 * count, np.float32)
    interpret(module, "k", 1, {"x": x, "y": y, "from": start, "n": n, "count": count})
    return y


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("address", ADDRESSES)
def test_accesses_are_wide_where_dividends_are_nonnegative(address, masked):
    module = program(ADDRESSES[address], masked)
    changed, has_versions = with_versions(module)
    assert has_versions and "contiguous" in print_module(changed)
    assert "ld.global.v4.b32" in compile_kernel(module, target="sm_90a").ptx
    for start in (0, 16, 640, -16, -48, -128):
        for args in ((start, 16, 3), (start, 48, 2), (start, 1024, 3)):
            np.testing.assert_array_equal(outputs(changed, *args), outputs(module, *args))


def test_one_element_per_thread_needs_no_version():
    module = program(ADDRESSES["remainder"])
    assert with_versions(module, 64)[1] and not with_versions(module, 128)[1]


def test_a_second_access_of_a_block_has_versions_too():
    text = print_module(program(ADDRESSES["remainder"]))
    second = "\n  %w = load f32<128> %p\n  %sum = fadd f32<128> %v, %w\n"
    text = text.replace("%v = load f32<128> %p\n", "%v = load f32<128> %p" + second)
    module = parse(text.replace("store %q, %v", "store %q, %sum"))
    changed, _ = with_versions(module)
    assert print_module(changed).count("contiguous") == 2
    for start in (16, -16):
        args = start, 48, 2
        np.testing.assert_array_equal(outputs(changed, *args), outputs(module, *args))


def test_offsets_that_wrap_are_negative():
    """The first element is positive, and elements after it are not."""
    module = program(ADDRESSES["remainder"])
    changed, _ = with_versions(module)
    args = (1 << 31) - 32, 48, 1
    np.testing.assert_array_equal(outputs(changed, *args), outputs(module, *args))


def test_elements_that_no_access_needs_may_break_a_promise():
    """The last dividends are undefined, and the loads of these are masked."""
    text = print_module(program(ADDRESSES["remainder"], masked=True))
    text = text.replace("add i32<128> %r, %starts", "add i32<128> %r, %starts {overflow = nsw}")
    module = parse(text.replace("%k, %ns {predicate", "%r, 16 {predicate"))
    changed, has_versions = with_versions(module)
    args = (1 << 31) - 32, 48, 1
    assert has_versions
    np.testing.assert_array_equal(outputs(changed, *args), outputs(module, *args))


@pytest.mark.parametrize("address", OTHERS)
def test_other_divisions_have_no_version(address):
    text = print_module(program(OTHERS[address].replace("%earlier", "%j")))
    if "%earlier" in OTHERS[address]:
        text = text.replace(
            "%p = getelementptr f32*<128> %xs, %k", "%p = getelementptr f32*<128> %xs, %e"
        )
        text = text.replace("%j = phi", "%e = phi i32<128> [%r, entry], [%k, loop]\n  %j = phi")
    assert not with_versions(parse(text))[1]


def blocks_of(function, mnemonic):
    """The labels of the blocks with ops of that kind of tiles."""
    return [label for label, block in function.blocks.items() for op in block.ops
            if op.mnemonic == mnemonic and hasattr(op.results[0].type, "layout")]  # fmt: skip


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
def test_what_one_access_needs_is_divided_in_its_versions(masked):
    """The version for nonnegative dividends divides unsigned."""
    changed, _ = with_versions(program(ADDRESSES["remainder"], masked))
    function = changed.functions["k"]
    assert blocks_of(function, "srem") == ["loop.far"]
    assert blocks_of(function, "urem") == ["loop.near"]


def test_what_another_op_needs_is_divided_once():
    text = print_module(program(ADDRESSES["remainder"]))
    text = text.replace("mul i32 %step, 128", "add i32 %kept, 0")
    text = text.replace(
        "  %ats = splat", "  %kept = reduce i32 %k {combiner = smin}\n  %ats = splat"
    )
    text = text.replace("%at = add i32 %kept, 0\n  %kept = ", "%at = ")
    changed, has_versions = with_versions(parse(text))
    function = changed.functions["k"]
    assert has_versions and blocks_of(function, "srem") == ["loop"]
    assert not blocks_of(function, "urem")


def test_what_has_another_result_that_is_needed_stays():
    """A comparison has two results: whether it holds, and whether it does not."""
    text = print_module(program(ADDRESSES["remainder"], masked=True))
    text = text.replace("%low, _ = icmp", "%low, %high = icmp")
    text = text.replace("store %q, %v", "%w = select f32<128> %high, -2.0, %v\n  store %q, %w")
    module = parse(text)
    changed, has_versions = with_versions(module)
    assert has_versions and blocks_of(changed.functions["k"], "srem") == ["loop"]
    np.testing.assert_array_equal(outputs(changed, 16, 48, 2), outputs(module, 16, 48, 2))


def test_what_is_stored_is_computed_once():
    text = print_module(program(ADDRESSES["remainder"]))
    text = text.replace("load f32<128> %p", "load f32<128> %q").replace("  %v = load", "  LOAD")
    (load,) = (line for line in text.splitlines() if "LOAD" in line)
    text = text.replace(load + "\n", "")
    stored = f"{load.replace('LOAD', '%v = load')}\n  %w = fmul f32<128> %v, 2.0\n"
    text = text.replace("  store %q, %v", f"{stored}  store %p, %w")
    changed, has_versions = with_versions(parse(text))
    function = changed.functions["k"]
    assert has_versions and blocks_of(function, "fmul") == ["loop"]
    assert blocks_of(function, "urem") == ["loop.near"]


def test_what_runs_before_a_loop_stays_there():
    text = print_module(program(ADDRESSES["remainder"]))
    text = text.replace("  br loop\nloop:", "  %k = srem i32<128> %first, %ns\n  br loop\nloop:")
    head, _, rest = text.rpartition("  %k = srem i32<128> %j, %ns\n")
    changed, has_versions = with_versions(parse(head + rest))
    function = changed.functions["k"]
    assert has_versions and blocks_of(function, "srem") == ["entry"]
