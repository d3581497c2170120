"""Decoding of programs from lists of small numbers.

A program is a list of statements, each of four small numbers: a kind, and three digits that select
its operands. Every list is a valid program: a statement that does not fit is skipped, and an open
loop is closed at the end. Operands are referred to by their age, so that removing a statement
leaves the rest almost unchanged, as shrinking requires. Smaller numbers stand for simpler
statements.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import accumulate
from typing import TypeAlias

import attrs

from tileir.effects import EXACT, ROUNDED
from tileir.ir import Block, Function, Module, Parameter, ParameterAttributes
from tileir.ops.control import Return
from tileir.ops.program import ProgramId
from tileir.testing import gather_statements, loop_statements, memory_statements, shapes, under
from tileir.testing.access import (
    COUNTERS,
    REGION,
    Base,
    count,
    load_input,
    load_scratch,
    size_of,
    store_output,
    store_scratch,
)
from tileir.testing.control import Frame, close, escape, open_branch, open_loop
from tileir.testing.elementwise import elementwise, elementwise_ops
from tileir.testing.guarded import PredicateForm
from tileir.testing.helpers import call, combine, helper
from tileir.testing.large_tile_statements import WIDE, wide
from tileir.testing.policies import PLAIN, GenerationPolicy
from tileir.testing.program import ParameterBuffer, Program
from tileir.testing.reduction_statements import predicated_pair, reduce, row_max, scan
from tileir.testing.writer import Writer
from tileir.types import F16, F32, I32, Scalar, element_of, pointer
from tileir.values import Value

Statement: TypeAlias = tuple[int, int, int, int]
"""A kind, and three digits."""

DIGITS = 16
"""Digits are 0 to 15."""
DEEPEST = 3
"""The maximal nesting of loops and branches."""
RESULTS = 4
"""Values that a program stores at its end."""
NUMBER = 48
"""The value of the kernel's integer argument."""
INSTANCES = 3
"""Program instances."""

_Plain: TypeAlias = Callable[[Writer, int, int, int], None]
_Write: TypeAlias = Callable[["_DecodedProgram", int, int, int], None]


def _plain(write: _Plain) -> _Write:
    return lambda program, a, b, c: write(program.writer, a, b, c)


def _row_max(program: _DecodedProgram, rows: int, at: int, variant: int) -> None:
    """Write the statement `row_max` on rows that are loaded from an input."""
    shape = ((4, 8), (8, 8), (4, 16))[rows % 3]
    load_input(program.writer, program.inputs["x"], shape, 16 * at)
    value = program.writer.tile_of(F32, lambda s: s == shape, 0)
    if value is not None:
        row_max(program.writer, value, variant)


