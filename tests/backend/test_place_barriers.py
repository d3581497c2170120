"""Which barriers stand between ops, and that none does where no thread waits for another."""

from functools import partial

import numpy as np
import pytest

from tileir import interpret
from tileir.analysis.affine_mod32 import addresses
from tileir.analysis.underlying_pointers import underlying_pointers
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.simt.counts import Counts
from tileir.backend.target import target
from tileir.builder import F32, I32, Builder, arg, pointer
from tileir.textual import parse
from tileir.types import I64, tile
from tileir.values import Value


def barrier_scopes(b, warps=4):
    """Of every barrier in program order whether it is one of the warp."""
    done = run_pipeline(b.module(), target("sm_90"), Options(num_warps=warps), None)
    ops = done.stages["barriers"].kernel().ops
    return ["warp" if op.warp else "block" for op in ops if op.mnemonic == "gpu.barrier"]


def in_place(move):
    """Load at `i`, store at `move(i)`."""
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        at = b.arange(256)
        value = (x + at).load()
        (x + move(at)).store(value + 1.0)
    return b


@pytest.mark.parametrize(
    ("move", "barriers"),
    [
        (lambda i: i, []),
        (lambda i: i ^ 1, ["block"]),
        (lambda i: 255 - i, ["block"]),
        (lambda i: i + 256, []),
        (lambda i: i + 255, ["block"]),
    ],
)
def test_elements_of_one_thread_need_no_barrier(move, barriers):
    assert barrier_scopes(in_place(move)) == barriers


@pytest.mark.parametrize(("stored", "barriers"), [("z", []), ("x", ["block"]), ("y", ["block"])])
def test_one_of_several_arrays_is_none_of_the_others(stored, barriers):
    """Rows of `x` or `y`, as the instance says, are stored in reverse."""
    b, kind = Builder(), pointer(F32)
    with b.kernel("k", x=kind, y=kind, z=kind) as (x, y, z):
        at = b.arange(256)
        chosen = b.select(b.program_id() == 0, x, y)
        value = (chosen + at).load()
        ({"x": x, "y": y, "z": z}[stored] + (255 - at)).store(value)
    assert barrier_scopes(b) == barriers


def test_lanes_of_one_warp_wait_for_each_other():
    """8 elements are owned by 4 lanes each, and by every warp, where they alone need them."""

    def program(summed):
        b = Builder()
        with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
            small = b.arange(8)
            value = (x + small).load()
            (x + small).store(value + 1.0)
            if summed:
                y.store(value.sum(axis=0))
        return b

    assert barrier_scopes(program(True), 1) == ["warp"]
    assert barrier_scopes(program(True), 4) == ["block"]
    assert barrier_scopes(program(False), 1) == []


def test_a_warp_that_synchronized_has_not_synchronized_with_the_others():
    """Rows are owned by a warp each: a row backwards is read after the warp has synchronized, rows
    from the last to the first after the block has."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
        row, column = b.arange(4)[:, None], b.arange(32)[None, :]
        (x + (row * 32 + column)).store(b.full((4, 32), 1.0, F32))
        backwards = (x + (row * 32 + (31 - column))).load()
        upwards = (x + ((3 - row) * 32 + column)).load()
        (y + (row * 32 + column)).store(backwards + upwards)
    assert barrier_scopes(b) == ["warp", "block"]


def test_two_places_of_one_program_are_disjoint():
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        start = b.program_id(axis=0) * 512
        at = b.arange(256)
        first = (x + (start + at)).load()
        (x + (start + 256 + at)).store(first)
        (x + (start * 1 + 256 + at)).store(first)
    assert barrier_scopes(b) == []


def test_where_an_address_depends_on_data_threads_wait():
    b = Builder()
    with b.kernel("k", x=pointer(I32)) as (x,):
        at = b.arange(256)
        index = (x + at).load()
        value = (x + index).load()
        (x + index).store(value + 1)
    assert barrier_scopes(b) == ["block"]


def in_place_loop(step, span):
    """Every iteration loads and stores `span` elements in place and goes on by `step`."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), n=I32) as (x, n), b.for_(n) as i:
        place = x + (i * step + b.arange(span))
        place.store(place.load() + 1.0)
    return b


