"""`tt.map_elementwise`: a function of elements, executed on tiles of them. If elements take
different branches, both are executed, and each element selects the values of its own branch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from tileir.builder import Builder, Expr
from tileir.frontends.ttir.errors import UnsupportedStatement
from tileir.frontends.ttir.frame import RegionReader, rule
from tileir.frontends.ttir.nodes import Operation, Region, Section
from tileir.frontends.ttir.types import value_type
from tileir.types import I1, Pointer, Scalar, Type, shape_of, tile

_DIVISIONS = frozenset({
    "arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.ceildivsi",
    "arith.ceildivui", "arith.floordivsi",
})  # fmt: skip
"""Ops that must not be computed for elements that do not reach them."""

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
    every element. `guarded` if only some elements execute it."""

    shape: tuple[int, ...] = ()
    guarded: bool = False

    def value(self, name: str) -> Expr:
        """The value of that name, for every element. Raises UnsupportedStatement."""
        value = RegionReader.value(self, name)
        if shape_of(value.type):
            return value
        return self.b.splat(value, _tile_type(value.type, self.shape))

    def results_of(self, region: Region) -> list[Expr]:
        """The results of a region of one or several blocks, each entered from earlier ones."""
        first, *later_sections = region.sections
        if not later_sections:
            *body, last = first.statements
            self._carry_out(body)
            return self.operands(last)
        ways: dict[str, list[tuple[Expr, list[Expr]]]] = {s.label: [] for s in later_sections}
        always = self.b.constant(tile(I1, self.shape), True)
        result: list[tuple[Expr, list[Expr]]] = []
        for section in region.sections:
            here = always if section is first else self._enter(section, ways.pop(section.label))
            result += self._through(section, here, ways)
            self.guarded = True
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
            if s.name == "scf.if":
                names = [n if k == 1 else f"{n}#{i}" for n, k in s.results for i in range(k)]
                self.values.update(zip(names, self._select_results(s), strict=True))
            else:
                self.run([self._lift(s)])

    def _select_results(self, s: Operation) -> list[Expr]:
        """The results of `scf.if` for each element."""
        condition = self.value(s.operands[0])
        then, otherwise = (
            _TileRegion(self.b, self.inside().values, shape=self.shape, guarded=True).results_of(
                region
            )
            for region in s.regions
        )
        pairs = zip(then, otherwise, strict=True)
        return [x if x is y else self.b.select(condition, x, y) for x, y in pairs]

    def _lift(self, s: Operation) -> Operation:
        """A statement on elements as one on tiles of them."""
        if s.regions:
            raise UnsupportedStatement(f"{s.name} in tt.map_elementwise is not supported")
        if self.guarded and s.name in _DIVISIONS:
            raise UnsupportedStatement(
                f"{s.name} in a branch of tt.map_elementwise is not supported"
            )
        types = (
            [_tile_type(value_type(t), self.shape) for t in kinds]
            for kinds in (s.operand_types, s.result_types)
        )
        operand_types, result_types = types
        return attrs.evolve(s, operand_types=operand_types, result_types=result_types)


def _tile_type(kind: Type, shape: tuple[int, ...]) -> Type:
    if not isinstance(kind, (Scalar, Pointer)):
        raise UnsupportedStatement(f"the region of tt.map_elementwise has a {kind}")
    return tile(kind, shape)
