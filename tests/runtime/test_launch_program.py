"""Launch programs compute what host plans say, and pass the tensor maps of the numbers given."""

import ctypes
import random
import threading

import pytest

from tests.ops.host_ops import ops_of_every_attribute
from tests.sizes import for_each
from tileir.backend.runtime import native_launcher
from tileir.backend.runtime.launch_program import (
    ELEMENT_TYPES,
    LaunchProgram,
    Opcode,
    OverlapCheck,
    Planned,
    Refused,
    SameGridAndWords,
    _Assembly,
    assemble,
)
from tileir.backend.runtime.launcher.program import MAPS, ROWS
from tileir.backend.runtime.native_launcher import Arg, ArgKind, Entry, NativeLauncher
from tileir.backend.tma.host_expressions import FORMULAS, HostOp
from tileir.backend.tma.host_plan import HostPlan, MapRecipe
from tileir.passmanager import run
from tileir.testing.kernels import attention, matmul
from tileir.types import I1, I8, I16, I32, I64, Pointer

from .tensor_maps import EDGE_KINDS, Encoder, edge_cases, expected_bytes, plan_of_edges

pytestmark = pytest.mark.skipif(
    not native_launcher.is_supported(), reason="this Python's objects are laid out otherwise"
)

_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p,
)  # fmt: skip

fresh = assemble.__wrapped__
"""A program with tables of its own."""


class Machine:
    """Launches of one program on integers: `launched` are grid, words and maps of each."""

    def __init__(self, code, words, handle=1):
        self.encoder, self.launched = Encoder(), []
        self._code, self._words_passed = code, words + code.extents
        self._callback = _LAUNCH(self._launch)
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        self.launcher = NativeLauncher(lambda *_: "slow", address, self.encoder.address)
        args = [Arg(ArgKind.INTEGER, i) for i in range(words)]
        entry = Entry(1 + words, (), args, [0] * self._words_passed, handle, 32, result="fast",
                      program=code)  # fmt: skip
        assert self.launcher.add(entry) is not None

    def __call__(self, numbers, grid=(1, 1, 1)):
        signed = [(n + (1 << 63)) % (1 << 64) - (1 << 63) for n in numbers]
        return self.launcher.function(grid, *signed)

    def _launch(self, handle, x, y, z, threads, _, __, shared, stream, words, ___):
        words_passed = [
            ctypes.c_uint64.from_address(words[i]).value for i in range(self._words_passed)
        ]
        places = [words[self._words_passed + i] for i in range(self._code.maps)]
        assert all(place % 64 == 0 for place in places)
        self.launched.append(
            ((x, y, z), words_passed, [ctypes.string_at(place, 128) for place in places])
        )
        return 0


def computing(step, kinds):
    """A machine that passes the result of a step in its first word."""
    words = tuple("i8*" if isinstance(k, Pointer) else str(k) for k in kinds)
    assembly = _Assembly(words)
    computed = assembly._step(step, [assembly.word(i) for i in range(len(words))])
    assembly.effect(Opcode.SET_WORD, computed, result=0)
    return Machine(assembly.code(LaunchProgram()), len(words))


_WIDER = frozenset(("getelementptr", "sext", "zext", "trunc", "neg", "sdiv"))
"""Ops whose operands are no bits."""


@for_each(
    ("name", "kind"),
    [(n, k) for n in sorted(FORMULAS) for k in (I1, I8, I16, I32, I64)
     if k is not I1 or n not in _WIDER],
)  # fmt: skip
def test_instructions_are_the_formulas(name, kind):
    r = random.Random(f"{name} {kind}")
    for op in ops_of_every_attribute(name, kind):
        for index in range(len(op.results)):
            step = HostOp.of(op, tuple(f"a{i}" for i in range(len(op.inputs))), index)
            machine = computing(step, [v.type for v in op.inputs])
            for _ in range(40):
                numbers = [number(r, v.type) for v in op.inputs]
                if name == "sdiv" and numbers[1] == 0:
                    continue
                assert machine(numbers) == "fast"
                env = {f"a{i}": n for i, n in enumerate(numbers)}
                expected = eval(step.text, env) % (1 << 64)
                assert machine.launched[-1][1][0] == expected, (step.text, env)