@pytest.mark.parametrize(
    ("step", "barriers"), [(128, []), (256, []), (64, ["block"]), (0, []), (-128, [])]
)
def test_iterations_of_a_loop_that_advances(step, barriers):
    assert barrier_scopes(in_place_loop(step, 128)) == barriers
    arrays = [np.arange(4096, dtype=np.float32)]
    if step >= 0:
        SimtExecutor().launch(in_place_loop(step, 128).module(), None, 1, [*arrays, 3], num_warps=4)


def rows_in_place(kind, lanes=128):
    """Every iteration changes a row in place; the next one begins `n` elements after it. An earlier
    store is to row -1 or, for "again", to row 0."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), iterations=I32, n=I32) as (tensor, iterations, n):
        at, x = b.arange(lanes), tensor + 8192
        if kind == "counter":
            with b.for_(iterations) as i:
                row = x + (i * n + at)
                row.store(row.load() * 2.0 + 1.0)
        elif kind == "wide":
            with b.for_(0, iterations * 3, 3) as i:
                row = x + (b.sext(i, I64) * b.sext(n, I64) + b.sext(at, tile(I64, (lanes,))))
                row.store(row.load() * 2.0 + 1.0)
        else:
            (x + at).store(b.full((lanes,), 5.0, F32))
            current = b.var((x if kind == "again" else x + n) + at)
            with b.for_(iterations):
                row = current.get()
                row.store(row.load() * 2.0 + 1.0)
                current.set(row + n)
    return b


@pytest.mark.parametrize("kind", ["counter", "wide", "pointer", "again"])
@pytest.mark.parametrize("stride", [0, 1, 127, 128, 500, -1, -128])
def test_iterations_that_advance_by_less_than_they_access_wait_for_each_other(kind, stride):
    """The stride is known when the kernel runs: a branch skips the barrier of each iteration."""
    b = rows_in_place(kind)
    assert barrier_scopes(b) == ["block"]
    done = run_pipeline(b.module(), target("sm_90"), Options(num_warps=4), None)
    blocks = done.stages["barriers"].kernel().blocks.values()
    assert [len(x.ops) for x in blocks if x.ops[0].mnemonic == "gpu.barrier"] == [2]
    counts, results = Counts(), []
    for run in (interpret, partial(SimtExecutor().launch, counts=counts, num_warps=4)):
        results.append(np.arange(16384, dtype=np.float32))
        run(b.module(), "k", 1, [results[-1], 4, stride])
    np.testing.assert_array_equal(results[1], results[0])
    step = 3 * stride if kind == "wide" else stride
    waited = sum(tally.barriers for tally in counts.by_op.values())
    assert bool(waited) == (abs(step) < 128)


def piecewise(first, gap=0):
    """`first` elements, then a loop over the others, in place; the loop begins `gap` early."""
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        row = b.program_id(axis=0) * 1024
        (x + (row + b.arange(first))).store(b.zeros((first,), F32))
        with b.for_(first - gap, 1024, 128) as start:
            (x + (row + start + b.arange(128))).store(b.zeros((128,), F32))
    return b


@pytest.mark.parametrize(("first", "gap", "barriers"), [(256, 0, []), (256, 1, ["block"])])
def test_parts_before_a_loop_over_the_others(first, gap, barriers):
    assert barrier_scopes(piecewise(first, gap)) == barriers


def test_a_loop_carried_pointer_keeps_its_parameter():
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32), n=I32) as (x, y, n):
        at = b.arange(128)
        source, target_ = b.var(x + at), b.var(y + at)
        with b.for_(n):
            target_.get().store(source.get().load())
            source.set(source.get() + 128)
            target_.set(target_.get() + 128)
    assert barrier_scopes(b) == []
    function = b.module().kernel()
    results = {underlying_pointers(function).get(v) for op in function.ops for v in op.inputs
             if op.mnemonic in ("load", "store") and isinstance(v, Value)}  # fmt: skip
    assert {p.value for p in function.parameters[:2]} <= results


def test_a_release_waits_for_others_and_not_for_itself():
    def program(every):
        b = Builder()
        with b.kernel("k", x=pointer(I32), flag=pointer(I32)) as (x, flag):
            if every:
                (x + b.arange(128)).store(b.arange(128))
            else:
                x.store(b.constant(I32, 1))
            b.atomic_rmw(flag, 1, op="add", sem="release")
        return b

    assert barrier_scopes(program(True)) == ["block"]
    assert barrier_scopes(program(False)) == []


FLAGS = {
    "atomic_rmw": lambda b, p, sem: b.atomic_rmw(p, 1, op="xchg", sem=sem),
    "atomic_cas": lambda b, p, sem: b.atomic_cas(p, 0, 1, sem=sem),
    "atomic_load": lambda b, p, sem: b.atomic_load(p, sem=sem),
}


@pytest.mark.parametrize(("name", "sem"), [
    (name, sem)
    for name in FLAGS
    for sem in ("relaxed", "acquire", "release", "acq_rel")
    if name != "atomic_load" or sem in ("relaxed", "acquire")
])  # fmt: skip
def test_all_threads_wait_for_those_that_acquire(name, sem):
    """Flags of a tile, each acquired by one thread; then others load what they guard."""
    b = Builder()
    with b.kernel("k", x=pointer(I32), flag=pointer(I32), y=pointer(I32)) as (x, flag, y):
        at = b.arange(128)
        result = FLAGS[name](b, flag + at, sem)
        value = (x + (127 - at)).load()
        (y + at).store(value + result)
    assert barrier_scopes(b) == (["block"] if sem in ("acquire", "acq_rel") else [])


@pytest.mark.parametrize("name", ["atomic_rmw", "atomic_cas", "atomic_store"])
@pytest.mark.parametrize("sem", ["relaxed", "release", "acq_rel"])
def test_those_that_release_wait_for_all_threads(name, sem):
    """All threads store, then flags of a tile are released, each by one thread."""
    if (name, sem) == ("atomic_store", "acq_rel"):
        return  # no store acquires
    b = Builder()
    with b.kernel("k", x=pointer(I32), flag=pointer(I32)) as (x, flag):
        at = b.arange(128)
        (x + at).store(at)
        if name == "atomic_store":
            b.atomic_store(flag + at, b.full((128,), 1, I32), sem=sem)
        else:
            FLAGS[name](b, flag + at, sem)
    assert barrier_scopes(b) == ([] if sem == "relaxed" else ["block"])


@pytest.mark.parametrize("by_all", [False, True])
def test_what_one_thread_acquires_and_does_not_read_others_wait_for(by_all):
    b = Builder()
    with b.kernel("k", x=pointer(I32), flag=pointer(I32), y=pointer(I32)) as (x, flag, y):
        b.atomic_rmw(flag, 1, op="xchg", sem="acquire")
        if by_all:
            (y + b.arange(128)).store((x + b.arange(128)).load())
        else:
            b.atomic_rmw(y, 1, op="add", sem="relaxed")
    assert barrier_scopes(b) == (["block"] if by_all else [])


@pytest.mark.parametrize("size", [None, 8, 128])
def test_a_volatile_load_is_made_once_per_element_and_told(size):
    """Another instance may change memory while threads load it: those that hold an element know
    the same of it, and branch alike."""
    b = Builder()
    with b.kernel("k", x=pointer(I32), y=pointer(I32)) as (x, y):
        place = x if size is None else x + b.arange(size)
        goal = y if size is None else y + b.arange(size)
        goal.store(place.load(volatile=True) + 1)
    done = run_pipeline(b.module(), target("sm_90"), Options(num_warps=4), None)
    (load,) = [op for op in done.stages["barriers"].kernel().ops if op.mnemonic == "load"]
    assert (load.shared is not None) == (size != 128)


def test_a_barrier_that_others_make_needless_is_left_out():
    """The reduction's own barrier orders the loads before it and the store after it."""
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        at = b.arange(256)
        value = (x + at).load()
        total = value.sum(axis=0)
        (x + (255 - at)).store(value * total)
    assert barrier_scopes(b) == []


