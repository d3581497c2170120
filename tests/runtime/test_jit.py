"""Kernels compiled when they are launched: for what, how often, and what reaches the driver."""

import re
import struct
import threading

import numpy as np
import pytest

from tileir.backend.runtime import native_launcher
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.jit import Jit
from tileir.backend.runtime.specialize import ArgumentFact, specialize
from tileir.errors import CompileError, LaunchError
from tileir.interp import interpret
from tileir.textual import parse, print_module

from .machines import FakeMachine, Interface, TorchLike

SCALE = """tir 1.0
define kernel void @scale(f32* %x, f32* %y, i32 %n, i32 %stride, f32 %by) {
entry:
  %r = make_range i32<64>
  %s = splat i32<64> %stride
  %o = mul i32<64> %r, %s
  %b = splat i32<64> %n
  %in, _ = icmp (i1<64>, i1<64>) %r, %b {predicate = slt}
  %xs = splat f32*<64> %x
  %px = getelementptr f32*<64> %xs, %o
  %v = load f32<64> %px, %in, 0.0
  %f = splat f32<64> %by
  %w = fmul f32<64> %v, %f
  %ys = splat f32*<64> %y
  %py = getelementptr f32*<64> %ys, %o
  store %py, %w, %in
  ret
}
"""


@pytest.fixture
def machine():
    return FakeMachine()


@pytest.fixture
def kernel(machine):
    return jit(machine)


def jit(machine, text=SCALE, **options):
    return Jit(
        parse(text), target="sm_80", cache=Cache(None), place=machine.place,
        **options,
    )  # fmt: skip


def f32(number):
    return struct.unpack("<I", struct.pack("<f", number))[0]


def test_a_launch_passes_what_was_given(kernel, machine):
    x, y = TorchLike(4096), TorchLike(8192)
    for _ in range(4):
        kernel[(3, 2)](x, y, 50, 7, 0.5)
    for launch in machine.launches:
        assert launch.words == (4096, 8192, 50, 7, f32(0.5)) and launch.grid == (3, 2, 1)
        assert launch.threads == machine.kernels[0].compiled.plan.threads
    assert [launch.native for launch in machine.launches] == [False, False, True, True]
    assert len(machine.kernels) == 1


@pytest.mark.skipif(
    not native_launcher.is_supported(), reason="this Python's objects are laid out otherwise"
)
@pytest.mark.parametrize("change", [
    {"x": TorchLike(4100)}, {"n": 64}, {"n": 1}, {"stride": 1}, {"stride": 16},
    {"y": TorchLike(8192 + 8)},
])  # fmt: skip
def test_each_kind_of_argument_has_a_kernel_of_its_own(kernel, machine, change):
    usual = {"x": TorchLike(4096), "y": TorchLike(8192), "n": 50, "stride": 7, "by": 0.5}
    for _ in range(3):
        for named in (usual, {**usual, **change}):
            kernel[1](*named.values())
            kernel[1](**named)
    assert len(machine.kernels) == 2
    first = [launch.handle for launch in machine.launches[::4]]
    second = [launch.handle for launch in machine.launches[2::4]]
    assert set(first) == {0x1000} and set(second) == {0x1001}
    assert all(launch.native for launch in machine.launches[-4:])


def test_kinds_that_are_equal_share_a_kernel(kernel, machine):
    for address, n, stride, by in ((4096, 50, 7, 0.5), (8192, 33, 5, -2.0), (16, 51, 3, 1.0)):
        machine.owner = lambda _: 0
        for _ in range(3):
            kernel[1](TorchLike(address), TorchLike(address), n, stride, by)
            assert machine.launches[-1].words == (address, address, n, stride, f32(by))
    assert len(machine.kernels) == 1


NUMBERED = re.sub(
    r"%(x|y|n|stride|by)\b", lambda m: f"%{['x', 'y', 'n', 'stride', 'by'].index(m[1])}", SCALE
)
"""The same with parameters that have no names."""


@pytest.mark.parametrize(
    ("text", "names"), [(SCALE, ("n", "stride", "x")), (NUMBERED, ("a2", "a3", "a0"))]
)
def test_what_is_not_to_be_specialised_is_not(machine, text, names):
    kernel = jit(machine, text, do_not_specialize=names)
    for n, stride, x in ((50, 7, 4096), (64, 1, 4096), (1, 16, 4100), (0, 0, 4104)):
        for _ in range(3):
            kernel[1](TorchLike(x), TorchLike(), n, stride, 0.5)
            assert machine.launches[-1].words[2:4] == (n, stride)
    assert len(machine.kernels) == 1
    assert sum(launch.native for launch in machine.launches) >= 8


