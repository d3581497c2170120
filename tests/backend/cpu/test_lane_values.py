"""Values of all lanes in every form (a number, one for all lanes, linear, a vector): what the SIMT
simulator says."""

from itertools import product

import numpy as np
import pytest

from tileir.backend.codegen.thread_operands import AccessAttributes
from tileir.backend.cpu.lane_values import AffineValue
from tileir.types import BF16, F16, F32, F64, I1, I8, I16, I32, I64

from .native import address, agree, native

INPUTS = (I8, I16, I32, I64, F16, BF16, F32, F64)
"""Types of which 64 numbers are in 512 bytes: lanes read one each, and all of them another."""
INTEGERS, FLOATS = (I32, I64), (F16, BF16, F32, F64)
BINARY = ("add", "sub", "mul", "shl", "and", "or", "xor", "lshr", "ashr")
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
MASKS = (0, 1, 31, 32, 63, -32, -1, 5, 96)
OUT = 1 << 12
"""Where results begin, in bytes."""


def numbers(seed):
    """Bytes that contain numbers to read, and space for results."""
    random = np.random.default_rng(seed)
    buffer = random.integers(0, 256, 1 << 15, np.uint8)
    for at, element in zip(range(0, OUT, 512), INPUTS, strict=False):
        if element in FLOATS:
            kind = {F16: np.float16, F32: np.float32, F64: np.float64}.get(element)
            values = random.uniform(-9, 9, 64)
            raw = values.astype(np.float32).view(np.uint32) >> 16 if kind is None else None
            stored = raw.astype(np.uint16) if kind is None else values.astype(kind)
            buffer[at : at + stored.nbytes] = stored.view(np.uint8)
    return buffer


class Program:
    """A random snippet of code over values of many types, written with any thread."""

    def __init__(self, seed):
        self.seed = seed

    def __call__(self, thread, base):
        random = np.random.default_rng(self.seed)
        pool = {I1: []}
        for i, element in enumerate(INPUTS):
            own, shared = self._read(thread, base, element, 512 * i)
            pool[element] = [own, shared, *self._written_out(thread, element, random)]
        lane = thread.lane()
        pool[I32] += [lane, thread.binary("add", I32, lane, pool[I32][1])]
        pool[I64] += [thread.convert("sext", I32, I64, lane)]
        results = [self._step(thread, random, pool) for _ in range(30)]
        at = OUT
        for element, value in [*results, *((I1, x) for x in pool[I1])]:
            self._write(thread, base, element, value, at)
            at += 32 * 8

    def _read(self, thread, base, element, at):
        start = address(thread, I8, base, thread.integer(at))
        (own,) = thread.load_global(element, 1, address(thread, element, start, thread.lane()),
                                    None, None, AccessAttributes())  # fmt: skip
        far = address(thread, element, start, thread.integer(40))
        (shared,) = thread.load_global(element, 1, far, None, None, AccessAttributes())
        return own, shared

    def _written_out(self, thread, element, random):
        if element in FLOATS:
            return [thread.constant(element, 0)]
        chosen = random.choice(MASKS, 3).tolist()
        return [thread.constant(element, int(n) & (1 << element.bits) - 1) for n in chosen]

    def _write(self, thread, base, element, value, at):
        if element is I1:
            element, value = I8, thread.convert("zext", I1, I8, value)
        start = address(thread, I8, base, thread.integer(at))
        to = address(thread, element, start, thread.lane())
        thread.store_global(element, to, [value], None, AccessAttributes())

    def _step(self, thread, random, pool):
        def pick(element):
            return pool[element][random.integers(len(pool[element]))]

        def mask(element):
            if pool[I1] and random.integers(2):
                return pick(I1)
            predicate = PREDICATES[random.integers(len(PREDICATES))]
            pool[I1].append(thread.compare(predicate, element, pick(element), pick(element)))
            return pool[I1][-1]

        element = INTEGERS[random.integers(2)]
        kind = random.integers(9)
        if kind < 4:
            name = BINARY[random.integers(len(BINARY))]
            other = pick(element)
            if name in ("shl", "lshr", "ashr"):
                other = thread.constant(element, int(random.integers(element.bits)))
            computed = thread.binary(name, element, pick(element), other)
        elif kind == 4:
            computed = thread.select(element, mask(element), pick(element), pick(element))
        elif kind == 5:
            element = (I64, I32)[int(element is I64)]
            source = I32 if element is I64 else I64
            name = ("zext", "sext")[random.integers(2)] if element is I64 else "trunc"
            computed = thread.convert(name, source, element, pick(source))
        elif kind == 6:
            element = FLOATS[random.integers(4)]
            source = INTEGERS[random.integers(2)]
            computed = thread.convert(
                ("sitofp", "uitofp")[random.integers(2)], source, element, pick(source)
            )
        elif kind == 7:
            element = FLOATS[random.integers(4)]
            computed = thread.intrinsic("copysign", element, pick(element), pick(element))
        else:
            element = (I1, I32, I64, F16, F32)[random.integers(5)]
            value = mask(I32) if element is I1 else pick(element)
            if random.integers(2):
                computed = thread.shuffle_xor(element, value, int(random.integers(32)))
            else:
                computed = thread.shuffle_index(element, value, pick(I32))
        pool[element].append(computed)
        return element, computed


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(60))
def test_random_code_computes_what_threads_do(seed):
    agree(Program(seed), numbers(seed))