def number(r, kind):
    if isinstance(kind, Pointer):
        return r.choice([0, 16, 4096, (1 << 47) + 8, (1 << 64) - 16])
    if kind is I1:
        return r.randrange(2)
    half = 1 << kind.bits - 1
    return r.choice([-half, -half + 1, -7, -1, 0, 1, 2, 7, half - 1, r.randrange(-half, half)])


def plan_of(module, *passes):
    front = ("cse", "licm", "scalarize-pointer-steps", "infer-descriptors")
    plan = HostPlan.of(run(module, ",".join((*front, *passes, "warp-specialize"))).module.kernel())
    assert plan is not None
    return plan


MATMUL, ATTENTION = plan_of(matmul(64, 64, 32)), plan_of(attention(64, 32, 64))
WORDS = {
    "product": (MATMUL, ("f16*", "f16*", "f16*", "i32", "i32", "i32")),
    "attention": (ATTENTION, ("f16*", "f16*", "f16*", "f16*", "i32", "f32")),
}


def random_words(r, words):
    addresses = [16, 4096, 1 << 20, 1 << 40, 1 << 47, 4098, 4104]
    integers = [
        -8,
        0,
        1,
        8,
        16,
        64,
        77,
        128,
        300,
        301,
        304,
        704,
        1 << 20,
        (1 << 28) - 8,
        1 << 28,
        1 << 31,
    ]
    return [
        r.choice(addresses) if w[-1] == "*" else r.choice(integers) if w[0] == "i" else 0
        for w in words
    ]


def as_signed(numbers, words):
    return [(n + (1 << 31)) % (1 << 32) - (1 << 31) if w == "i32" else n
            for n, w in zip(numbers, words, strict=True)]  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_maps_are_those_of_the_plan(name):
    plan, words = WORDS[name]
    machine = Machine(fresh(LaunchProgram((Planned(plan),)), words), len(words))
    r, counts = random.Random(name), {"fast": 0, "slow": 0}
    for _ in range(2000):
        numbers = random_words(r, words)
        values = plan.map_values(as_signed(numbers, words))
        launches = len(machine.launched)
        counts[machine(numbers)] += 1
        assert len(machine.launched) - launches == (values is not None)
        if values is not None:
            expected = [expected_bytes(each, ELEMENT_TYPES) for each in values]
            assert machine.launched[-1][2] == expected
    assert min(counts.values()) > 50


@pytest.mark.parametrize("name", WORDS)
def test_versions_are_those_of_the_plan(name):
    """Each entry applies where the plan refuses the arguments for its reason, and only there."""
    plan, words = WORDS[name]
    r, machines = random.Random(name), {}
    for _ in range(1500):
        numbers = random_words(r, words)
        numbers_signed = as_signed(numbers, words)
        units = plan.non_tma_alignments(numbers_signed)
        refused = plan.map_values(numbers_signed) is None
        if refused and units not in machines:
            code = fresh(LaunchProgram((Refused(plan, units),)), words)
            machines[units] = Machine(code, len(words))
        for expected, machine in machines.items():
            applies = refused and expected == units
            assert machine(numbers) == ("fast" if applies else "slow"), (numbers, expected, units)
    assert None in machines and len(machines) > 3


