"""Promises, assertions, output, globals, predicates."""

from __future__ import annotations

import numpy as np
import pytest

from .programs import fails, run

KERNEL = """
define kernel void @k(f32* ATTRIBUTES %x, f32* OTHER %y, i32 NUMBER %n) {
entry:
  %v = load f32 %y
  store %x, %v
  ret
}
"""


def kernel(attributes: str = "", other: str = "", number: str = "") -> str:
    words = {"ATTRIBUTES": attributes, "OTHER": other, "NUMBER": number}
    body = KERNEL
    for word, text in words.items():
        body = body.replace(word, text)
    return body


def test_aligned() -> None:
    x = np.zeros(8, np.float32)
    run(kernel("aligned(16)"), 1, x[4:], x, 0)
    message = fails("TIR0507", "@k", kernel("aligned(16)"), 1, x[1:], np.zeros(1, np.float32), 0)
    assert "%x is declared aligned(16), but is address offset 4" in message


def test_multiple_of() -> None:
    x, y = np.zeros(1, np.float32), np.zeros(1, np.float32)
    run(kernel(number="multiple_of(16)"), 1, x, y, 48)
    assert "but is 40" in fails("TIR0507", "@k", kernel(number="multiple_of(16)"), 1, x, y, 40)


def test_noalias() -> None:
    x = np.zeros(8, np.float32)
    run(kernel("noalias"), 1, x[:4], x[4:], 0)
    assert "shares memory with %y" in fails("TIR0507", "@k", kernel("noalias"), 1, x[:5], x[4:], 0)


def test_readonly_and_writeonly() -> None:
    x, y = np.zeros(1, np.float32), np.zeros(1, np.float32)
    run(kernel("writeonly", "readonly"), 1, x, y, 0)
    assert "readonly" in fails("TIR0508", "store", kernel("readonly"), 1, x, y, 0)
    assert "writeonly" in fails("TIR0508", "load", kernel(other="writeonly"), 1, x, y, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": 0}, "is given no y, n"),
        ({"x": 0, "y": 0, "n": 0, "m": 0}, "has no parameter m"),
        ((0, 0), "takes 3 arguments"),
        (None, "a sequence or a mapping"),
        ("abc", "a sequence or a mapping"),
    ],
)
def test_arguments_are_counted_and_named(arguments: object, words: str) -> None:
    from tileir import InterpretError, interpret

    from .programs import module

    with pytest.raises(InterpretError, match=words) as caught:
        interpret(module(kernel()), "k", 1, arguments)  # type: ignore[arg-type]
    assert caught.value.code == "TIR0510"


@pytest.mark.parametrize("value", [1 << 32, -(1 << 31) - 1, 1.5, "4", None])
def test_scalars_must_fit(value: object) -> None:
    fails("TIR0511", "@k", kernel(), 1, np.zeros(1, np.float32), np.zeros(1, np.float32), value)


@pytest.mark.parametrize("value", [10**400, -(10**400), "1", 1j, None])
def test_floats_must_fit(value: object) -> None:
    text = "define kernel void @k(f32 %a) {\nentry:\n  ret\n}\n"
    fails("TIR0511", "@k", text, 1, value)


def test_arguments_are_bound_in_linear_time() -> None:
    from tests.counting import steps_of
    from tileir import interpret

    from .programs import module

    def run(count: int) -> int:
        names = ", ".join(f"f32* %p{i}" for i in range(count))
        kernel = module(f"define kernel void @k({names}) {{\nentry:\n  ret\n}}\n")
        arrays = [np.zeros(1, np.float32) for _ in range(count)]
        return steps_of(lambda: interpret(kernel, "k", 1, arrays))

    run(10)
    assert run(400) < 9 / 8 * 4 * run(100)


def test_arguments_by_name_and_a_kernel_by_name() -> None:
    from tileir import InterpretError, interpret

    from .programs import module

    x, y = np.zeros(1, np.float32), np.ones(1, np.float32)
    interpret(module(kernel()), "k", 1, {"n": np.int64(3), "y": y, "x": x})
    assert x[0] == 1
    with pytest.raises(InterpretError) as caught:
        interpret(module(kernel()), "other", 1, [x, y, 0])
    assert caught.value.code == "TIR0707"


CHECKS = """
define kernel void @k(i32 %n) {
entry:
  %i = make_range i32<8> {start = 0}
  %s = splat i32<8> %n
  %below, _ = icmp (i1<8>, i1<8>) %i, %s {predicate = slt}
  OP
  ret
}
"""


def test_assume() -> None:
    body = CHECKS.replace("OP", "assume %below")
    run(body, 1, 8)
    assert "element 5" in fails("TIR0554", "assume", body, 1, 5)


def test_assert() -> None:
    body = CHECKS.replace("OP", 'assert %below {message = "too far"}')
    run(body, 1, 8)
    message = fails("TIR0514", "assert", body, 1, 5)
    assert "too far" in message and "[5]" in message
    run(CHECKS.replace("OP", "@%below assert %below"), 1, 5)