ACCESS = AccessAttributes()


@pytest.mark.parametrize("source", [I32, I64])
@pytest.mark.parametrize("result", [I1, I8, I16, I32])
def test_indices_are_cut_to_any_width(source, result):
    """What is the same distance apart in each lane need not be in fewer bits."""

    def body(thread, base):
        (start,) = thread.load_global(source, 1, base, None, None, ACCESS)
        lane = thread.lane() if source is I32 else thread.convert("sext", I32, I64, thread.lane())
        value = thread.binary("mul", source, lane, thread.constant(source, 37))
        value = thread.binary("add", source, value, start)
        if result is not source:
            value = thread.convert("trunc", source, result, value)
        stored = thread.convert("zext", I1, I8, value) if result is I1 else value
        kind = I8 if result is I1 else result
        to = row(thread, kind, address(thread, I8, base, thread.integer(8)), 1)
        thread.store_global(kind, to, [stored], None, ACCESS)

    agree(body, np.random.default_rng(0).integers(0, 256, 8 + 32 * 4, np.uint8))


def row(thread, element, base, count):
    return address(
        thread, element, base, thread.binary("mul", I32, thread.lane(), thread.integer(count))
    )


def looked_at(thread, element, base, count):
    """A row, as far as only running tells."""
    lanes = thread.shuffle_index(I32, thread.lane(), thread.lane())
    return address(thread, element, base, thread.binary("mul", I32, lanes, thread.integer(count)))


def reversed_row(thread, element, base, count):
    lane = thread.binary("sub", I32, thread.integer(31), thread.lane())
    return address(thread, element, base, thread.binary("mul", I32, lane, thread.integer(count)))


def spread(thread, element, base, count):
    lane = thread.binary("mul", I32, thread.lane(), thread.integer(2 * count))
    return address(thread, element, base, lane)


def permuted_row(thread, element, base, count):
    lane = thread.binary("xor", I32, thread.lane(), thread.integer(5))
    return address(thread, element, base, thread.binary("mul", I32, lane, thread.integer(count)))


def one(thread, element, base, count):
    return address(thread, element, base, thread.integer(3 * count))


def some(thread, base):
    return thread.compare("ne", I32, thread.binary("and", I32, thread.lane(), thread.integer(3)),
                          thread.integer(1))  # fmt: skip


def uniform_condition(thread, base):
    """The same for all lanes, and known when the code runs."""
    (value,) = thread.load_global(I32, 1, base, None, None, ACCESS)
    return thread.compare("ne", I32, value, thread.integer(0))


