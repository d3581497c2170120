"""Versions of kernels for memory that does not overlap: which kernels have them, when they are
launched, and that machine code decides as Python does."""

import random

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.runtime import native_launcher
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.disjoint import Separation, separate, separation
from tileir.backend.runtime.frontend_calls import FrontendKernels
from tileir.backend.runtime.jit import Jit
from tileir.frontends import triton
from tileir.frontends.triton import language as tl
from tileir.interp import interpret
from tileir.testing.kernels import matmul

from .machines import FakeMachine, TorchLike


class Storage:
    """The memory of a tensor, as torch has it."""

    def __init__(self, address, size):
        self.address, self.size = address, size

    def data_ptr(self):
        return self.address

    def nbytes(self):
        return self.size


class Stored(TorchLike):
    """A view that begins `offset` bytes into its memory."""

    def __init__(self, address, size=4096, offset=0, **more):
        super().__init__(address + offset, **more)
        self.storage = Storage(address, size)

    def untyped_storage(self):
        return self.storage


@pytest.mark.parametrize("distance", [-1, 0, 1])
def test_memory_is_disjoint_from_its_last_byte_on(distance):
    """Two arrays of 64 bytes, the second of which begins `apart` bytes after the first ends."""
    compared = Separation((0,), (0, 1))
    for first, second in ((4096, 4160 + distance), (4096, 4032 - distance)):
        assert compared.decide([Stored(first, 64), Stored(second, 64)]) is (distance >= 0)


@triton.jit
def states(x, out, y, n, BLOCK: tl.constexpr):
    """Running sums, each stored before the next load."""
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(n):
        tl.store(out + i * BLOCK + at, total)
        total += tl.load(x + i * BLOCK + at) * tl.load(y + at)


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(n):
        total += tl.load(x + i * BLOCK + at)
    tl.store(out + at, total)