def test_addresses_that_are_added():
    b = Builder()
    with b.kernel("k", x=pointer(F32), n=I32) as (x, n):
        rows, columns = b.arange(4)[:, None], b.arange(8)[None, :]
        place = x + (n * 2 + 3 + rows * 16 - columns)
        place.store(b.full((4, 8), 0.0, F32))
    function = b.module().kernel()
    (store,) = [op for op in function.ops if op.mnemonic == "store"]
    form = addresses(function).of(store.pointer)
    x, n = (p.value for p in function.parameters)
    assert form is not None
    assert (form.start, form.strides) == (12, (64, -4))
    assert form.terms == {(x, 1), (n, 8)}
    assert form.interval((4, 8)) == (12 - 28, 12 + 192)


def test_a_fence_stands_between_what_threads_did_and_do():
    b = Builder()
    with b.kernel("k", x=pointer(I32), flag=pointer(I32)) as (x, flag):
        (x + b.arange(128)).store(b.arange(128))
        b.fence(sem="release")
        b.atomic_rmw(flag, 1, op="add", sem="relaxed")
    assert barrier_scopes(b) == ["block", "block"]
    b = Builder()
    with b.kernel("k", x=pointer(I32)) as (x,):
        b.fence(sem="acquire")
        (x + b.arange(128)).store(b.arange(128))
        b.fence(sem="release")
    assert barrier_scopes(b) == ["block", "block"]


