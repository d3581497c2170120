"""`tt.map_elementwise`: a function of elements, executed on tiles of them. If elements take
different branches, both are executed, and each element selects the values of its own branch. A
loop ends with its last element; an element that ends earlier keeps its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import attrs

from tileir.builder import Builder, Expr
from tileir.frontends.ttir.errors import UnsupportedStatement
from tileir.frontends.ttir.frame import RegionReader, rule
from tileir.frontends.ttir.nodes import Operation, Region, Section
from tileir.frontends.ttir.types import value_type
from tileir.types import I1, Pointer, Scalar, Type, shape_of, tile

_TRAPPING = frozenset({
    "arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.ceildivsi",
    "arith.ceildivui", "arith.floordivsi", "arith.shli", "arith.shrsi", "arith.shrui",
})  # fmt: skip
"""Ops that trap for some second operands: elements that do not reach them have 1 instead."""

_BRANCHES = frozenset({"cf.br", "cf.cond_br"})


@rule("tt.map_elementwise")
def _map_elementwise(f: RegionReader, s: Operation) -> list[Expr]:
    values, pack = f.operands(s), s.integer("pack", 1)
    parts = [part for x in values for part in _unpack(f.b, x, pack)]
    names = [n for n, _ in s.regions[0].parameters]
    inner = _TileRegion(f.b, f.inside(names, parts).values, shape=shape_of(parts[0].type))
    results, shape = inner.results_of(s.regions[0]), shape_of(values[0].type)
    packs = [results[i : i + pack] for i in range(0, len(results), pack)]
    return [_pack(f.b, each).reshape(*shape) if pack > 1 else each[0] for each in packs]


def _unpack(b: Builder, x: Expr, pack: int) -> list[Expr]:
    """Elements in packs of `pack` neighbours: the first elements of all packs, then the second
    ones, and so on."""
    count = math.prod(shape_of(x.type))
    if pack < 1 or pack & (pack - 1) or count % pack:
        raise UnsupportedStatement(f"{count} elements are not divisible by the pack size {pack}")
    if pack == 1:
        return [x]
    halves = b.split(x.reshape(count // 2, 2))
    pairs = zip(*(_unpack(b, half, pack // 2) for half in halves), strict=True)
    return [part for pair in pairs for part in pair]


def _pack(b: Builder, parts: Sequence[Expr]) -> Expr:
    """The inverse of `_unpack`."""
    if len(parts) == 1:
        return parts[0]
    even, odd = _pack(b, parts[::2]), _pack(b, parts[1::2])
    return b.join(even, odd).reshape(2 * math.prod(shape_of(even.type)))


@attrs.define(eq=False)
class _TileRegion(RegionReader):
    """A region on elements, executed on tiles of `shape`. Values from outside are the same for
    every element."""

    shape: tuple[int, ...] = ()
    here: Expr | None = None
    """The mask of elements that execute the region; None if all do."""

    def value(self, name: str) -> Expr:
        """The value of that name, for every element. Raises UnsupportedStatement."""
        return self._spread(RegionReader.value(self, name))

    def _spread(self, x: Expr) -> Expr:
        return x if shape_of(x.type) else self.b.splat(x, _tile_type(x.type, self.shape))

    def _part(
        self, here: Expr | None, names: Sequence[str] = (), values: Sequence[Expr] = ()
    ) -> _TileRegion:
        """A reader for a nested region that the elements `here` execute."""
        return _TileRegion(self.b, self.inside(names, values).values, shape=self.shape, here=here)

    def _only(self, here: Expr | None, condition: Expr) -> Expr:
        """The elements of `here` for which `condition` is true."""
        return condition if here is None else self.b.select(here, condition, False)

    def results_of(self, region: Region) -> list[Expr]:
        """The results of a region of one or several blocks, each entered from earlier ones."""
        first, *later_sections = region.sections
        if not later_sections:
            *body, last = first.statements
            self._carry_out(body)
            return self.operands(last)
        ways: dict[str, list[tuple[Expr, list[Expr]]]] = {s.label: [] for s in later_sections}
        always = self.here
        if always is None:
            always = self.b.constant(tile(I1, self.shape), True)
        result: list[tuple[Expr, list[Expr]]] = []
        for section in region.sections:
            here = always if section is first else self._enter(section, ways.pop(section.label))
            self.here = self.here if section is first else here
            result += self._through(section, here, ways)
        return self._merge(result)

    def _enter(self, section: Section, ways: Sequence[tuple[Expr, list[Expr]]]) -> Expr:
        """The mask of elements that enter a block; its parameters get their values."""
        if not ways:
            raise UnsupportedStatement("a loop in tt.map_elementwise is not supported")
        names = [n for n, _ in section.parameters]
        self.values.update(zip(names, self._merge(ways), strict=True))
        here = ways[0][0]
        for other, _ in ways[1:]:
            here = self.b.or_(here, other)
        return here

    def _through(
        self, section: Section, here: Expr, ways: dict[str, list[tuple[Expr, list[Expr]]]]
    ) -> list[tuple[Expr, list[Expr]]]:
        """Execute a block for the elements `here`, and add their successors to `ways`. Returns the
        region's results for these elements if the block ends the region."""
        *body, last = section.statements
        self._carry_out(body)
        if last.name not in _BRANCHES:
            return [(here, self.operands(last))]
        targets: list[tuple[str, list[Expr]]] = []
        for token in last.head:
            if token.kind == "block":
                targets.append((token.text, []))
            elif token.kind == "value" and targets:
                targets[-1][1].append(self.value(token.text))
        masks = [here]
        if last.name == "cf.cond_br":
            condition = self.value(last.operands[0])
            true = self.b.constant(condition.type, True)
            other = self.b.xor(condition, true)
            masks = [self.b.and_(here, condition), self.b.and_(here, other)]
        for (label, arguments), mask in zip(targets, masks, strict=True):
            if label not in ways:
                raise UnsupportedStatement("a loop in tt.map_elementwise is not supported")
            ways[label].append((mask, arguments))
        return []

    def _merge(self, ways: Sequence[tuple[Expr, list[Expr]]]) -> list[Expr]:
        """The values of several paths, merged element by element."""
        if not ways:
            raise UnsupportedStatement("the region of tt.map_elementwise returns nothing")
        exprs = ways[0][1]
        for mask, arguments in ways[1:]:
            pairs = zip(arguments, exprs, strict=True)
            exprs = [y if x is y else self.b.select(mask, x, y) for x, y in pairs]
        return exprs

    def _carry_out(self, statements: Sequence[Operation]) -> None:
        for s in statements:
            structured = _STRUCTURED.get(s.name)
            if structured is None:
                self.run([self._lift(s)])
                continue
            results = self._translate(s, partial(structured, self))
            names = [n if k == 1 else f"{n}#{i}" for n, k in s.results for i in range(k)]
            self.values.update(zip(names, results, strict=True))

    def if_results(self, s: Operation) -> list[Expr]:
        """The results of `scf.if` for each element."""
        condition = self.value(s.operands[0])
        other = self.b.xor(condition, self.b.constant(condition.type, True))
        then, otherwise = (
            self._part(self._only(self.here, mask)).results_of(region)
            for mask, region in zip((condition, other), s.regions, strict=True)
        )
        pairs = zip(then, otherwise, strict=True)
        return [x if x is y else self.b.select(condition, x, y) for x, y in pairs]

    def for_results(self, s: Operation) -> list[Expr]:
        """The results of `scf.for`: a loop of the program if its bounds are the same for every
        element, else one of each element."""
        bounds = [RegionReader.value(self, n) for n in s.operands[1:4]]
        names, begun = [s.operands[0], *s.operands[4::2]], map(self.value, s.operands[5::2])
        if any(shape_of(x.type) for x in bounds):
            return self._own_for(s, [self._spread(x) for x in bounds], list(begun))
        b, (low, high, step), exprs = self.b, bounds, list(begun)
        loop = b.block("loop", low.type, *(x.type for x in exprs))
        body, done = b.block("body"), b.block("done")
        b.br(loop(low, *exprs))
        b.enter(loop)
        index, *state = loop.parameters
        b.cond_br(b.icmp(index, high, predicate=_relation(s))[0], body, done)
        b.enter(body)
        following = self._part(self.here, names, [index, *state]).results_of(s.regions[0])
        b.br(loop(b.add(index, step), *following))
        b.enter(done)
        return state

    def _own_for(self, s: Operation, bounds: Sequence[Expr], begun: Sequence[Expr]) -> list[Expr]:
        """The results of a `scf.for` whose bounds differ between elements."""
        b, (low, high, step) = self.b, bounds
        names = [s.operands[0], *s.operands[4::2]]

        def goes_on(index: Expr) -> Expr:
            return b.icmp(index, high, predicate=_relation(s))[0]

        def body(here: Expr, index: Expr, *state: Expr) -> tuple[Expr, list[Expr]]:
            following = self._part(here, names, [index, *state]).results_of(s.regions[0])
            index = b.add(index, step)
            return goes_on(index), [index, *following]

        return self._loop(goes_on(low), [low, *begun], body)[1:]

    def while_results(self, s: Operation) -> list[Expr]:
        """The results of `scf.while` for each element."""
        before, after = s.regions
        names = [n for n, _ in after.parameters]

        def condition(here: Expr | None, state: Sequence[Expr]) -> tuple[Expr, list[Expr]]:
            going, *passed = self._part(here, s.operands[::2], state).results_of(before)
            return going, passed

        def body(here: Expr, *passed: Expr) -> tuple[Expr, list[Expr]]:
            return condition(here, self._part(here, names, passed).results_of(after))

        going, passed = condition(self.here, [self.value(n) for n in s.operands[1::2]])
        return self._loop(going, passed, body)

    def _loop(
        self,
        going: Expr,
        begun: Sequence[Expr],
        body: Callable[..., tuple[Expr, list[Expr]]],
    ) -> list[Expr]:
        """The values of a loop that each element leaves on its own. `body` computes from the mask
        of the elements in the loop, and their values, which of them go on, and the next values."""
        b = self.b
        loop = b.block("loop", going.type, *(x.type for x in begun))
        inside, done = b.block("body"), b.block("done")
        b.br(loop(self._only(self.here, going), *begun))
        b.enter(loop)
        here, *state = loop.parameters
        b.cond_br(here.max(), inside, done)
        b.enter(inside)
        going, following = body(here, *state)
        kept = [b.select(here, x, y) for x, y in zip(following, state, strict=True)]
        b.br(loop(self._only(here, going), *kept))
        b.enter(done)
        return state

    def _lift(self, s: Operation) -> Operation:
        """A statement on elements as one on tiles of them."""
        if s.regions:
            raise UnsupportedStatement(f"{s.name} in tt.map_elementwise is not supported")
        if self.here is not None and s.name in _TRAPPING:
            s = self._guard(s, self.here)
        operand_types, result_types = (
            [_tile_type(value_type(t), self.shape) for t in kinds]
            for kinds in (s.operand_types, s.result_types)
        )
        return attrs.evolve(s, operand_types=operand_types, result_types=result_types)

    def _guard(self, s: Operation, here: Expr) -> Operation:
        """A statement whose second operand is 1 for elements outside of `here`."""
        second = max(i for i, token in enumerate(s.head) if token.kind == "value")
        name = s.head[second].text
        safe = f"{name} here"
        self.values[safe] = self.b.select(here, self.value(name), 1)
        head = list(s.head)
        head[second] = attrs.evolve(head[second], text=safe)
        return attrs.evolve(s, head=head)


_STRUCTURED: dict[str, Callable[[_TileRegion, Operation], list[Expr]]] = {
    "scf.if": _TileRegion.if_results,
    "scf.for": _TileRegion.for_results,
    "scf.while": _TileRegion.while_results,
}
"""Statements with regions, by the method that executes them."""


def _relation(s: Operation) -> Literal["ult", "slt"]:
    """The relation of the index of `scf.for` and its upper bound while the loop goes on."""
    return "ult" if "unsigned" in s.words else "slt"


def _tile_type(kind: Type, shape: tuple[int, ...]) -> Type:
    if not isinstance(kind, (Scalar, Pointer)):
        raise UnsupportedStatement(f"the region of tt.map_elementwise has a {kind}")
    return tile(kind, shape)