MASKED = {
    "all": lambda thread, base: None,
    "none": lambda thread, base: thread.constant(I1, 0),
    "some": some,
    "told": uniform_condition,
}
PLACES = (row, looked_at, reversed_row, spread, permuted_row, one)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("mask", MASKED)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("element", "count"), [(I8, 1), (I32, 1), (F16, 4), (F32, 2), (I64, 2)])
def test_accesses(element, count, place, mask):
    """Elements next to each other are copied, by lanes that a mask has."""

    def body(thread, base):
        active = MASKED[mask](thread, base)
        source = address(thread, I8, base, thread.integer(1024))
        alike = mask in ("all", "none", "told")
        others = None if alike else [thread.constant(element, 0)] * count
        pointer = place(thread, element, source, count)
        values = thread.load_global(element, count, pointer, active, others, ACCESS)
        to = address(thread, I8, base, thread.integer(OUT))
        thread.store_global(element, row(thread, element, to, count), values, None, ACCESS)
        if place is not one:
            back = place(thread, element, address(thread, I8, base, thread.integer(2 * OUT)), count)
            thread.store_global(element, back, values, active, ACCESS)

    agree(body, numbers(count))


@pytest.mark.parametrize("mask", [None, "some", "first"])
def test_of_lanes_that_store_to_one_address_the_last_writes(mask):
    def body(thread, base):
        active = None if mask is None else some(thread, base)
        if mask == "first":
            active = thread.compare("slt", I32, thread.lane(), thread.integer(7))
        to = address(thread, I32, base, thread.integer(100))
        value = thread.binary("mul", I32, thread.lane(), thread.lane())
        thread.store_global(I32, to, [value], active, ACCESS)

    buffer = np.zeros(1024, np.int32)
    native(body, buffer)
    assert buffer[100] == {None: 31, "some": 31, "first": 6}[mask] ** 2


@pytest.mark.parametrize("number", [0, 1])
def test_branches_give_zeros_where_they_are_not_taken(number):
    def body(thread, base):
        (value,) = thread.load_global(I32, 1, base, None, None, ACCESS)
        condition = thread.compare("eq", I32, value, thread.integer(number))

        def inside():
            return [thread.binary("add", I32, value, thread.integer(6)),
                    thread.binary("add", I32, thread.lane(), value)]  # fmt: skip

        result = thread.when(condition, (I32, I32), inside)
        to = address(thread, I32, base, thread.integer(64))
        thread.store_global(I32, row(thread, I32, to, 2), result, None, ACCESS)

    buffer, _ = agree(body, np.ones(512, np.int32))
    assert buffer[64] == 7 * number


@pytest.mark.parametrize("word", ["s32", "u32", "s64", "u64"])
def test_upper_halves_of_multiplications(word):
    """Of operands that lanes have, and that they share."""
    element = I32 if word.endswith("32") else I64
    size = element.bytes

    def body(thread, base):
        (a,) = thread.load_global(element, 1, row(thread, element, base, 1), None, None, ACCESS)
        (b,) = thread.load_global(element, 1, base, None, None, ACCESS)
        for i, pair in enumerate([(a, b), (b, a), (a, a), (b, b)]):
            high = thread.instruction(
                f"mul.hi.{word} $0, $1, $2;", element, [(element, x) for x in pair]
            )
            to = address(thread, element, base, thread.integer(64 + 32 * i))
            thread.store_global(element, row(thread, element, to, 1), [high], None, ACCESS)

    random = np.random.default_rng(size)
    buffer = random.integers(-(1 << 31), 1 << 31, 1024).astype(np.int64).view(f"i{size}")
    if size == 8:
        buffer *= 0x9E3779B9
    before = buffer.copy()
    native(body, buffer)
    unsigned = word[0] == "u"
    values = [int(x) % (1 << 8 * size) if unsigned else int(x) for x in before[:32]]
    for i, expected in enumerate(
        [[v * values[0] for v in values]] * 2 + [[v * v for v in values], [values[0] ** 2] * 32]
    ):
        results = [int(x) % (1 << 8 * size) for x in buffer[64 + 32 * i :][:32]]
        assert results == [(v >> 8 * size) % (1 << 8 * size) for v in expected]


