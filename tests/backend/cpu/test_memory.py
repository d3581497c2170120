"""Which memory a launch may access: every pointer is checked, whatever it comes from, and a launch
changes the elements that the kernel stores."""

import functools
import threading
from typing import Any

import numpy as np
import pytest

from tileir.backend.cpu.compile import compile as compile_kernel
from tileir.errors import CompileError, LaunchError
from tileir.executor import executor
from tileir.textual import parse

parsed = functools.cache(parse)
"""A module per text: its code is generated once."""


def launch(body: str, *arguments: Any, more: str = "", inputs: str = "f32* %x", **options: Any):
    text = f"tir 1.0\n{more}\ndefine kernel void @k({inputs}) {{\nentry:\n{body}  ret\n}}\n"
    return executor("cpu").launch(parsed(text), "k", 1, list(arguments), **options)


GLOBALS = """private global f32<4> @g = [1.0, 2.0, 3.0, 4.0]
private global f32<64> @h
private constant f32<4> @c = [1.0, 2.0, 3.0, 4.0]
define noinline void @put(f32* %p, f32 %v) {
entry:
  store %p, %v
  ret
}
define f32 @loads(f32 %a, f32 %b) {
entry:
  %i = fptosi i64 %b
  %p = inttoptr f32* %i
  %r = load f32 %p
  ret %r
}
"""
OUTSIDE = {
    "after a global": "  %p = global_address f32* @g\n  %q = getelementptr f32* %p, i32 8\n"
    "  store %q, 7.0\n",
    "before a global": "  %p = global_address f32* @g\n  %q = getelementptr f32* %p, i32 -1\n"
    "  %v = load f32 %q\n",
    "an atomic on a global": "  %p = global_address f32* @g\n"
    "  %q = getelementptr f32* %p, i32 4\n  %v = atomic_rmw f32 %q, 1.0 {op = fadd}\n",
    "a generic pointer": "  %p = addrspacecast f32 addrspace(0)* %x\n"
    "  %q = getelementptr f32 addrspace(0)* %p, i32 100000000\n  store %q, 1.0\n",
    "a number": "  %p = inttoptr f32* i64 64\n  %v = load f32 %p\n",
    "null": "  %p = inttoptr f32* i64 0\n  store %p, 1.0\n",
    "near the end of memory": "  %p = inttoptr f32* i64 -4\n  store %p, 1.0\n",
    "through a function": "  %q = getelementptr f32* %x, i32 100\n  call @put, %q, f32 1.0\n",
    "one of two": "  %v = load f32 %x\n  %c, %cc = fcmp (i1, i1) %v, 0.0 {predicate = ogt}\n"
    "  %p = global_address f32* @g\n  %s = select f32* %c, %x, %p\n"
    "  %q = getelementptr f32* %s, i32 1000000\n  store %q, 1.0\n",
    "rows": "  %l = make_range i32<64>\n  %s = splat f32*<64> %x\n"
    "  %q = getelementptr f32*<64> %s, %l\n  %v = load f32<64> %q\n",
    "rows that go down": "  %l = make_range i32<64>\n  %z = splat i32<64> 0\n"
    "  %d = sub i32<64> %z, %l\n  %s = splat f32*<64> %x\n"
    "  %q = getelementptr f32*<64> %s, %d\n  %v = load f32<64> %q\n",
    "a tile of pointers to one of two": "  %l = make_range i32<32>\n"
    "  %p = global_address f32* @h\n  %s = splat f32*<32> %x\n  %t = splat f32*<32> %p\n"
    "  %k = splat i32<32> 8\n  %c, %cc = icmp (i1<32>, i1<32>) %l, %k {predicate = slt}\n"
    "  %u = select f32*<32> %c, %s, %t\n  %f = splat i32<32> 64\n"
    "  %q = getelementptr f32*<32> %u, %f\n  store %q, 1.0\n",
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_outside_is_an_error(name: str) -> None:
    x = np.zeros(16, np.float32)
    with pytest.raises(LaunchError, match="TIR0501"):
        launch(OUTSIDE[name], x, more=GLOBALS)
    assert not x.any()


def test_constants_are_not_written() -> None:
    body = "  %p = global_address f32 addrspace(4)* @c\n"
    body += "  %q = addrspacecast f32 addrspace(0)* %p\n  store %q, 1.0\n"
    with pytest.raises(LaunchError, match=r"TIR0508.* of @c, which is read-only"):
        launch(body, np.zeros(16, np.float32), more=GLOBALS)


INSIDE = {
    "a global": "  %p = global_address f32* @g\n  %q = getelementptr f32* %p, i32 3\n"
    "  %v = load f32 %q\n  store %x, %v\n",
    "through a number": "  %a = ptrtoint i64 %x\n  %p = inttoptr f32* %a\n  store %p, 4.0\n",
    "through a function": "  call @put, %x, f32 4.0\n",
    "one of two": "  %p = global_address f32* @g\n  %v = load f32 %p\n"
    "  %c, %cc = fcmp (i1, i1) %v, 5.0 {predicate = olt}\n  %s = select f32* %c, %x, %p\n"
    "  store %s, 4.0\n",
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_what_is_inside_is_accessed(name: str) -> None:
    x = np.zeros(16, np.float32)
    launch(INSIDE[name], x, more=GLOBALS)
    assert x[0] == 4


FIRST = "  %p = load f32* %t\n  %q = getelementptr f32* %p, i32 INDEX\n  store %q, 1.0\n"


def test_pointers_that_are_loaded() -> None:
    one, two = np.zeros(4, np.float32), np.zeros(4, np.float32)
    parameters = "f32** %t"
    launch(FIRST.replace("INDEX", "3"), [one, two], inputs=parameters)
    assert one.tolist() == [0, 0, 0, 1]
    with pytest.raises(LaunchError, match="TIR0501"):
        launch(FIRST.replace("INDEX", "400"), [one, two], inputs=parameters)
    table = np.array([two.ctypes.data], np.uint64)
    with pytest.raises(LaunchError, match=r"TIR0501.* in no array of the launch"):
        launch(FIRST.replace("INDEX", "3"), table, inputs=parameters)
    launch(FIRST.replace("INDEX", "3"), table, inputs=parameters, memory=[two])
    assert two.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("value", [1.5, True, np.True_, -1, 1 << 64, np.float32(3), None, "1"])
def test_what_is_no_address_is_named(value: Any) -> None:
    for run in (
        lambda: launch("  store %x, 1.0\n", value),
        lambda: compile_kernel(parse(
            "tir 1.0\ndefine kernel void @k(f32* %x) {\nentry:\n  ret\n}\n"))(1, [value]),
    ):  # fmt: skip
        with pytest.raises(LaunchError, match=r"TIR0710.* x is f32"):
            run()


def test_kernels_that_are_called_themselves_check() -> None:
    text = "tir 1.0\ndefine kernel void @k(f32* %x) {\nentry:\n"
    text += "  %p = getelementptr f32* %x, i32 4\n  store %p, 1.0\n  ret\n}\n"
    kernel, x = compile_kernel(parse(text)), np.zeros(8, np.float32)
    kernel(1, [x])
    kernel(1, [x.ctypes.data])
    assert x.tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
    with pytest.raises(LaunchError, match=r"TIR0501.*byte 16 of x, which has 16"):
        kernel(1, [x[:4]])


SETS = """  %l = make_range i32<64>
  %s = splat f32*<64> %x
  %k = splat i32<64> %n
  %i = mul i32<64> %l, %k
  %q = getelementptr f32*<64> %s, %i
  store %q, 1.0
"""


def test_bytes_between_elements_are_not_accessed() -> None:
    whole = np.zeros((64, 4), np.float32)
    launch(SETS, whole[:, 1], 4, inputs="f32* %x, i32 %n")
    assert whole[:, 1].all() and whole.sum() == 64
    with pytest.raises(LaunchError, match=r"TIR0501.* between its elements"):
        launch(SETS, whole[:, 1], 3, inputs="f32* %x, i32 %n")
    wide = np.zeros((4, 128), np.float32)
    launch(SETS, wide[:, :64], 1, inputs="f32* %x, i32 %n")
    assert wide[0, :64].all() and wide.sum() == 64
    with pytest.raises(LaunchError, match=r"TIR0501.* between its elements"):
        launch(SETS, wide[:, :32], 1, inputs="f32* %x, i32 %n")


@pytest.mark.parametrize("strides", [(5, 3, 1), (3, 5, 1), (6, 3, 1), (12, 6, 3)], ids=str)
def test_elements_between_rows_of_rows_are_not_accessed(strides: tuple[int, int, int]) -> None:
    """Whichever element of the memory it is, as long as rows do not overlap."""
    whole = np.zeros(64, np.float32)
    steps = tuple(4 * s for s in strides)
    view = np.lib.stride_tricks.as_strided(whole, (2, 2, 2), steps, writeable=True)
    inside = {int(np.dot(place, strides)) for place in np.ndindex(2, 2, 2)}
    body = "  %p = getelementptr f32* %x, %n\n  store %p, 1.0\n"
    for at in range(-1, max(inside) + 3):
        whole[:] = 0
        if at in inside:
            launch(body, view, at, inputs="f32* %x, i32 %n")
            assert whole[at] == 1
        else:
            with pytest.raises(LaunchError, match="TIR0501"):
                launch(body, view, at, inputs="f32* %x, i32 %n")
        assert whole.sum() == (at in inside)


def test_what_is_read_only_of_another_array_is_not_written() -> None:
    """Arrays share memory: only the part that no other one forbids to write is written."""
    whole = np.zeros(32, np.float32)
    fixed = whole[8:24]
    fixed.flags.writeable = False
    body = "  %p = getelementptr f32* %x, %n\n  store %p, 1.0\n"
    parameters = "f32* %x, i32 %n, f32* %y"
    for at in range(-1, 26):
        whole[:] = 0
        if 0 <= at < 8:
            launch(body, whole[:12], at, fixed, inputs=parameters)
        else:
            code = "TIR0508.*read-only" if 8 <= at < 24 else "TIR0501"
            with pytest.raises(LaunchError, match=code):
                launch(body, whole[:12], at, fixed, inputs=parameters)
        assert whole.sum() == (0 <= at < 8)
    launch("  %v = load f32 %y\n  store %x, %v\n", whole[:12], 0, fixed, inputs=parameters)


WRITES = {
    "a store": "  store %x, 1.0\n",
    "a tile": "  %i = make_range i32<4>\n  %b = splat f32*<4> %x\n"
    "  %p = getelementptr f32*<4> %b, %i\n  store %p, f32<4> 1.0\n",
    "an addition": "  %v = atomic_rmw f32 %x, 1.0 {op = fadd}\n",
    "a compare-and-exchange": "  %p = bitcast i32* %x\n  %v = atomic_cas i32 %p, 0, 1\n",
}


@pytest.mark.parametrize("name", WRITES)
def test_whatever_writes_to_a_read_only_array_is_an_error(name: str) -> None:
    """In a launch of its own, and after a launch in which the array could be written."""
    x = np.zeros(16, np.float32)
    for writeable in (False, True, False):
        x.flags.writeable, before = writeable, x.copy()
        if writeable:
            launch(WRITES[name], x)
            assert (x != before).any()
        else:
            with pytest.raises(LaunchError, match=r"TIR0508.*read-only"):
                launch(WRITES[name], x)
            assert (x == before).all()


def test_arrays_that_touch_are_two_arrays() -> None:
    whole = np.zeros(32, np.float32)
    body = "  %p = getelementptr f32* %x, %n\n  store %p, 1.0\n"
    for at in range(-1, 33):
        if 0 <= at < 16:
            launch(body, whole[:16], at, whole[16:], inputs="f32* %x, i32 %n, f32* %y")
        else:
            with pytest.raises(LaunchError, match="TIR0501"):
                launch(body, whole[:16], at, whole[16:], inputs="f32* %x, i32 %n, f32* %y")
    assert whole[:16].all() and not whole[16:].any()


@pytest.mark.parametrize("checked", [True, False])
def test_arrays_that_are_read_only_stay_as_they_are(checked: bool) -> None:
    fixed = np.zeros(16, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(LaunchError, match="read-only"):
        launch("  store %x, 1.0\n", fixed, checked=checked)
    assert not fixed.any()


@pytest.mark.parametrize("step", [1, -1, 2, -2])
def test_views_with_any_steps(step: int) -> None:
    whole = np.zeros(128, np.float32)
    view = whole[::step][:64]
    launch(SETS, view, step, inputs="f32* %x, i32 %n")
    assert view.all() and whole.sum() == 64


def test_arrays_that_are_not_aligned() -> None:
    raw = np.zeros(4 * 64 + 1, np.uint8)
    view = raw[1:].view(np.float32)
    launch(SETS, view, 1, inputs="f32* %x, i32 %n")
    assert view.all() and raw[0] == 0


COUNTS = """  %l = make_range i32<64>
  %s = splat i32*<64> %x
  %q = getelementptr i32*<64> %s, %l
  %v = load i32<64> %q
  %w = add i32<64> %v, 1
  store %q, %w
"""


@pytest.mark.slow
@pytest.mark.parametrize("cut", ["halves", "columns"])
@pytest.mark.parametrize("on", ["cpu", "simt"])
def test_threads_that_launch_on_parts_of_an_array_lose_nothing(on: str, cut: str) -> None:
    text = f"tir 1.0\ndefine kernel void @k(i32* %x) {{\nentry:\n{COUNTS}  ret\n}}\n"
    module, iterations = parse(text), 60 if on == "cpu" else 2
    x = np.zeros((2, 64), np.int32)
    both = threading.Barrier(2)

    def work(part: Any) -> None:
        for _ in range(iterations):
            both.wait(60)
            executor(on).launch(module, "k", 1, [part])

    parts = [x[0], x[1]] if cut == "halves" else [x.reshape(-1)[i:][:64] for i in (0, 64)]
    threads = [threading.Thread(target=work, args=(p,)) for p in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (x == iterations).all()


@pytest.mark.parametrize(("size", "code"), [(1 << 27, "TIR0708"), (1 << 39, "TIR1601")])
def test_globals_are_not_larger_than_code_reaches(size: int, code: str) -> None:
    more = f"global f32<{size}> @g\n"
    with pytest.raises(CompileError, match=rf"<string>:2:1: .*{code}.*@g"):
        launch(
            "  %p = global_address f32* @g\n  store %p, 1.0\n", np.zeros(4, np.float32), more=more
        )


def test_functions_return_16_bits() -> None:
    more = "define noinline (f16, bf16) @two(f16 %a) {\nentry:\n"
    more += "  %b = fptrunc bf16 f32 2.0\n  ret %a, %b\n}\n"
    body = "  %v = load f16 %x\n  %a, %b = call (f16, bf16) @two, %v\n"
    body += "  %c = fpext f32 %a\n  %d = fpext f32 %b\n  %e = fadd f32 %c, %d\n"
    body += "  %f = fptrunc f16 %e\n  store %x, %f\n"
    x = np.ones(1, np.float16)
    launch(body, x, more=more, inputs="f16* %x")
    assert x[0] == 3