def test_print() -> None:
    body = CHECKS.replace("OP", 'print %s, %n {prefix = "n"}\n  @%below print %i {hex = true}')
    report = run(body, 2, 2)
    assert report.printed == [
        "(0, 0, 0) n [2, 2, 2, 2, 2, 2, 2, 2] 2",
        "(0, 0, 0) [0x0, 0x1, -, -, -, -, -, -]",
        "(1, 0, 0) n [2, 2, 2, 2, 2, 2, 2, 2] 2",
        "(1, 0, 0) [0x0, 0x1, -, -, -, -, -, -]",
    ]


def test_unreachable() -> None:
    body = "define kernel void @k(i32 %n) {\nentry:\n  unreachable\n}\n"
    fails("TIR0507", "unreachable", body, 1, 0)


def test_inline_assembly_has_no_meaning() -> None:
    op = '%r = inline_asm i32<8> %s {text = "mov.u32 $0, %laneid;", constraints = "=r,r"}'
    fails("TIR0555", "inline_asm", CHECKS.replace("OP", op), 1, 0)


# Predicates --------------------------------------------------------------------------------

PREDICATED = """
define kernel void @k(i32* %x, i32* %y, i32 %n) {
entry:
  %i = make_range i32<8> {start = 0}
  %s = splat i32<8> %n
  %p, %q = icmp (i1<8>, i1<8>) %i, %s {predicate = slt}
  %xs = splat i32*<8> %x
  %px = getelementptr i32*<8> %xs, %i
  %ys = splat i32*<8> %y
  %py = getelementptr i32*<8> %ys, %i
  @%p %a = load i32<8> %px
  @%p %b = mul i32<8> %a, 10
  @%q %c = sub i32<8> 0, %i
  %r = psi i32<8> [%p, %b], [%q, %c]
  store %py, %r
  ret
}
"""


@pytest.mark.parametrize("count", [0, 3, 8])
def test_predicated_streams_join_in_psi(count: int) -> None:
    x, y = np.arange(count, dtype=np.int32), np.zeros(8, np.int32)
    run(PREDICATED, 1, x, y, count)
    assert y.tolist() == [10 * i if i < count else -i for i in range(8)]


def test_lanes_that_are_off_are_undefined() -> None:
    body = PREDICATED.replace("[%p, %b], [%q, %c]", "[%p, %b]")
    message = fails(
        "TIR0505", "store", body, 1, np.arange(8, dtype=np.int32), np.zeros(8, np.int32), 3
    )
    assert "element [3]" in message
    stored = body.replace("store %py", "@%p store %py")
    y = np.full(8, -1, np.int32)
    run(stored, 1, np.arange(8, dtype=np.int32), y, 3)
    assert y.tolist() == [0, 10, 20, -1, -1, -1, -1, -1]


SCALAR = """
define i32 @divide(i32 %a, i32 %b) {
entry:
  %q = sdiv i32 %a, %b
  ret %q
}

define kernel void @k(i32* %x, i32 %n) {
entry:
  %zero, %some = icmp (i1, i1) %n, 0 {predicate = eq}
  @%some %q = call i32 @divide, i32 100, %n
  @%zero %z = add i32 %n, -1
  %r = psi i32 [%some, %q], [%zero, %z]
  store %x, %r
  ret
}
"""


@pytest.mark.parametrize(("n", "expected"), [(0, -1), (7, 14)])
def test_scalar_predicates_switch_calls_off(n: int, expected: int) -> None:
    x = np.zeros(1, np.int32)
    run(SCALAR, 1, x, n)
    assert x[0] == expected


# Globals -----------------------------------------------------------------------------------

GLOBALS = """
constant addrspace(1) i32<4> @table = [3, 5, 7, 11]
global i32<2> @state

define kernel void @k(i32* %x) {
entry:
  %t = global_address i32* @table
  %s = global_address i32* @state
  %i = program_id i32 {axis = 0}
  %p = getelementptr i32* %t, %i
  %v = load i32 %p
  %sp = getelementptr i32* %s, %i
  BODY
  ret
}
"""


def test_globals_have_initial_values() -> None:
    x = np.zeros(1, np.int32)
    run(GLOBALS.replace("BODY", "store %x, %v"), 1, x)
    assert x[0] == 3


def test_constants_are_read_only_and_bounded() -> None:
    x = np.zeros(1, np.int32)
    assert "constant" in fails("TIR0508", "store", GLOBALS.replace("BODY", "store %p, 1"), 1, x)
    body = GLOBALS.replace("BODY", "store %x, %v").replace("%t, %i", "%t, i32 4")
    assert "table + 16 bytes" in fails("TIR0501", "load", body, 1, x)