def shift_by_lane(thread, number, by):
    scaled = thread.binary("mul", I32, thread.lane(), thread.integer(by))
    return thread.binary("sub", I32, thread.integer(number), scaled)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", ["zext", "sext"])
@pytest.mark.parametrize("by", [-3, -2, -1, 1, 2, 3])
@pytest.mark.parametrize("number", [-1, 5, 31, 50, 80])
def test_lanes_in_steps_widen(name, by, number):
    """Some of them below zero, some not."""

    def body(thread, base):
        wide = thread.convert(name, I32, I64, shift_by_lane(thread, number, by))
        thread.store_global(I64, row(thread, I64, base, 1), [wide], None, ACCESS)

    agree(body, np.zeros(32, np.int64))


@pytest.mark.parametrize("by", [-3, -1, 1, 5])
def test_lanes_in_steps_widen_at_the_ends_of_the_range(by):
    """A number that is read from memory, so near an end that the last lanes wrap or do not."""
    last = 31 * by
    ends = [e + d - (last if near else 0) for e in (-(1 << 31), (1 << 31) - 1)
            for near in (False, True) for d in (-1, 0, 1)]  # fmt: skip
    ends = [(e + (1 << 31)) % (1 << 32) - (1 << 31) for e in ends]

    def body(thread, base):
        for i in range(len(ends)):
            at = address(thread, I32, base, thread.integer(i))
            (number,) = thread.load_global(I32, 1, at, None, None, ACCESS)
            scaled = thread.binary("mul", I32, thread.lane(), thread.integer(by))
            narrow = thread.binary("add", I32, number, scaled)
            wide = thread.convert("sext", I32, I64, narrow)
            to = address(thread, I64, base, thread.integer(16 + 32 * i))
            thread.store_global(I64, row(thread, I64, to, 1), [wide], None, ACCESS)

    buffer = np.zeros(16 + 32 * len(ends), np.int64)
    buffer[: (len(ends) + 1) // 2].view(np.int32)[: len(ends)] = ends
    agree(body, buffer)


@pytest.mark.parametrize("element", [I32, I64])
@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "shl", "and", "or", "xor"])
def test_literals_that_change_nothing_or_everything(element, number, name):
    """An operation of a literal, first or second, and what all lanes share or each has."""
    if name == "shl" and number < 0:
        return

    def body(thread, base):
        literal = thread.constant(element, number & (1 << element.bits) - 1)
        own_at = row(thread, element, base, 1)
        (own,) = thread.load_global(element, 1, own_at, None, None, ACCESS)
        (shared,) = thread.load_global(element, 1, base, None, None, ACCESS)
        lane = thread.lane()
        lane = lane if element is I32 else thread.convert("sext", I32, I64, lane)
        at = 32
        for value in (own, shared, lane, thread.binary("add", element, lane, shared)):
            for pair in ((value, literal), (literal, value)):
                if name == "shl" and pair[0] is literal:
                    continue
                computed = thread.binary(name, element, *pair)
                to = address(thread, element, base, thread.integer(at))
                thread.store_global(element, row(thread, element, to, 1), [computed], None, ACCESS)
                at += 32

    kind = np.int32 if element is I32 else np.int64
    ends = np.iinfo(kind)
    buffer = np.random.default_rng(1).integers(ends.min, ends.max, 32 * 9, kind)
    agree(body, buffer)


LINEAR = {
    "all of the lane": lambda t, n: t.binary("and", I32, t.lane(), t.integer(31)),
    "more than the lane": lambda t, n: t.binary("and", I32, t.lane(), t.integer(-1)),
    "nothing of the lane": lambda t, n: t.binary("and", I32, t.lane(), t.integer(96)),
    "the warp": lambda t, n: t.binary("lshr", I32, t.lane(), t.integer(5)),
    "scaled": lambda t, n: t.binary("mul", I32, t.lane(), t.integer(12)),
    "moved": lambda t, n: t.binary("add", I32, n, t.lane()),
    "turned": lambda t, n: t.binary("sub", I32, n, t.lane()),
    "doubled": lambda t, n: t.binary("add", I32, t.lane(), t.lane()),
    "narrowed": lambda t, n: t.convert("trunc", I64, I32, t.convert("sext", I32, I64, t.lane())),
}