CONDITIONS = """tir 1.0

define kernel void @k(i1* %x, f32* %y) {num_warps = 4} {
entry:
  %i = make_range i32<256>
  %ys = splat f32*<256> %y
  %p = getelementptr f32*<256> %ys, %i
  %v = load f32<256> %p
  %m, %no = fcmp (i1<256>, i1<256>) %v, 0.5 {predicate = olt}
  %xs = splat i1*<256> %x
  %q = getelementptr i1*<256> %xs, %i
  %first = bitcast i8*<256> %q
  %w = zext i8<256> %m
  store %first, %w
  %next = getelementptr i1*<256> %q, i32<256> DISTANCE
  %second = bitcast i8*<256> %next
  %n = zext i8<256> %no
  store %second, %n
  ret
}
"""


@pytest.mark.parametrize(("distance", "barriers"), [(256, 0), (0, 0), (255, 1)])
def test_bytes_of_conditions_are_at_the_addresses_of_conditions(distance, barriers):
    """A frontend stores conditions through pointers to bytes."""
    module = parse(CONDITIONS.replace("DISTANCE", str(distance)))
    done = run_pipeline(module, target("sm_90"), Options(), None)
    ops = done.stages["barriers"].kernel().ops
    assert sum(op.mnemonic == "gpu.barrier" for op in ops) == barriers
    results = []
    for launch in (interpret, SimtExecutor().launch):
        results.append(np.zeros(512, bool))
        launch(module, "k", 1, [results[-1], np.linspace(0, 1, 256, dtype=np.float32)])
    np.testing.assert_array_equal(*results)