@triton.jit
def in_place(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for i in range(n):
        tl.store(x + i * BLOCK + at, tl.load(x + i * BLOCK + at) + 1)


@triton.jit
def tables(x, out, n, BLOCK: tl.constexpr):
    """What is stored may be what a loaded address points to."""
    at = tl.arange(0, BLOCK)
    for i in range(n):
        row = tl.load(x + i).to(tl.pointer_type(tl.float32))
        tl.store(out + at, tl.load(row + at))


SIGNATURES = {
    "states": (
        {"x": "*fp32", "out": "*fp32", "y": "*fp32", "n": "i32"}, Separation((1,), (0, 1, 2)),
    ),
    "copy": ({"x": "*fp32", "out": "*fp32", "n": "i32"}, None),
    "in_place": ({"x": "*fp32", "n": "i32"}, None),
    "tables": ({"x": "*i64", "out": "*fp32", "n": "i32"}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNATURES)
def test_kernels_that_read_after_they_wrote_compare_memory(name):
    signature, expected = SIGNATURES[name]
    module = globals()[name].module(signature, {"BLOCK": 16})
    assert separation(module.kernel()) == expected
    if expected is not None:
        version = separate(module, name, expected.written).kernel()
        assert [p.attributes.noalias for p in version.parameters[:2]] == [False, True]
        assert separation(version) is None


def test_dots_whose_result_is_stored_at_the_end_compare_nothing():
    assert separation(matmul(64, 64, 32).kernel()) is None


def test_each_pair_is_compared_once():
    assert Separation((1, 3), (0, 1, 2, 3)).pairs == ((1, 0), (1, 2), (1, 3), (3, 0), (3, 2))


@pytest.fixture(params=["frontend", "jit"])
def launch(request, monkeypatch):
    """Launches `states`; its machine."""
    machine = FakeMachine()
    if request.param == "frontend":
        from tileir.backend import executors as gpu_executor

        calls = FrontendKernels(machine, "sm_80", machine.load, Cache(None))
        monkeypatch.setattr(gpu_executor, "gpu_calls", lambda: calls)
        states._dispatch = None
        return machine, lambda *arguments: states[1](*arguments, 4, BLOCK=16)
    kernel = Jit(
        states.module(SIGNATURES["states"][0], {"BLOCK": 16}), target="sm_80", cache=Cache(None),
        place=machine.place,
    )  # fmt: skip
    return machine, lambda *arguments: kernel[1](*arguments, 4)


def is_separate(machine):
    """Whether the kernel launched last was compiled for memory that does not overlap."""
    handle = machine.launches[-1].handle
    compiled = next(k for k in machine.kernels if k.handle == handle).compiled
    return compiled.stages["input"].kernel().parameters[1].attributes.noalias


X, OUT, Y = Stored(4096), Stored(8192), Stored(12288)
OVERLAPS = (
    (X, OUT, Y, True), (X, X, Y, False), (X, Y, Y, False), (Y, X, OUT, True), (X, OUT, X, True),
    (X, Stored(4096, 8192, 4096), Y, False),  # a view of the memory of x
    (Stored(4096, 4097), OUT, Y, False), (X, Stored(8192, 4097), Y, False),
    (X, Stored(8000, 193, 192), Y, False),  # the last byte of x's memory, before the view
    (X, Stored(1 << 40, 16), Stored((1 << 40) + 16), True),
    (X, OUT, Stored(0, 0, shape=(0,)), True),
)  # fmt: skip


@pytest.mark.skipif(
    not native_launcher.is_supported(), reason="this Python's objects are laid out otherwise"
)
def test_versions_are_launched_by_the_memory_of_arguments(launch):
    machine, call = launch
    machine.owner = lambda address: 0
    for times in range(4):
        for x, out, y, expected in OVERLAPS:
            call(x, out, y)
            assert is_separate(machine) is expected
            assert machine.launches[-1].words == (x.address, out.address, y.address, 4)
            assert machine.launches[-1].native or times < 2
    assert len(machine.kernels) <= 4 and machine.launches[-1].native
    r = random.Random(0)
    for _ in range(300):
        arrays = [Stored(4096 + 16 * r.randrange(64), 16 * r.randrange(1, 24), 0) for _ in range(3)]
        call(*arrays)
        (x, a), out, (y, b) = (
            (z.storage.address, z.storage.address + z.storage.size) for z in arrays
        )
        disjoint = (out[1] <= x or a <= out[0]) and (out[1] <= y or b <= out[0])
        assert is_separate(machine) is disjoint and machine.launches[-1].native


def test_arrays_whose_memory_is_not_known_have_the_version_without(launch):
    machine, call = launch
    for _ in range(4):
        call(TorchLike(4096), TorchLike(8192), TorchLike(12288))
        assert not is_separate(machine)
    for _ in range(3):
        call(X, TorchLike(8192), Y)
        assert not is_separate(machine)
    for _ in range(3):
        call(X, OUT, Y)
        assert is_separate(machine)


def test_the_version_means_the_same_for_memory_that_does_not_overlap():
    module = states.module(SIGNATURES["states"][0], {"BLOCK": 16})
    results = []
    for each in (module, separate(module, "states", (1,))):
        x, out, y = np.arange(64, dtype="f4"), np.zeros(64, "f4"), np.full(16, 0.5, "f4")
        interpret(each, "states", 1, [x, out, y, 4])
        results.append(out)
    np.testing.assert_array_equal(*results)


@triton.jit
def chunks(k, v, out, n, K: tl.constexpr, V: tl.constexpr, C: tl.constexpr):
    """States between the chunks of linear attention, each stored before the next loads."""
    i, j, c = tl.arange(0, K), tl.arange(0, V), tl.arange(0, C)
    total = tl.zeros((K, V), dtype=tl.float32)
    at = 0
    while at < n:  # of a `for`, the loads that feed dots are promised to be independent
        tl.store(out + at * K * V + i[:, None] * V + j[None, :], total.to(tl.float16))
        x = tl.load(k + (at * C + c[None, :]) * K + i[:, None])
        y = tl.load(v + (at * C + c[:, None]) * V + j[None, :])
        total = tl.dot(x, y, total)
        at += 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("machine", "word"), [("sm_80", "cp.async"), ("sm_90a", "cp.async.bulk.tensor")]
)
def test_the_version_is_pipelined(machine, word):
    """On threads it computes what the interpreter does."""
    module = chunks.module(
        {"k": "*fp16:16", "v": "*fp16:16", "out": "*fp16:16", "n": "i32"},
        {"K": 64, "V": 64, "C": 64},
    )
    version = separate(module, "chunks", separation(module.kernel()).written)
    assert word not in compile_kernel(module, machine).ptx
    assert word in compile_kernel(version, machine).ptx
    r, results = np.random.default_rng(0), []
    k, v = (r.integers(-2, 3, (3 * 64, 64)).astype("f2") for _ in range(2))
    for run in (interpret, SimtExecutor().launch):
        out = np.zeros((3, 64, 64), "f2")
        more = {} if run is interpret else {"target": machine}
        run(version, "chunks", 1, [k, v, out, 3], **more)
        results.append(out)
    np.testing.assert_array_equal(*results)


@triton.jit
def tiles(a, b, c, m, n, k, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """A matmul whose instances work for several tiles, as its author wrote it."""
    wide = tl.cdiv(n, BLOCK)
    for tile in range(tl.program_id(0), tl.cdiv(m, BLOCK) * wide, COUNT):
        i = (tile // wide) * BLOCK + tl.arange(0, BLOCK)
        j = (tile % wide) * BLOCK + tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
        for start in range(0, k, BLOCK):
            r = start + tl.arange(0, BLOCK)
            rows, columns = (i[:, None] < m) & (r[None, :] < k), (r[:, None] < k) & (j[None, :] < n)
            x = tl.load(a + i[:, None] * k + r[None, :], mask=rows, other=0.0)
            y = tl.load(b + r[:, None] * n + j[None, :], mask=columns, other=0.0)
            total = tl.dot(x, y, total)
        inside = (i[:, None] < m) & (j[None, :] < n)
        tl.store(c + i[:, None] * n + j[None, :], total.to(tl.float16), mask=inside)


def test_a_loop_over_tiles_has_tensor_maps():
    arrays = dict.fromkeys("abc", "*fp16:16")
    module = tiles.module(
        {**arrays, "m": "i32", "n": "i32:16", "k": "i32:16"}, {"COUNT": 2, "BLOCK": 64}
    )
    compared = separation(module.kernel())
    assert compared == Separation((2,), (0, 1, 2))
    version = separate(module, "tiles", compared.written)
    assert compile_kernel(module, "sm_90a").host is None
    assert len(compile_kernel(version, "sm_90a").host.maps) == 3
    r, (m, n, k) = np.random.default_rng(0), (100, 96, 80)
    a, b = (r.integers(-2, 3, shape).astype("f2") for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), "f2")
    SimtExecutor().launch(version, "tiles", 2, [a, b, c, m, n, k], target="sm_90a")
    np.testing.assert_array_equal(c, a.astype("f4") @ b.astype("f4"))