@pytest.mark.parametrize("name", LINEAR)
def test_what_stays_linear(name):
    """So that lanes next to each other are one access."""

    def body(thread, base):
        (n,) = thread.load_global(I32, 1, base, None, None, ACCESS)
        value = LINEAR[name](thread, n)
        kinds.append(type(value))
        to = address(thread, I32, base, thread.integer(64))
        thread.store_global(I32, row(thread, I32, to, 1), [value], None, ACCESS)

    kinds = []
    agree(body, np.full(96, 40, np.int32))
    assert kinds[0] in (AffineValue, str)


@pytest.mark.parametrize("field", range(0, 64, 3))
def test_fields_of_the_lane(field):
    def body(thread, base):
        for i, name in enumerate(("and", "lshr", "ashr")):
            value = thread.binary(
                name, I32, thread.lane(), thread.integer(field % (32 + 32 * (not i)))
            )
            to = address(thread, I32, base, thread.integer(32 * i))
            thread.store_global(I32, row(thread, I32, to, 1), [value], None, ACCESS)

    agree(body, np.zeros(96, np.int32))


@pytest.mark.parametrize(("flags", "asks"), [("", True), ("nsw", False)])
def test_lanes_that_do_not_wrap_widen_without_a_question(flags, asks):
    def body(thread, base):
        (n,) = thread.load_global(I32, 1, base, None, None, ACCESS)
        value = thread.convert("sext", I32, I64, thread.binary("add", I32, thread.lane(), n, flags))
        to = address(thread, I64, base, thread.integer(32))
        thread.store_global(I64, row(thread, I64, to, 1), [value], None, ACCESS)

    _, text = agree(body, np.zeros(64, np.int64))
    assert ("icmp" in text.split("define void @run")[-1]) == asks


@pytest.mark.parametrize(("element", "count"), [(I32, 1), (F16, 4)])
def test_a_row_that_shows_when_code_runs_is_one_access(element, count):
    def body(thread, base):
        values = thread.load_global(
            element, count, looked_at(thread, element, base, count), None, None, ACCESS
        )
        to = address(thread, I8, base, thread.integer(OUT))
        thread.store_global(element, row(thread, element, to, count), values, None, ACCESS)

    _, text = agree(body, numbers(1))
    assert f"load <{32 * count} x i{element.bits}>" in text


RELATIONS = ("eq", "ne", *(f"{s}{r}" for s in "su" for r in ("lt", "le", "gt", "ge")))


@pytest.mark.parametrize("element", [I32, I64])
@pytest.mark.parametrize("relation", RELATIONS)
def test_comparisons_of_lanes_with_literals_are_of_their_sign(element, relation):
    """Lanes that count up or down through 0, and past the end of the type, with literals of either
    sign: what is decided while compiling is what threads compare."""
    top = 1 << (element.bits - 1)
    starts = ((0, 1), (-16, 1), (16, -1), (top - 16, 1), (-top + 16, -1))
    literals = (0, 3, -3, top - 1, -top)

    def body(thread, base):
        at = 0
        for (first, step), literal in product(starts, literals):
            lane = thread.lane()
            lane = lane if element is I32 else thread.convert("sext", I32, I64, lane)
            scaled = thread.binary("mul", element, lane, thread.constant(element, step % (2 * top)))
            value = thread.binary(
                "add", element, scaled, thread.constant(element, first % (2 * top))
            )
            other = thread.constant(element, literal % (2 * top))
            for pair in ((value, other), (other, value)):
                holds = thread.compare(relation, element, *pair)
                bits = thread.select(I8, holds, thread.constant(I8, 1), thread.constant(I8, 0))
                to = address(thread, I8, base, thread.integer(at))
                thread.store_global(I8, row(thread, I8, to, 1), [bits], None, ACCESS)
                at += 32

    agree(body, np.zeros(32 * 2 * len(starts) * len(literals), np.int8))