POINTERS = """tir 1.0

define kernel void @k(i32** %x, i32* %other, i32* %out, i32* %y) {num_warps = 4} {
entry:
  %i = make_range i32<256>
  %xs = splat i32**<256> %x
  %p = getelementptr i32**<256> %xs, %i
  %os = splat i32*<256> %other
  %o = getelementptr i32*<256> %os, %i
  %to = splat i32*<256> %out
  %w = getelementptr i32*<256> %to, %i
  store %p, %w
  %r = sub i32<256> 255, %i
  %q = getelementptr i32**<256> %xs, %r
  %odd = and i32<256> %i, 1
  %m, _ = icmp (i1<256>, i1<256>) %odd, 0 {predicate = eq}
  %v = load i32*<256> %q, %m, %o
  %n = load i32<256> %v
  %ys = splat i32*<256> %y
  %z = getelementptr i32*<256> %ys, %i
  store %z, %n
  ret
}
"""


def test_a_load_that_may_give_another_pointer_waits_for_what_it_reads():
    """The load has two pointers among its operands: the one that it reads through, and one that is
    a value, through which nothing is written."""
    expected = np.where(np.arange(256) % 2 == 0, 255 - np.arange(256), 1000 + np.arange(256))
    for launch in (interpret, SimtExecutor().launch):
        x, y = np.zeros(256, np.uint64), np.zeros(256, np.int32)
        other, out = (np.arange(n, n + 256, dtype=np.int32) for n in (1000, 0))
        launch(parse(POINTERS), "k", 1, [x, other, out, y])
        assert (y == expected).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("writes", [63, 64, 65, 70])
def test_many_writes_are_known_to_later_reads(writes):
    """More accesses of one tensor than are kept apart: each is of elements of its own, read last
    where one of the first wrote, by other threads."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
        i = b.arange(64)
        for n in range(writes):
            (x + (i + 64 * n)).store((y + (i + 64 * n)).load())
        last = (x + (i + 64 * writes)).load()
        (y + i).store((x + (63 - i)).load() + last)
    module = b.module()
    array = np.arange(2 * 64 * (writes + 1)).astype(np.float32).reshape(2, -1)
    expected, actual = ([row.copy() for row in array] for _ in range(2))
    interpret(module, "k", (1,), expected)
    SimtExecutor().launch(module, "k", (1,), actual, num_warps=4)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("exponential", [False, True])
def test_loads_that_need_no_barrier_are_before_it(exponential):
    """Each row is added to the reverse of the previous sums: these are read after the barrier, the
    rows before it, unless their load follows other arithmetic."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32), n=I32) as (x, y, n):
        at = b.arange(256)
        with b.for_(1, n) as row:
            before = (y + ((row - 1) * 256 + 255 - at)).load()
            before = before.exp() if exponential else before
            (y + (row * 256 + at)).store((x + (row * 256 + at)).load() + before)
    module = b.module()
    done = run_pipeline(module, target("sm_90"), Options(num_warps=4), None)
    kernel = done.stages["barriers"].kernel()
    memory = [op.mnemonic for op in kernel.ops if op.mnemonic in ("load", "gpu.barrier", "store")]
    moved = ["load", "gpu.barrier", "load", "store"]
    assert memory == (["gpu.barrier", "load", "load", "store"] if exponential else moved)
    sources = underlying_pointers(kernel)
    read = [sources[op.inputs[0]] for op in kernel.ops if op.mnemonic == "load"]
    assert [v.name for v in read] == (["y", "x"] if exponential else ["x", "y"])
    rows = np.arange(5 * 256, dtype=np.float32).reshape(5, 256) % 7
    expected, actual = np.zeros((5, 256), np.float32), np.zeros((5, 256), np.float32)
    interpret(module, "k", (1,), {"x": rows, "y": expected, "n": 5})
    SimtExecutor().launch(module, "k", (1,), {"x": rows, "y": actual, "n": 5}, num_warps=4)
    assert np.allclose(actual, expected) if exponential else np.array_equal(actual, expected)