def test_specialising_is_from_module_to_module():
    module = parse(SCALE)
    facts = {"x": ArgumentFact.DIVISIBLE, "n": ArgumentFact.DIVISIBLE, "stride": ArgumentFact.ONE}
    specialized = specialize(module, "scale", facts)
    text = print_module(specialized)
    assert "f32* aligned(16) %x, f32* %y, i32 multiple_of(16) %n, i32 %stride" in text
    assert "splat i32<64> 1" in text and specialize(specialized, "scale", facts) is specialized
    assert specialize(module, "scale", {}) is module
    results = []
    for each in (module, specialized):
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        interpret(each, "scale", 1, [x, y, 48, 1, 2.0])
        results.append(y)
    np.testing.assert_array_equal(*results)


def test_promises_are_joined():
    text = SCALE.replace("i32 %n", "i32 multiple_of(12) %n").replace(
        "f32* %x", "f32* aligned(8) %x"
    )
    specialized = specialize(
        parse(text), "scale", {"n": ArgumentFact.DIVISIBLE, "x": ArgumentFact.DIVISIBLE}
    )
    x, _, n, *_ = (p.attributes for p in specialized.functions["scale"].parameters)
    assert (x.aligned, n.multiple_of) == (16, 48)


def test_grids_are_numbers_tuples_and_functions(kernel, machine):
    arguments = {"x": TorchLike(), "y": TorchLike(), "n": 50, "stride": 7, "by": 0.5}
    for _ in range(3):
        kernel[lambda meta: (meta["n"] // 10, 2)](**arguments)
        kernel[5](**arguments)
        kernel[lambda meta: 7](*arguments.values())
    assert {launch.grid for launch in machine.launches} == {(5, 2, 1), (5, 1, 1), (7, 1, 1)}
    count = len(machine.launches)
    kernel[(4, 0)](**arguments)
    assert len(machine.launches) == count
    for wrong in ((1, 2, 3, 4), (), -1, (2, -2), 1.5, "1", (1.0,), None, True):
        for _ in range(2):
            with pytest.raises(LaunchError, match=r"TIR0710.*a grid is"):
                kernel[wrong](**arguments)
    with pytest.raises(ZeroDivisionError):
        kernel[lambda meta: 1 // 0](**arguments)


def test_streams_are_followed(kernel, machine):
    class Stream:
        cuda_stream = 77

    arguments = (TorchLike(), TorchLike(), 50, 7, 0.5)
    for _ in range(3):
        kernel[1](*arguments, stream=5)
        kernel[1](*arguments, stream=Stream())
        kernel[1](*arguments)
    assert [launch.stream for launch in machine.launches] == [5, 77, 0] * 3
    with pytest.raises(LaunchError, match="a stream is its handle"):
        kernel[1](*arguments, stream="main")


def test_interfaces_and_addresses_pass(kernel, machine):
    for _ in range(3):
        kernel[1](Interface(4096), 8192, 50, 7, 0.5)
        kernel[1](Interface(4100), 8192, 50, 7, 0.5)
    assert [launch.words[0] for launch in machine.launches] == [4096, 4100] * 3
    assert len(machine.kernels) == 2
    kernel[1](Interface(4096, stream=9), 8192, 50, 7, 0.5)
    assert machine.launches[-1].stream == 9
    kernel[1](Interface(4096, stream=1), 8192, 50, 7, 0.5)
    assert machine.launches[-1].stream == 0


@pytest.mark.skipif(
    not native_launcher.is_supported(), reason="this Python's objects are laid out otherwise"
)
@pytest.mark.parametrize("make", [TorchLike, lambda at, **more: Interface(at or None, **more)])
def test_arrays_without_elements_pass_by_machine_code(kernel, machine, make):
    """They have no memory, while an array with elements and without memory was freed."""
    for _ in range(4):
        kernel[1](make(0, shape=(2, 0)), TorchLike(8192), 50, 7, 0.5)
    assert [launch.words[:2] for launch in machine.launches] == [(0, 8192)] * 4
    assert [launch.native for launch in machine.launches] == [False, False, True, True]
    with pytest.raises(LaunchError, match="argument x has no memory: it was freed"):
        kernel[1](make(0, shape=(2, 4)), TorchLike(8192), 50, 7, 0.5)
    for _ in range(2):
        kernel[1](make(4096, shape=(2, 4)), TorchLike(8192), 50, 7, 0.5)
    assert [launch.words[0] for launch in machine.launches[4:]] == [4096] * 2
    assert machine.launches[-1].native and len(machine.kernels) == 1


WRONG = [
    ({"x": TorchLike(name="float16")}, "argument x is an array of f16, and the kernel takes f32*"),
    ({"x": Interface(typestr="<i4")}, "argument x is an array of i32, and the kernel takes f32*"),
    ({"x": TorchLike(cuda=False)}, "argument x is a tensor of the CPU"),
    ({"x": np.zeros(4, np.float32)}, "argument x is memory of the host"),
    ({"x": TorchLike(0)}, "argument x has no memory: it was freed"),
    ({"x": 17}, "argument x is at 0x11, where no GPU has memory"),
    ({"x": "text"}, "argument x must be an array of a GPU or an address, not str"),
    ({"x": None}, "argument x must be an array of a GPU or an address, not NoneType"),
    ({"x": Interface(strides=(6,))}, "argument x has strides"),
    ({"n": 1.5}, "argument n must be an integer for i32, not 1.5"),
    ({"n": 1 << 33}, "argument n, 8589934592, does not fit in i32"),
    ({"n": "text"}, "argument n must be a number for i32, not str"),
    ({"by": None}, "argument by must be a number for f32, not NoneType"),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("change", "message"), WRONG)
def test_what_does_not_fit_is_named(kernel, machine, change, message):
    usual = {"x": TorchLike(), "y": TorchLike(), "n": 50, "stride": 7, "by": 0.5}
    for _ in range(3):
        kernel[1](**usual)
        with pytest.raises(LaunchError) as caught:
            kernel[1](**{**usual, **change})
        assert caught.value.code == "TIR0710" and message in str(caught.value)
    assert len(machine.launches) == 3


def test_memory_that_is_gone_is_detected_by_a_first_launch(kernel, machine):
    with pytest.raises(LaunchError, match="argument x is at 0x500000, where no GPU has memory"):
        kernel[1](TorchLike(5 << 20), TorchLike(), 50, 7, 0.5)


def test_wrong_names_and_numbers_of_arguments_are_refused(kernel):
    x = TorchLike()
    for arguments, named in (((x, x), {}), ((x, x, 1, 1, 1.0, 2), {}), ((x, x, 1, 1), {"b": 1.0}),
                             ((x, x, 1, 1, 1.0), {"n": 1})):  # fmt: skip
        with pytest.raises(LaunchError, match="@scale takes x, y, n, stride, by"):
            kernel[1](*arguments, **named)


def test_promises_of_the_program_are_checked(machine):
    text = SCALE.replace("f32* %x", "f32* aligned(32) %x").replace(
        "i32 %n", "i32 multiple_of(6) %n"
    )
    kernel = jit(machine, text)
    for _ in range(3):
        kernel[1](TorchLike(4096), TorchLike(), 12, 7, 0.5)
        with pytest.raises(
            LaunchError, match="argument x is at 0x1010, which is not a multiple of 32"
        ):
            kernel[1](TorchLike(4096 + 16), TorchLike(), 12, 7, 0.5)
        with pytest.raises(LaunchError, match="argument n, 14, is not a multiple of 6"):
            kernel[1](TorchLike(4096), TorchLike(), 14, 7, 0.5)


def test_devices_have_to_be_the_same():
    machine = FakeMachine(devices=2)
    kernel, far = jit(machine), TorchLike((1 << 20) + 4096, device=1)
    for _ in range(3):
        kernel[1](TorchLike(), TorchLike(), 50, 7, 0.5)
        kernel[1](far, far, 50, 7, 0.5)
        with pytest.raises(LaunchError, match="arguments are on several GPUs: x on 0, y on 1"):
            kernel[1](TorchLike(), far, 50, 7, 0.5)
    assert [launch.words[0] for launch in machine.launches] == [4096, (1 << 20) + 4096] * 3


def test_numbers_of_numpy_and_booleans_pass(machine):
    parameters = "i1 %a, i8 %b, i64 %c, f16 %d, bf16 %e, f64 %f"
    text = f"tir 1.0\ndefine kernel void @k({parameters}) {{\nentry:\n  ret\n}}\n"
    kernel = jit(machine, text)
    for _ in range(3):
        kernel[1](True, -3, 1 << 40, 1.0, 1.0, 2)
        kernel[1](np.bool_(False), np.int8(5), np.int64(-1), np.float32(0.5), 3, np.float64(1.5))
        kernel[1](False, 255, -(1 << 40), -2.0, 0.5, -1.5)
    double = struct.Struct("<d")
    expected = [
        (1, 253, 1 << 40, 0x3C00, 0x3F80, int.from_bytes(double.pack(2.0), "little")),
        (0, 5, (1 << 64) - 1, 0x3800, 0x4040, int.from_bytes(double.pack(1.5), "little")),
        (
            0,
            255,
            (1 << 64) - (1 << 40),
            0xC000,
            0x3F00,
            int.from_bytes(double.pack(-1.5), "little"),
        ),
    ]
    assert [launch.words for launch in machine.launches] == expected * 3


def test_a_failing_driver_is_an_error_every_time(kernel, machine):
    arguments = (TorchLike(), TorchLike(), 50, 7, 0.5)
    for _ in range(3):
        kernel[1](*arguments)
    machine.fails = 1
    with pytest.raises(LaunchError, match="TIR0711"):
        kernel[1](*arguments)
    machine.fails = 0
    kernel[1](*arguments)
    assert machine.launches[-1].native == native_launcher.is_supported()


def test_many_kinds_of_calls_are_all_right(machine, monkeypatch):
    """More than machine code looks through, one after another."""
    monkeypatch.setattr(native_launcher, "_MOST", 32)
    kernel = jit(machine, SCALE, do_not_specialize=("x", "y", "n"))
    kinds = [{"stride": s, "by": b, **extra} for s in (1, 7, 16, 0) for b in (0.5, -1.0)
             for extra in ({"n": 1, "x": TorchLike(), "y": Interface()},
                           {"y": TorchLike(), "n": 2, "x": 4096})]  # fmt: skip
    orders = [lambda c: c, lambda c: dict(reversed(c.items())), lambda c: dict(sorted(c.items()))]
    for _ in range(3):
        for order in orders:
            for call in kinds:
                kernel[1](**order(call))
                words = machine.launches[-1].words
                assert words[2:4] == (call["n"], call["stride"]) and words[4] == f32(call["by"])
    assert len(machine.kernels) == 3


def test_threads_launch_side_by_side(kernel, machine):
    def work(number):
        for i in range(300):
            kernel[1](TorchLike(4096), TorchLike(8192), 50, 2 * (300 * number + i) + 3, 0.5)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(machine.kernels) == 1
    assert sorted(f.words[3] for f in machine.launches) == [2 * i + 3 for i in range(1200)]


def test_compiling_without_launching(kernel, machine):
    compiled = kernel.compiled_for(TorchLike(), TorchLike(4100), 64, 1, 0.5)
    x, y, n, _, _ = compiled.metadata.parameters
    assert (x.aligned, y.aligned, n.multiple_of) == (16, 1, 16)
    assert not machine.launches


def test_errors_of_the_compiler_arrive(machine):
    kernel = jit(machine, options={"num_warps": 64})
    with pytest.raises(CompileError, match="TIR0708"):
        kernel[1](TorchLike(), TorchLike(), 50, 7, 0.5)


def test_the_public_names_are_those_of_the_backend(machine, monkeypatch):
    import tileir.backend
    from tileir.backend import executors

    assert tileir.backend.Jit is Jit and tileir.backend.Cache is Cache
    monkeypatch.setattr(executors, "gpu_place", machine.place)
    kernel = tileir.backend.jit(parse(SCALE), num_warps=2, target="sm_80", cache=Cache(None))
    kernel[1](TorchLike(), TorchLike(), 50, 7, 0.5)
    assert machine.launches[0].threads == 64
    with pytest.raises(AttributeError, match="no attribute 'launch'"):
        _ = tileir.backend.launch


def test_launchers_go_with_their_kernels(machine):
    """No kernel is kept alive by the functions that launch it, and none of them reads what went."""
    import gc
    import weakref

    alive = []
    for _ in range(5):
        kernel = jit(machine)
        for _ in range(4):
            kernel[1](TorchLike(), TorchLike(), 50, 7, 0.5)
        alive.append(weakref.ref(kernel))
    del kernel
    gc.collect()
    assert not any(each() for each in alive)


def test_a_launcher_that_is_kept_becomes_quick_too(kernel, machine):
    launch = kernel[1]
    for _ in range(5):
        launch(TorchLike(), TorchLike(), 50, 7, 0.5)
    assert [launch.native for launch in machine.launches[2:]] == [
        native_launcher.is_supported()
    ] * 3