@pytest.mark.parametrize(("element", "size", "rank", "padding"), EDGE_KINDS)
def test_maps_at_the_bounds_of_what_the_hardware_can_have(element, size, rank, padding):
    plan = plan_of_edges(element, size, rank, padding)
    words = (f"{element}*", *["i64"] * (2 * rank))
    machine = Machine(fresh(LaunchProgram((Planned(plan),)), words), len(words))
    for numbers, fits in edge_cases(size, rank):
        values = plan.map_values(numbers)
        assert (values is not None) is fits, numbers
        assert machine(numbers) == ("fast" if fits else "slow"), numbers
        if values is not None:
            assert machine.launched[-1][2] == [expected_bytes(values[0], ELEMENT_TYPES)]


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("parameter", [0, -1])
def test_versions_at_the_bounds_of_what_the_hardware_can_have(parameter, guarded):
    """With another map, which is of a parameter or of none, and a guard."""
    one = plan_of_edges("f16", 2, 2, "zero")
    other = MapRecipe("f16", 2, (64,), 0, "zero", "a5", ("a6",), (1,), parameter)
    plan = HostPlan(8, (), ("a7",) if guarded else (), (*one.maps, other))
    words, machines = ("f16*", *["i64"] * 4, "f16*", "i64", "i64"), {}
    for numbers, _ in edge_cases(2, 2):
        for more in ((64, 64, 1), (64, 0, 1), (72, 64, 1), (64, 64, 0)):
            whole = [*numbers, *more]
            units = plan.non_tma_alignments(whole)
            refused = plan.map_values(whole) is None
            if refused and units not in machines:
                code = fresh(LaunchProgram((Refused(plan, units),)), words)
                machines[units] = Machine(code, len(words))
            for expected, machine in machines.items():
                applies = refused and expected == units
                assert machine(whole) == ("fast" if applies else "slow"), (whole, expected, units)
    assert None in machines and len(machines) > 3