def halves(mask, distance=100, tile=256):
    """Store two parts of a row, `apart` elements from each other, where `mask` says."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
        at = b.arange(tile)
        chosen = mask(b, at)
        value = (y + at).load(chosen, 0.0)
        (x + at).store(value, chosen)
        (x + (at + distance)).store(value * 2.0, chosen)
    return b


@pytest.mark.parametrize(
    ("mask", "barriers"),
    [
        (lambda b, i: i < 100, []),
        (lambda b, i: i <= 99, []),
        (lambda b, i: (i * 2 < 200) & (i < 200), []),
        (lambda b, i: i < 101, ["block"]),
        (lambda b, i: i * 2 < 202, ["block"]),
        (lambda b, i: i - 5 < 95, ["block"]),  # a negative number is below all of them
        (lambda b, i: i > 100, ["block"]),
        (lambda b, i: i < b.program_id(), ["block"]),
        (lambda b, i: b.sext(i, tile(I64, (256,))) - (1 << 32) < 100, ["block"]),
        (lambda b, i: i < 0, []),
    ],
)
def test_masks_keep_parts_of_a_row_disjoint(mask, barriers):
    b = halves(mask)
    assert barrier_scopes(b) == barriers
    arguments = [np.zeros(512, np.float32), np.arange(256, dtype=np.float32)]
    actual = [a.copy() for a in arguments]
    interpret(b.module(), "k", 1, arguments)
    SimtExecutor().launch(b.module(), "k", 1, actual, num_warps=4)
    np.testing.assert_array_equal(actual[0], arguments[0])


@pytest.mark.parametrize(("bound", "barriers"), [(8, []), (9, ["block"])])
def test_masks_keep_blocks_of_columns_disjoint(bound, barriers):
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        rows, columns = b.arange(16)[:, None], b.arange(16)[None, :]
        inside = (columns < bound) & (rows < 16)
        at = rows * 16 + columns
        value = b.full((16, 16), 1.0, F32)
        (x + at).store(value, inside)
        (x + (at + 8)).store(value * 2.0, inside)
    assert barrier_scopes(b) == barriers


CHAINS = {
    "table": lambda y, t, i: (t + i).load(),
    "table of table": lambda y, t, i: (t + (t + i).load()).load(),
    "table of stored": lambda y, t, i: (t + (y + i).load()).load(),
    "table of table of stored": lambda y, t, i: (t + (t + (y + i).load()).load()).load(),
    "table of stored plus table": lambda y, t, i: (t + ((y + i).load() ^ (t + i).load())).load(),
    "stored of table": lambda y, t, i: (y + (t + i).load()).load(),
}
"""What is loaded after elements of `y` are stored, by way of a table that nothing writes."""


@pytest.mark.parametrize("chain", CHAINS)
def test_loads_before_a_barrier_need_nothing_that_comes_after_it(chain):
    """Loads of the table may be in flight while threads wait, but none at an address that is read
    from what other threads store."""
    b = Builder()
    with b.kernel(
        "k", y=arg(pointer(I32), noalias=True), t=arg(pointer(I32), noalias=True, readonly=True),
        z=arg(pointer(I32), noalias=True),
    ) as (y, t, z):  # fmt: skip
        i = b.arange(128)
        (y + (127 - i)).store(i)
        (z + i).store(CHAINS[chain](y, t, i))
    module, table = b.module(), np.random.default_rng(0).permutation(128).astype(np.int32)
    stored, results = np.zeros(128, np.int32), [np.zeros(128, np.int32) for _ in range(2)]
    interpret(module, "k", (1,), [stored.copy(), table, results[0]])
    SimtExecutor().launch(module, "k", (1,), [stored.copy(), table, results[1]], num_warps=4)
    assert (results[0] == results[1]).all()
    done = run_pipeline(module, target("sm_90"), Options(num_warps=4), None)
    ops = [op.mnemonic for op in done.stages["barriers"].kernel().ops]
    if "stored" in chain:
        ahead = ops[: ops.index("gpu.barrier")].count("load")
        assert ahead == (chain in ("table of stored plus table", "stored of table"))
