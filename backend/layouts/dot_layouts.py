"""Layouts of the operands and results of dots.

A dot by `mma` uses the fragments of the instruction. A dot by multiply-adds gives every thread a
micro-tile of C: its rows of A and columns of B, each once, at every k (the paper's section 5.2.1).
Warps are distributed over C so that the fewest bytes are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias, cast

import attrs

from tileir.analysis.uses import arguments, definitions, passed_to, uses
from tileir.backend.layouts.anchors import DotLayoutMap
from tileir.backend.layouts.hierarchical_tiling import Nesting, nesting_of
from tileir.backend.layouts.mma import MmaInstruction, Vectors, instruction
from tileir.ir import Function
from tileir.layout import Layout, Repeat, Vector, layout
from tileir.op import Op
from tileir.ops.shape import Reshape, Trans
from tileir.types import Element, Tile, element_of, shape_of
from tileir.values import Operand, Value

_LANES_M, _LANES_N = 8, 4
"""The lanes of a warp along M and N for multiply-adds, unless the kernel states them."""


KOrder: TypeAlias = Vector
"""The order of a dot's elements along K: for each bit of the position in the fragments, lowest
first, the step along K. Higher bits keep their step."""


@attrs.frozen
class _DotShape:
    """A matmul of [.., M, K] by [.., K, N] and its distribution over warps."""

    batch: int | None
    m: int
    n: int
    k: int
    warps: Vector
    """Along the batch, M, and N."""


@attrs.frozen
class DotLayouts:
    """The layouts of a dot's operands and result. `mma` is None for multiply-adds, whose operands A
    and B have all of K in registers."""

    a: Layout
    b: Layout
    c: Layout
    mma: MmaInstruction | None
    shape: _DotShape | None = None
    """None for multiply-adds."""

    def in_order(self, order: KOrder) -> DotLayouts:
        """Return the layouts of a dot by `mma` with `order` along K."""
        assert self.mma is not None and self.shape is not None
        return _by_mma(self.shape, self.mma, order)


def k_order(mma: MmaInstruction, lanes: Sequence[int]) -> KOrder:
    """The order along K in which the two lowest bits of the lane step by `lanes`, powers of two.
    The other bits take the remaining steps; those within a word take the shortest ones."""
    bits = max(mma.k.bit_length() - 1, *(step.bit_length() for step in lanes))
    others = [1 << i for i in range(bits) if 1 << i not in lanes]
    word = mma.per_word.bit_length() - 1
    return (*others[:word], *lanes, *others[word:])


def layouts_of(
    op: Any, num_warps: int, *, rows_first: bool = False, computed: bool = False,
    nesting: Nesting | None = None, costs: Vector = (1, 1), by_rows: bool = False,
) -> DotLayouts:  # fmt: skip
    """The layouts of the dot `op`.

    `rows_first` distributes all warps along M, so that another dot can take the result as its
    operand A. With `computed`, A of `op` itself is computed from such a result. `nesting` states
    how multiply-adds divide a matrix C, `costs` the cost of an element of A and of B to each warp
    that needs it. With `by_rows`, warps are along M where the costs are equal, else along N.
    """
    a, c = shape_of(op.a.type), shape_of(op.c.type)
    batch = c[0] if len(c) == 3 else None
    mma = instruction(_element(op.a), op.precision.value)
    m, n = c[-2:]
    cut = nesting if nesting is not None and nesting.fits(c) else _usual(op.c, num_warps)
    block = (mma.m, mma.n) if mma else cut.micro
    spread = _spread(batch, (m, n), block, num_warps, costs, rows_first=rows_first, by_rows=by_rows)
    shape = _DotShape(batch, m, n, a[-1], spread)
    if mma is None:
        return _by_fma(shape, cut)
    order = _WORDS_OF_BYTES if reads_words_of_bytes(op) and not computed else ()
    return _by_mma(shape, mma, order)


_WORDS_OF_BYTES: KOrder = (1, 4, 8, 2)
"""A lane owns 4 neighbours along K, a word of memory, where the fragments of 16 bits have two
pairs."""


def reads_words_of_bytes(dot: Any) -> bool:
    """Whether the operands of a dot have 8 bits, and its instruction takes 16."""
    mma = mma_of(dot)
    return mma is not None and _element(dot.a).bits == 8 and mma.operand.bits == 16


def _usual(c: Operand, num_warps: int) -> Nesting:
    """The default nano-tile: 16 bytes of a row of C, at most 4 elements, and at most as many as
    there are for each thread: with more, warps would compute the same elements."""
    lanes = _LANES_M * _LANES_N
    each = prod(shape_of(c.type)) // (lanes * num_warps)
    width = min(4, 128 // _element(c).bits, 1 << max(1, each).bit_length() - 1)
    return Nesting((_LANES_M, _LANES_N * width), (1, width))


def _element(operand: Any) -> Element:
    return cast(Element, element_of(operand.type))


def _spread(
    batch: int | None, extents: Vector, block: Vector, num_warps: int, costs: Vector,
    *, rows_first: bool, by_rows: bool,
) -> Vector:  # fmt: skip
    """The warps along batch, M and N that read the least: they minimize m / wm + n / wn, weighted
    by the `costs` of rows and columns. Of equal ones most warps are along M for `by_rows`, else
    along N."""
    along = 1
    while batch and along * 2 <= num_warps and batch % (along * 2) == 0 and not num_warps % 2:
        along *= 2
        num_warps //= 2

    def cost(wm: int) -> tuple[int, int]:
        """Blocks of one warp, then rows and columns it needs."""
        ways = wm, num_warps // wm
        rows, columns = (
            -(-n // (size * w)) for n, size, w in zip(extents, block, ways, strict=True)
        )
        return rows * columns, rows * block[0] * costs[0] + columns * block[1] * costs[1]

    candidates = sorted(_divisors(num_warps), reverse=by_rows)
    best = min(candidates, key=cost)
    if rows_first and extents[0] >= block[0] * num_warps:
        best = num_warps
    return along, best, num_warps // best


def _divisors(n: int) -> Iterator[int]:
    return (d for d in range(1, n + 1) if n % d == 0)


def _by_mma(shape: _DotShape, mma: MmaInstruction, order: KOrder = ()) -> DotLayouts:
    k = max(mma.k, 1 << len(order))
    return DotLayouts(
        _warp_layout(shape, _neighbours_first(mma, mma.a(), order, 1), ("m", "k"), (mma.m, k)),
        _warp_layout(shape, _neighbours_first(mma, mma.b(), order, 0), ("k", "n"), (k, mma.n)),
        _warp_layout(shape, mma.c(), ("m", "n"), (mma.m, mma.n)),
        mma,
        shape,
    )


def _in_order(
    mma: MmaInstruction, atom: tuple[Vectors, Vectors], order: KOrder, k: int
) -> tuple[Vectors, Vectors]:
    """Register and lane vectors of a fragment, whose dimension `k` is K, with `order` along it: as
    many instructions as its bits count."""
    if not order:
        return atom

    def in_place(v: Vector) -> Vector:
        return tuple(order[x.bit_length() - 1] if d == k and x else x for d, x in enumerate(v))

    registers, lanes = (tuple(map(in_place, vectors)) for vectors in atom)
    more = order[mma.k.bit_length() - 1 :]
    return (*registers, *((0, x) if k else (x, 0) for x in more)), lanes


def _neighbours_first(
    mma: MmaInstruction, atom: tuple[Vectors, Vectors], order: KOrder, k: int
) -> tuple[Vectors, Vectors]:
    """`_in_order`, with neighbours along K in the first registers."""
    registers, lanes = _in_order(mma, atom, order, k)
    neighbours = [v for v in registers if 0 < v[k] < lanes[0][k]]
    return (*neighbours, *(v for v in registers if v not in neighbours)), lanes


def _by_fma(shape: _DotShape, cut: Nesting) -> DotLayouts:
    """The layouts of a dot by multiply-adds. Neighbouring lanes have different columns and read the
    same elements of A. Lanes with different rows read the same elements of B."""
    (tall, wide), (rows, columns) = cut.nano, cut.lanes
    nano = (*_bits(wide, 1, 1), *_bits(tall, 1, 0))
    along_columns, along_rows = _bits(columns, wide, 1), _bits(rows, tall, 0)
    c = _warp_layout(
        shape, (nano, (*along_columns[:1], *along_rows, *along_columns[1:])), ("m", "n"), cut.micro
    )
    return DotLayouts(*operand_layouts(c, shape.k), c, None)


def _bits(count: int, step: int, dim: int) -> tuple[Vector, ...]:
    """Vectors of rank 2 that count to `count`, a power of two, by `step` along `dim`."""
    return tuple((0, step << i) if dim else (step << i, 0) for i in range(count.bit_length() - 1))


def operand_layouts(c: Layout, k: int) -> tuple[Layout, Layout]:
    """The layouts of A and B in which threads own the elements for their elements of C, in layout
    `c`, at `k` steps of K: each element once, in registers, up to 4 neighbours along K first."""
    row, column = c.rank - 2, c.rank - 1
    a = c.slice(column).expand_dims(column)
    b = c.slice(row).expand_dims(row)
    return _repeat_along(a, column, k), _repeat_along(b, row, k)


def _repeat_along(source: Layout, dim: int, count: int) -> Layout:
    """`source`, of extent 1 along `dim`, repeated along it in registers."""
    first = min(4, count & -count)
    steps = [tuple((1 << i) * (d == dim) for d in range(source.rank)) for i in range(2)]
    low = tuple(steps[: first.bit_length() - 1])
    repeats = (*source.repeats, Repeat("register", count // first, dim))
    return layout(
        source.rank, low + source.register, source.lane, source.warp, source.block, repeats=repeats
    )


def _warp_layout(
    shape: _DotShape, atom: tuple[Any, Any], names: tuple[str, str], block: Vector
) -> Layout:
    """The layout of warps with blocks that repeat in registers. Along the dimensions of C warps own
    disjoint parts; along others the parts are replicated."""
    first = 0 if shape.batch is None else 1
    extents = {"m": shape.m, "n": shape.n, "k": shape.k}
    ways = {"m": shape.warps[1], "n": shape.warps[2], "k": 1}
    steps: list[Repeat] = []
    for i, name in enumerate(names):
        count = -(-extents[name] // (block[i] * ways[name]))
        steps.append(Repeat("register", count, first + i))
    for name in ("m", "n"):
        dim = first + names.index(name) if name in names else None
        steps.append(Repeat("warp", ways[name], dim))
    if shape.batch is not None:
        steps.append(Repeat("warp", shape.warps[0], 0))
        steps.append(Repeat("register", -(-shape.batch // shape.warps[0]), 0))
    registers, lanes = (tuple((0,) * first + v for v in vectors) for vectors in atom)
    return layout(first + 2, registers, lanes, repeats=tuple(steps))


def dot_layouts_of(function: Function, num_warps: int) -> DotLayoutMap:
    """The operand and result layouts of the dots of `function`."""
    defining_ops = definitions(function)
    incoming, nesting = arguments(function), nesting_of(function)
    chained = set(_dots_in_chains(function, defining_ops, incoming))
    reduced = {op: _reduced_axes(op, function) for op in function.ops if op.mnemonic == "dot"}
    reduces_rows = any(len(shape_of(op.results[0].type)) - 1 in reduced[op] for op in reduced)
    dots: dict[Op, DotLayouts] = {}
    memo: dict[Op, bool] = {}
    values: dict[Value, Layout] = {}
    for op in function.ops:
        if op.mnemonic == "dot":
            first = op in chained
            computed = any(_elementwise_sources(op.inputs[0], defining_ops, {}))
            layouts = dots[op] = layouts_of(
                op, num_warps, rows_first=first, computed=computed, nesting=nesting,
                costs=_costs(op, defining_ops), by_rows=reduces_rows and reduced[op] != {0},
            )  # fmt: skip
            values[op.results[0]] = layouts.c
            _assign_accumulator(op.inputs[2], layouts.c, values, defining_ops, incoming)
            sources = [list(_loads(v, defining_ops, incoming)) for v in op.inputs[:2]]
            memo[op] = layouts.mma is not None or all(sources)
            for source, kind in zip(sources, (layouts.a, layouts.b), strict=True):
                if memo[op]:
                    _claim_loads(source, kind, values)
    if not any(op.mnemonic == "gpu.wgmma_wait" for op in function.ops):
        return DotLayoutMap(dots, memo, values)
    from tileir.backend.layouts.wgmma import wgmma_layouts_of  # few kernels need it

    group_layouts, grouped = wgmma_layouts_of(function, num_warps)
    return DotLayoutMap(dots, memo, {**values, **group_layouts}, grouped)


_CONVERTED = 8
"""Instructions for an element of weights that is converted, relative to one that `ldmatrix`
reads."""


def _costs(dot: Any, defining_ops: Mapping[Value, Op]) -> Vector:
    """The costs of an element of A and of B to each warp that needs it."""
    a, b = (
        _CONVERTED if mma_of(dot) and _is_converted(v, defining_ops) else 1 for v in (dot.a, dot.b)
    )
    return a, b


def _is_converted(operand: Operand, defining_ops: Mapping[Value, Op]) -> bool:
    """Whether an operand is computed of integers, element by element, also of joined parts."""
    waiting, seen = [operand], set[Operand]()
    while waiting:
        value = waiting.pop()
        op = defining_ops.get(value) if isinstance(value, Value) else None
        if op is None or value in seen:
            continue
        seen.add(value)
        if op.elementwise and isinstance(op.results[0].type, Tile) and _makes_floats(op):
            return True
        if op.elementwise or isinstance(op, (Reshape, Trans)) or op.mnemonic == "join":
            waiting += op.inputs
    return False


def _makes_floats(op: Op) -> bool:
    """Whether an elementwise `op` converts integers to floats."""
    from tileir.ops.cast import SIToFP, UIToFP  # operands of most dots are not converted

    return isinstance(op, (SIToFP, UIToFP))


def _dots_in_chains(
    function: Function,
    defining_ops: Mapping[Value, Op],
    incoming: Mapping[Value, tuple[Operand, ...]],
) -> Iterator[Op]:
    """Yield dots whose result is, element by element, operand A of another dot; those other dots;
    and dots that continue the accumulator of either."""
    dots = [op for op in function.ops if op.mnemonic == "dot"]
    continued = {op: set(_elementwise_sources(op.inputs[2], defining_ops, incoming)) for op in dots}
    chained: dict[Op, None] = {}
    for op in dots:
        if reached := list(_elementwise_sources(op.inputs[0], defining_ops, {})):
            chained |= dict.fromkeys([op, *reached])
    waiting = list(chained)
    while waiting:
        op = waiting.pop()
        linked = [*continued[op], *(other for other in dots if op in continued[other])]
        more = [other for other in linked if other not in chained]
        chained |= dict.fromkeys(more)
        waiting += more
    yield from chained


def _reduced_axes(dot: Op, function: Function) -> set[int]:
    """The axes along which what is computed element by element from the result of `dot`, also
    through block parameters, is reduced."""
    waiting, seen, axes = [*dot.results], set[Value](), set[int]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for op in uses(function).get(value, ()):
            if op.mnemonic == "reduce":
                axes.add(cast(Any, op).axis)
            elif op.elementwise:
                waiting += op.results
            else:
                waiting += passed_to(function, op, value)
    return axes


def _elementwise_sources(
    operand: Operand,
    defining_ops: Mapping[Value, Op],
    incoming: Mapping[Value, tuple[Operand, ...]],
) -> Iterator[Op]:
    """The dots from which a value comes element by element, also through the block parameters of
    `incoming`."""
    waiting, seen = [operand], set[Operand]()
    while waiting:
        value = waiting.pop()
        if not isinstance(value, Value) or value in seen or not isinstance(value.type, Tile):
            continue
        seen.add(value)
        op = defining_ops.get(value)
        if op is None:
            waiting += incoming.get(value, ())
        elif op.mnemonic == "dot":
            yield op
        elif op.elementwise:
            waiting += op.inputs


def _assign_accumulator(
    operand: Operand,
    layout: Layout,
    values: dict[Value, Layout],
    defining_ops: Mapping[Value, Op],
    incoming: Mapping[Value, tuple[Operand, ...]],
) -> None:
    """Assign `layout` to the accumulator of a dot, through parameters and elementwise ops."""
    waiting: list[Operand] = [operand]
    while waiting:
        value = waiting.pop()
        if not isinstance(value, Value) or value in values:
            continue
        op = defining_ops.get(value)
        if op is None and value in incoming:
            values[value] = layout
            waiting += incoming[value]
        elif op is not None and op.elementwise:
            values[value] = layout
            waiting += [v for v in op.inputs if shape_of(v.type) == shape_of(value.type)]


def _loads(
    operand: Operand,
    defining_ops: Mapping[Value, Op],
    incoming: Mapping[Value, tuple[Operand, ...]],
) -> Iterator[tuple[Value, bool]]:
    """The values through which an operand comes from shared memory by ops of their own, and whether
    they are transposed; none where it may come from elsewhere."""
    waiting: list[tuple[Operand, bool]] = [(operand, False)]
    memo: dict[Value, bool] = {}
    while waiting:
        value, turned = waiting.pop()
        if not isinstance(value, Value):
            return
        if value in memo:
            continue
        op = defining_ops.get(value)
        memo[value] = turned
        if op is None and value in incoming:
            waiting += [(v, turned) for v in incoming[value]]
        elif op is not None and op.mnemonic == "trans":
            del memo[value]
            waiting.append((op.inputs[0], not turned))
        elif op is None or op.mnemonic != "gpu.local_load":
            return
    yield from memo.items()


def _claim_loads(
    source: list[tuple[Value, bool]], layout: Layout, values: dict[Value, Layout]
) -> None:
    """Load an operand from shared memory in the layout that the dot requires."""
    for value, turned in source:
        values.setdefault(value, layout.transpose((1, 0)) if turned else layout)


def dots_in_elements(operand: Operand, defining_ops: Mapping[Value, Op]) -> Iterator[Op]:
    """The dots of whose results `operand` is computed element by element."""
    return _elementwise_sources(operand, defining_ops, {})


def mma_of(dot: Any) -> MmaInstruction | None:
    """The instruction of a dot; None if it is computed by multiply-adds."""
    return instruction(_element(dot.a), dot.precision.value)