@for_each("seed", range(30))
def test_overlapping_memory_is_what_separations_find(seed):
    """Memory anywhere in the space of addresses, next to other memory, and empty."""
    r, places = random.Random(seed), [(0, 2), (0, 4), (2, 4)]
    pairs = tuple(r.sample(places, r.randrange(1, 4)))
    programs = [LaunchProgram((OverlapCheck(pairs, disjoint),)) for disjoint in (True, False)]
    machines = [Machine(fresh(program, ("i64",) * 6), 6) for program in programs]
    start = r.choice([0, 4096, (1 << 47) - 32, (1 << 63) - 32, (1 << 64) - 200])
    for _ in range(40):
        spans = [(start + 16 * r.randrange(8), 16 * r.randrange(4)) for _ in range(3)]
        disjoint = all(
            sum(spans[a // 2]) <= spans[b // 2][0] or sum(spans[b // 2]) <= spans[a // 2][0]
            for a, b in pairs
        )
        numbers = [n for span in spans for n in span]
        assert [m(numbers) for m in machines] == ["fast", "slow"][:: 1 if disjoint else -1]


def test_a_map_is_encoded_once_for_its_words():
    machine = Machine(fresh(LaunchProgram((Planned(MATMUL),)), WORDS["product"][1]), 6)
    numbers, encoded = [4096, 8192, 16384, 304, 304, 704], []
    for index, value in ((0, 4096), (0, 1 << 20), (0, 1 << 20), (2, 1 << 21), (3, 312), (5, 64)):
        numbers[index] = value
        before = machine.encoder.encoded
        assert machine(numbers) == "fast"
        encoded.append(machine.encoder.encoded - before)
    assert encoded == [3, 1, 0, 1, 2, 2]


def test_rows_of_the_table_are_replaced():
    machine = Machine(fresh(LaunchProgram((Planned(MATMUL),)), WORDS["product"][1]), 6)
    r = random.Random(1)
    addresses = [4096 * (1 + i) for i in range(4 * ROWS)]
    for _ in range(4000):
        numbers = [*r.sample(addresses, 3), 304, 304, 704]
        assert machine(numbers) == "fast"
        values = MATMUL.map_values(numbers)
        assert machine.launched[-1][2] == [expected_bytes(m, ELEMENT_TYPES) for m in values]


def test_a_driver_that_refuses_is_called_once_more():
    machine = Machine(fresh(LaunchProgram((Planned(MATMUL),)), WORDS["product"][1]), 6)
    numbers = [4096, 8192, 16384, 304, 304, 704]
    machine.encoder.fails = True
    assert [machine(numbers), machine(numbers)] == ["slow", "slow"] and not machine.launched
    machine.encoder.fails = False
    assert machine(numbers) == "fast"
    expected = [expected_bytes(m, ELEMENT_TYPES) for m in MATMUL.map_values(numbers)]
    assert machine.launched[-1][2] == expected


def test_threads_have_the_maps_of_their_own_numbers():
    machine = Machine(fresh(LaunchProgram((Planned(MATMUL),)), WORDS["product"][1]), 6)

    def launches(seed):
        r = random.Random(seed)
        for _ in range(300):
            assert machine([*(4096 * r.randrange(1, 400) for _ in range(3)), 304, 304, 704])

    threads = [threading.Thread(target=launches, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(machine.launched) == 8 * 300
    for _, words_passed, maps in machine.launched:
        assert maps == [expected_bytes(m, ELEMENT_TYPES) for m in MATMUL.map_values(words_passed)]


@for_each(("grid", "persistent", "blocks", "cluster", "launched_grid"), [
        ((5, 3, 2), 1, 8, (1, 1, 1), (8, 1, 1)), ((5, 1, 1), 1, 8, (1, 1, 1), (5, 1, 1)),
        ((5, 1, 1), 2, 8, (2, 1, 1), (6, 1, 1)), ((70, 70, 70), 1, 66, (2, 1, 1), (132, 1, 1)),
    ])  # fmt: skip
def test_blocks_that_work_for_many_instances(grid, persistent, blocks, cluster, launched_grid):
    """They are passed the extents of the grid."""
    plan = HostPlan(4, (), (), (), persistent)
    machine = Machine(fresh(LaunchProgram((Planned(plan, blocks),), cluster), ("i32",)), 1)
    assert machine([7], grid) == "fast"
    assert machine.launched[-1] == (launched_grid, [7, *grid], [])


def test_clusters_without_a_plan():
    machine = Machine(fresh(LaunchProgram((), (1, 4, 2)), ("i32",)), 1)
    assert machine([7], (5, 3, 2)) == "fast" and machine.launched[-1][0] == (5, 12, 4)


def test_numbers_that_a_choice_was_made_for():
    words = ("f32*", "i32", "f32", "i64", "i1")
    condition = SameGridAndWords((5, 1, 1), ((1, -3), (3, 1 << 40), (4, 1)))
    machine = Machine(fresh(LaunchProgram((condition,)), words), 5)
    assert machine([16, -3, 9, 1 << 40, 1], (5,)) == "fast"
    assert machine([32, -3, 7, 1 << 40, 1], (5,)) == "fast"
    for numbers, grid in (
        ([16, 3, 9, 1 << 40, 1], 5), ([16, -3, 9, 1 << 40, 0], 5), ([16, -3, 9, 1, 1], 5),
        ([16, -3, 9, 1 << 40, 1], 6), ([16, -3, 9, 1 << 40, 1], (5, 2)),
    ):  # fmt: skip
        assert machine(numbers, grid) == "slow"


def test_what_machine_code_cannot_do_is_left_to_python():
    recipe = MapRecipe("f16", 2, (64, 32), 2, "zero", "a0", (8, 8), (8, 1), 0)
    deep = MapRecipe("f16", 2, (1,) * 5 + (64,), 0, "zero", "a0", (8,) * 6, (8,) * 5 + (1,), 0)
    many = HostPlan(1, (), (), (recipe,) * (MAPS + 1))
    for plan in (many, HostPlan(1, (), (), (deep,))):
        assert fresh(LaunchProgram((Planned(plan),)), ("f16*",)) is None
    most = HostPlan(1, (), (), (recipe,) * MAPS)
    machine = Machine(fresh(LaunchProgram((Planned(most),)), ("f16*",)), 1)
    assert machine([4096]) == "fast" and len(machine.launched[0][2]) == MAPS