_OTHERS: dict[str, _Write] = {
    "range": _plain(shapes.make_range),
    "splat": _plain(shapes.splat),
    "reshape": _plain(shapes.reshape),
    "expand": _plain(shapes.expand),
    "transpose": _plain(shapes.transpose),
    "join": _plain(shapes.join_split),
    "concatenate": _plain(shapes.concatenate),
    "extract": _plain(shapes.extract),
    "reduce": _plain(reduce),
    "scan": _plain(scan),
    "predicated": _plain(predicated_pair),
    "call": _plain(call),
    "combine": _plain(combine),
    "gather": _plain(gather_statements.gather),
    "insert": _plain(gather_statements.insert),
    "extract-moving": _plain(gather_statements.extract_moving),
    "histogram": _plain(gather_statements.histogram),
    "dot": _plain(gather_statements.dot),
    "load": lambda p, a, b, c: load_input(p.writer, p.inputs["xk"[c % 2]], _shape(a), 16 * b),
    "load-scalar": lambda p, _, b, c: load_input(p.writer, p.inputs["xk"[c % 2]], (), 16 * b),
    "store": lambda p, a, b, c: store_scratch(p.writer, p.inputs["st"[c // 4 % 2]], a, b, c),
    "reload": lambda p, a, b, c: load_scratch(
        p.writer, p.inputs["st"[c // 4 % 2]], _shape(a), b, c
    ),
    "count": lambda p, a, b, _: count(p.writer, p.inputs["c"], a, b),
    "poison": lambda p, a, b, c: gather_statements.poison(p.writer, p.inputs["x"], a, b, c),
    "walk": lambda p, a, b, c: loop_statements.walk(p.writer, p.inputs["x"], a, b, c),
    "matmul-loop": lambda p, a, b, _: loop_statements.matmul_loop(
        p.writer, p.inputs["h"], p.inputs["g"], a, b
    ),
    "wide": lambda p, a, b, c: wide(p.writer, p.inputs["x"], p.inputs["w"], a, b, c),
    "bounded": lambda p, a, b, _: loop_statements.bounded_row(
        p.writer, p.inputs["x"], p.inputs["w"], a, b
    ),
    "close": lambda p, *_: close(p.writer, p.frames.pop()) if p.frames else None,
    "loop": lambda p, a, b, c: p.open(open_loop, a, b, c),
    "choice": lambda p, a, b, c: p.open(open_branch, a, b, c),
    "escape": lambda p, a, b, _: escape(p.writer, p.frames, a, b),
    "reduce-under": _plain(under.reduce_under),
    "scan-under": _plain(under.scan_under),
    "histogram-under": _plain(under.histogram_under),
    "op-under": _plain(under.op_under),
    "memory-under": lambda p, a, b, c: under.memory_under(
        p.writer, p.inputs["st"[c // 4 % 2]], p.inputs["c"], a, b, c
    ),
    "promise": lambda p, a, b, _: p.promise(a, b),
    "taps": lambda p, a, b, c: loop_statements.taps(p.writer, p.inputs["x"], a, b, c),
    "row-max": _row_max,
    "load-block": lambda p, a, b, c: memory_statements.load_block(
        p.writer, p.inputs["xkst"[c % 4]], a, b, c // 4 + a
    ),
    "store-block": lambda p, a, b, c: memory_statements.store_block(
        p.writer, p.inputs["st"[c % 2]], a, b, c // 2
    ),
    "update": lambda p, a, b, c: memory_statements.update(
        p.writer, p.inputs["st"[a // 4 % 2]], a, b, c
    ),
    "write-only": lambda p, a, b, c: memory_statements.write_only(
        p.writer, p.inputs[memory_statements.WRITE_ONLY], a, b, c
    ),
    "read-only": lambda p, a, b, c: memory_statements.read_only(
        p.writer, p.inputs["xk"[a // 8]], a, b, c
    ),
    "atomic": lambda p, a, b, c: (
        memory_statements.read_atomically if a % 2 else memory_statements.write_atomically
    )(p.writer, p.inputs["st"[a // 2 % 2]], b, a // 4, c),
    "corners": _plain(memory_statements.corners),
    "claim": _plain(memory_statements.true_condition),
    "number": lambda p, *_: p.number(),
    "guarded": lambda p, a, b, c: p.predicate(a, b, c),
}
"""Statements besides single elementwise ops."""

_INPUTS = {
    "x": F32,
    "k": I32,
    "s": F32,
    "t": I32,
    "c": I32,
    "h": F16,
    "g": F16,
    "w": F32,
    memory_statements.WRITE_ONLY: I32,
}
_LENGTHS = {
    "c": COUNTERS,
    **dict.fromkeys("hg", loop_statements.OPERAND_SIZE * INSTANCES),
    "w": WIDE * INSTANCES,
}
_WRITTEN = "stcwv"
_OPERANDS = "hg"


@attrs.frozen
class Freedom:
    """The properties that a program may have: undefined lanes, and float accumulations in any
    order."""

    undef: bool = False
    inexact: bool = True


_PLAIN = Freedom()


@attrs.define
class _DecodedProgram:
    """A program that is being decoded."""

    writer: Writer
    inputs: dict[str, Base]
    instance: Value
    frames: list[Frame] = attrs.field(factory=list)
    promises: dict[str, ParameterAttributes] = attrs.field(factory=dict)
    """Attributes of pointers that differ from the usual ones."""
    pending: PredicateForm | None = None
    """The predicate of the next statement."""
    multiple: int = 1
    """`multiple_of` of the integer argument."""
    argument: Value | None = None
    """The integer argument, if a statement uses it."""

    def predicate(self, kind: int, digit: int, how: int) -> None:
        """Put the ops of the next statement under a predicate."""
        self.pending = PredicateForm(kind, digit, how)

    def number(self) -> None:
        """Make the integer argument of the kernel live."""
        if self.argument is None:
            self.argument = Value(I32, "n")
        self.writer.live.append(self.argument)

    def promise(self, variant: int, digit: int) -> None:
        """Change the attributes of an input: alignment, noalias, and readonly and writeonly where
        they are true; and `multiple_of` of the integer argument."""
        name = [*self.inputs][variant % len(self.inputs)]
        self.promises[name] = ParameterAttributes(
            aligned=(0, 2, 4, 16)[digit % 4],
            readonly=name not in _WRITTEN and digit & 4 != 0,
            writeonly=name == memory_statements.WRITE_ONLY and digit & 4 != 0,
            noalias=digit & 8 != 0,
        )
        self.multiple = (1, 4, 16, 48)[digit % 4]

    def open(self, opener: Callable[..., Frame], a: int, b: int, c: int) -> None:
        """Open a loop or branch, unless the nesting is too deep."""
        if len(self.frames) < DEEPEST:
            self.frames.append(opener(self.writer, a, b, c))


@cache
def names() -> tuple[str, ...]:
    """The names of the kinds of statements, by number: mnemonics, then the names of other
    statements."""
    return (*[cls.mnemonic for cls in elementwise_ops()], *_OTHERS)


def kinds() -> int:
    """The number of kinds of statements."""
    return len(names())


def decode(statements: Iterable[Statement], freedom: Freedom = _PLAIN) -> Program:
    """Return the program that `statements` encode. Every list of numbers is a valid program."""
    writer = Writer(undef=freedom.undef, inexact=freedom.inexact)
    instance = writer.emit(ProgramId(axis=0)).result
    inputs = {n: Base(Value(pointer(e), n), instance) for n, e in _INPUTS.items()}
    load_input(writer, inputs["k"], shapes.SHAPES[0], 0)
    load_input(writer, inputs["x"], shapes.SHAPES[0], 0)
    program = _DecodedProgram(writer, inputs, instance)
    for statement in statements:
        _write(program, statement)
    while program.frames:
        close(writer, program.frames.pop())
    return _finish(program)


def sample(seed: int, length: int = 20, policy: GenerationPolicy = PLAIN) -> Program:
    """Return a program of `length` random statements; the same seed yields the same program."""
    return decode(*draw(seed, length, policy))


def draw(
    seed: int, length: int = 20, policy: GenerationPolicy = PLAIN
) -> tuple[list[Statement], Freedom]:
    """Return the statements that `sample` decodes, for callers that shrink them."""
    chance = random.Random(seed)
    undef = policy.undef > 0 and chance.random() < policy.undef
    result = list(random_statements(chance, length, policy))
    return result, Freedom(undef=undef, inexact=not policy.exact)


def single(name: str, seed: int) -> Program:
    """Return a program with one statement `name`: the mnemonic of an elementwise op, or another one
    of `names`.

    Raises ValueError for any other name.
    """
    if name not in names():
        raise ValueError(f"no statement is called {name!r}; there are: {', '.join(names())}")
    a, b, c = random.Random(seed).choices(range(DIGITS), k=3)
    return decode([(names().index(name), a, b, c)])


def random_statements(
    chance: random.Random, length: int, policy: GenerationPolicy = PLAIN
) -> Iterator[Statement]:
    """Return `length` random statements."""
    weights = _weights(policy)
    for kind in chance.choices(range(len(weights)), cum_weights=weights, k=length):
        a, b, c = (chance.randrange(DIGITS) for _ in range(3))
        yield kind, a, b, c


@cache
def _weights(policy: GenerationPolicy) -> list[float]:
    """Cumulative weights of the kinds of statements."""
    ops = {cls.mnemonic: cls for cls in elementwise_ops()}
    kinds = (EXACT, ROUNDED)
    inexact = {n for n, cls in ops.items() if policy.exact and cls.numerics not in kinds}
    result = (0.0 if n in inexact else policy.weight(n, n in _OTHERS) for n in names())
    return list(accumulate(result))


def _write(program: _DecodedProgram, statement: Statement) -> None:
    """Write one statement: an elementwise op for a small kind, another statement for a larger
    one."""
    kind, a, b, c = statement
    ops, kind = elementwise_ops(), kind % kinds()
    program.writer.guard, program.pending = program.pending, None
    if kind < len(ops):
        elementwise(program.writer, ops[kind], (a, b, c))
    else:
        _OTHERS[names()[kind]](program, a, b, c)
    program.writer.guard = None


def _shape(digit: int) -> tuple[int, ...]:
    return shapes.SHAPES[digit % len(shapes.SHAPES)]


def _finish(program: _DecodedProgram) -> Program:
    """Store the newest values, each to its own buffer, and return."""
    writer = program.writer
    results = [v for v in reversed(writer.live) if _storable(v)][:RESULTS]
    buffers = {name: _memory(name, writer.inexact) for name in _INPUTS}
    pointers = [base.pointer for base in program.inputs.values()]
    for number, value in enumerate(results):
        name = f"o{number}"
        pointers.append(store_output(writer, name, program.instance, value))
        element = element_of(value.type)
        assert isinstance(element, Scalar)
        buffers[name] = ParameterBuffer(element, size_of(value.type) * INSTANCES, output=True)
    writer.finish(Return())
    if writer.leaves:
        writer.blocks["early"] = Block("early", ops=(Return(),))
    parameters = tuple(Parameter(p, _parameter_attributes(program, p)) for p in pointers)
    if program.argument is not None:
        promise = ParameterAttributes(multiple_of=program.multiple)
        parameters = (*parameters, Parameter(program.argument, promise))
    kernel = Function("generated", parameters, blocks=writer.blocks, kernel=True)
    functions = {"generated": kernel, **{name: helper(name) for name in writer.called}}
    return Program(
        Module(functions), "generated", (INSTANCES,), buffers, undef=writer.undef,
        numbers={} if program.argument is None else {"n": NUMBER},
    )  # fmt: skip


def _parameter_attributes(program: _DecodedProgram, pointer: Value) -> ParameterAttributes:
    """The attributes of a pointer parameter: those that a statement selected, or else alignment and
    noalias. Buffers of results are write-only in programs that contain such statements."""
    name, noalias = str(pointer.name), program.writer.promised
    promise = program.promises.get(name)
    if promise is not None:
        return attrs.evolve(promise, noalias=promise.noalias and noalias)
    only = bool(program.promises) and name not in program.inputs
    return ParameterAttributes(aligned=16, noalias=noalias, writeonly=only)


def _memory(name: str, inexact: bool) -> ParameterBuffer:
    length, is_whole = _LENGTHS.get(name, REGION * INSTANCES), name in _OPERANDS and not inexact
    return ParameterBuffer(_INPUTS[name], length, output=name in _WRITTEN, whole=is_whole)


def _storable(value: Value) -> bool:
    element = element_of(value.type)
    return isinstance(element, Scalar) and element.bits not in (4,)
