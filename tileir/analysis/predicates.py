"""Relations between i1 values: implication, exclusion, complement.

A predicate is analysed as a formula over atoms: comparisons (canonical: `a > b` is `b < a`, the
second result is the negation of the first one) and opaque values, combined by `and`, `or`, `xor`
and `select`. Formulas are compared by their truth tables, so the answers are exact up to relations
between different atoms, of which none is assumed. Predicates of tiles are compared lane by lane;
each lane of a `splat` is the scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from tileir.analysis import memoize
from tileir.analysis.uses import definitions
from tileir.ir import Function
from tileir.op import Op
from tileir.types import I1, element_of
from tileir.values import Constant, Operand, Undef, Value


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class Formula:
    """`kind` is `atom` (`parts` holds it), `true`, `false`, or `not`, `and`, `or`, `xor` of
    formulas; `size` counts its nodes."""

    kind: str
    parts: tuple[Any, ...] = ()
    size: int = 1


TRUE = Formula("true")
FALSE = Formula("false")
_MOST_ATOMS = 8
_LARGEST = 64
_DEEPEST = 16


def _join(kind: str, *parts: Formula) -> Formula:
    return Formula(kind, parts, 1 + sum(p.size for p in parts))


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class Predicates:
    """Relations between the i1 values of a function; None stands for `true`."""

    origin: Mapping[Value, Op]
    formulas: dict[Value, Formula] = attrs.field(factory=dict[Value, Formula])

    def formula(self, predicate: Operand | None, depth: int = 0) -> Formula:
        """`predicate` in terms of atoms."""
        if predicate is None:
            return TRUE
        if isinstance(predicate, Constant):
            return TRUE if predicate.bits else FALSE
        if isinstance(predicate, Undef):
            return Formula("atom", (object(),))
        formula = self.formulas.get(predicate)
        if formula is None:
            if depth > _DEEPEST:
                return Formula("atom", (predicate,))
            formula = _formula_of(self, predicate, depth)
            if formula.size > _LARGEST:
                formula = Formula("atom", (predicate,))
            self.formulas[predicate] = formula
        return formula

    def implies(self, first: Operand | None, second: Operand | None) -> bool:
        """Whether `second` is true wherever `first` is."""
        return first is second or second is None or self.covers((second,), (first,))

    def exclusive(self, first: Operand | None, second: Operand | None) -> bool:
        """Whether the two are never true together."""
        return _is_false(_join("and", self.formula(first), self.formula(second)))

    def complementary(self, first: Operand | None, second: Operand | None) -> bool:
        """Whether exactly one of the two is true."""
        return _is_false(_join("not", _join("xor", self.formula(first), self.formula(second))))

    def covers(
        self, predicates: Iterable[Operand | None], within: Iterable[Operand | None] = ()
    ) -> bool:
        """Whether one of `predicates` is true wherever all of `within` are."""
        union = _join("or", *[self.formula(p) for p in predicates])
        where = [self.formula(p) for p in within]
        return _is_false(_join("and", *where, _join("not", union)))

    def comparisons(self, condition: Operand, truth: bool) -> list[tuple[Op, bool]]:
        """The comparison ops whose results follow from `condition` being `truth`, each with the
        value of its first result."""
        return _comparisons(self.origin, condition, truth, 0)


@memoize
def predicates(function: Function) -> Predicates:
    """The relations between the i1 values of `function`."""
    return Predicates(definitions(function))


def _formula_of(facts: Predicates, value: Value, depth: int) -> Formula:
    """The formula of `value`. The predicate of its op does not matter: where it is false, the value
    is undefined and may not be read."""
    op: Any = facts.origin.get(value, value)
    word = "" if op is value else op.mnemonic
    if word in ("icmp", "fcmp"):
        result = _comparison(op)
        return result if value is op.results[0] else _join("not", result)
    if word in ("and", "or", "xor"):
        return _join(word, *[facts.formula(v, depth + 1) for v in op.inputs])
    if word == "splat":
        return facts.formula(op.inputs[0], depth + 1)
    if word == "select":
        chooser, then, otherwise = (facts.formula(v, depth + 1) for v in op.inputs)
        return _join(
            "or", _join("and", chooser, then), _join("and", _join("not", chooser), otherwise)
        )
    return Formula("atom", (value,))


def _atom(*content: Any) -> Formula:
    return Formula("atom", (content,))


_SWAPPED = {"gt": "lt", "le": "ge"}
_UNORDERED = {"ult": "oge", "ule": "ogt", "ugt": "ole", "uge": "olt", "une": "oeq", "ueq": "one"}


def _comparison(op: Any) -> Formula:
    """The first result of a comparison over canonical atoms: equality, `lt` of integers,
    ordered `lt` and `le` of floats, and whether floats are ordered at all."""
    word, lhs, rhs = op.predicate_.value, op.lhs, op.rhs
    if op.mnemonic == "fcmp":
        return _float_comparison(word, lhs, rhs)
    if word in ("eq", "ne"):
        result = _atom("eq", frozenset((lhs, rhs)))
        return result if word == "eq" else _join("not", result)
    order = word[1:]
    if order in _SWAPPED:
        order, lhs, rhs = _SWAPPED[order], rhs, lhs
    result = _atom(word[0] + "lt", lhs, rhs)
    return result if order == "lt" else _join("not", result)


def _float_comparison(word: str, lhs: Operand, rhs: Operand) -> Formula:
    if word in ("true", "false"):
        return TRUE if word == "true" else FALSE
    if word in _UNORDERED:
        return _join("not", _float_comparison(_UNORDERED[word], lhs, rhs))
    if word == "uno":
        return _join("not", _float_comparison("ord", lhs, rhs))
    if word in ("oeq", "one", "ord"):
        return _atom(word, frozenset((lhs, rhs)))
    if word in ("ogt", "oge"):
        word, lhs, rhs = "ol" + word[2:], rhs, lhs
    return _atom(word, lhs, rhs)


def _is_false(formula: Formula) -> bool:
    """Whether no assignment of the atoms makes `formula` true; False where there are too many
    atoms to tell."""
    atoms = dict[Any, None]()
    _collect(formula, atoms)
    if len(atoms) > _MOST_ATOMS:
        return False
    rows = 1 << len(atoms)
    tables = {atom: _column(index, rows) for index, atom in enumerate(atoms)}
    return _table(formula, tables, (1 << rows) - 1) == 0


def _column(index: int, rows: int) -> int:
    """Truth table of atom `index`: bit r is bit `index` of r."""
    return sum(1 << r for r in range(rows) if r >> index & 1)


_COMBINE: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda _, b: ~b,
}


def _collect(formula: Formula, atoms: dict[Any, None]) -> None:
    if formula.kind == "atom":
        atoms.setdefault(formula.parts[0])
        return
    for part in formula.parts:
        _collect(part, atoms)


def _table(formula: Formula, tables: Mapping[Any, int], full: int) -> int:
    if formula.kind == "atom":
        return tables[formula.parts[0]]
    result = full if formula.kind in ("true", "and") else 0
    for part in formula.parts:
        result = _COMBINE[formula.kind](result, _table(part, tables, full))
    return full & result


def _comparisons(
    origin: Mapping[Value, Op], condition: Operand, truth: bool, depth: int
) -> list[tuple[Op, bool]]:
    op: Any = origin.get(condition) if isinstance(condition, Value) else None
    if op is None or depth > _DEEPEST:
        return []
    if op.mnemonic in ("icmp", "fcmp"):
        return [(op, truth == (condition is op.results[0]))]
    if (op.mnemonic == "and" and truth) or (op.mnemonic == "or" and not truth):
        return [c for v in op.inputs for c in _comparisons(origin, v, truth, depth + 1)]
    if op.mnemonic == "splat":
        return _comparisons(origin, op.inputs[0], truth, depth + 1)
    if op.mnemonic == "xor" and element_of(op.results[0].type) is I1:
        return _comparisons_of_xor(origin, op, truth, depth)
    return []


def _comparisons_of_xor(
    origin: Mapping[Value, Op], op: Op, truth: bool, depth: int
) -> list[tuple[Op, bool]]:
    for value, other in (op.inputs, op.inputs[::-1]):
        if isinstance(other, Constant):
            return _comparisons(origin, value, truth != bool(other.bits), depth + 1)
    return []