def test_globals_without_initial_value_are_undefined_until_written() -> None:
    x = np.zeros(1, np.int32)
    fails("TIR0505", "store %x", GLOBALS.replace("BODY", "%w = load i32 %sp\n  store %x, %w"), 1, x)
    body = GLOBALS.replace("BODY", "store %sp, %v\n  %w = load i32 %sp\n  store %x, %w")
    run(body, 1, x)
    assert x[0] == 3


def test_globals_can_be_given() -> None:
    x, state = np.zeros(1, np.int32), np.array([4, 6], np.int32)
    body = GLOBALS.replace("BODY", "%w = load i32 %sp\n  store %x, %w\n  store %sp, %v")
    run(body, 1, x, globals={"state": state})
    assert (x[0], state.tolist()) == (4, [3, 6])


@pytest.mark.parametrize("globals_", [{"state": np.zeros(3, np.int32)}, {"state": np.zeros(2)}])
def test_globals_given_must_fit(globals_: dict[str, object]) -> None:
    body = GLOBALS.replace("BODY", "store %x, %v")
    fails("TIR0511", "@state", body, 1, np.zeros(1, np.int32), globals=globals_)


def test_unknown_globals_are_refused() -> None:
    with pytest.raises(Exception, match="no global @other"):
        body = GLOBALS.replace("BODY", "store %x, %v")
        run(body, 1, np.zeros(1, np.int32), globals={"other": np.zeros(1, np.int32)})


def test_executors_are_found_by_name() -> None:
    from tileir.errors import LaunchError
    from tileir.executor import executor, executors

    from .programs import module

    assert next(iter(executors())) == "interpreter"
    x = np.zeros(1, np.int32)
    executor("interpreter").launch(module(GLOBALS.replace("BODY", "store %x, %v")), "k", 1, [x])
    assert x[0] == 3
    with pytest.raises(LaunchError, match="no executor other") as caught:
        executor("other")
    assert caught.value.code == "TIR0539"


# Descriptors -------------------------------------------------------------------------------

BLOCKS = """
define kernel void @k(tensor_desc<f32<4, 4>> %d, f32* %y) {
entry:
  %i = program_id i32 {axis = 0}
  %first = mul i32 %i, 4
  %v = descriptor_load f32<4, 4> %d, %first, i32 0
  %w = fmul f32<4, 4> %v, 2.0
  descriptor_store %d, %w, %first, i32 0
  ret
}
"""


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_is_a_descriptor(order: str) -> None:
    x = np.arange(15, dtype=np.float32).reshape(5, 3).copy(order=order)  # type: ignore[call-overload]
    expected = x * 2
    run(BLOCKS, 2, x, np.zeros(1, np.float32))
    assert (x == expected).all()


def test_descriptors_describe_arrays_of_their_rank() -> None:
    fails("TIR0511", "@k", BLOCKS, 1, np.zeros(4, np.float32), np.zeros(1, np.float32))


UNDEFINED = """
define kernel void @k(f32* %y) {
entry:
  %i = program_id i32 {axis = 0}
  %no, _ = icmp (i1, i1) %i, -1 {predicate = eq}
  @%no %d = make_descriptor tensor_desc<f32<4>> %y, [i32 1, i32 1]
  %v = descriptor_load f32<4> %d, %i
  ret
}
"""


def test_an_undefined_descriptor() -> None:
    fails("TIR0503", "descriptor_load", UNDEFINED, 1, np.zeros(4, np.float32))


TILED_CALL = """
define i32<8> @twice(i32* %x, i32<8> %v) {
entry:
  EFFECT
  %r = add i32<8> %v, %v
  ret %r
}

define kernel void @k(i32* %x) {
entry:
  %i = make_range i32<8> {start = 0}
  %p, %q = icmp (i1<8>, i1<8>) %i, 4 {predicate = slt}
  @%p %r = call i32<8> @twice, %x, %i
  %s = psi i32<8> [%p, %r], [%q, %i]
  %xs = splat i32*<8> %x
  %px = getelementptr i32*<8> %xs, %i
  store %px, %s
  ret
}
"""


def test_a_pure_function_under_a_tile_predicate() -> None:
    x = np.zeros(8, np.int32)
    run(TILED_CALL.replace("EFFECT", ""), 1, x)
    assert x.tolist() == [0, 2, 4, 6, 4, 5, 6, 7]


@pytest.mark.parametrize("effect", ["store %x, 1", "%o = atomic_rmw i32 %x, 1 {op = add}"])
def test_a_function_with_effects_under_a_tile_predicate(effect: str) -> None:
    fails("TIR0515", "call", TILED_CALL.replace("EFFECT", effect), 1, np.zeros(8, np.int32))


def test_unknown_arrays_cannot_be_uninitialised() -> None:
    with pytest.raises(Exception, match="uninitialised names no array: z"):
        run(kernel(), 1, np.zeros(1, np.float32), np.zeros(1, np.float32), 0, uninitialised=["z"])
