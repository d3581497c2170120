"""A law: an equation that holds wherever its left side has a meaning, and its use as a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs

from tileir.errors import VerifyError
from tileir.field import FieldKind
from tileir.op import Op, lookup
from tileir.rewrite import Answer, Replace, Rule, Walk
from tileir.signature import Pattern
from tileir.types import I1, Scalar, Type, element_of
from tileir.values import Constant, Operand, constant, encode

if TYPE_CHECKING:
    from tileir.passes.laws.terms import ApplyTerm, Name, Term

Bound: TypeAlias = dict[str, Operand]
"""The bindings of the names of a law."""

PERMISSIONS = frozenset({"overflow", "fast"})
"""Attributes that only permit: a law matches any value of them, and the new ops do not have
them."""


@attrs.frozen
class Law:
    """Wherever `left` matches, and `where` holds of what its names stand for, `right` has the
    same value, or one where `left` has none. `let` computes further literals of the right side
    from those matched, None where there is no such number."""

    text: str
    where: Callable[[Bound], bool] | None = None
    let: Mapping[str, Callable[[Bound], int | float | None]] = attrs.field(factory=dict)
    left: ApplyTerm = attrs.field(init=False)
    right: tuple[Term, ...] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        from tileir.passes.laws.terms import parse_equation

        left, right = parse_equation(self.text)
        object.__setattr__(self, "left", left)
        object.__setattr__(self, "right", right)

    def __call__(self, op: Op, walk: Walk) -> Answer | None:
        """The replacement of `op`; None if the law does not apply. A single op that defines all
        results takes over the result values, so that their uses do not change."""
        bound = self.match(op, walk)
        answer = None if bound is None else self.build(op, bound, walk)
        if answer is not None and answer.ops and answer.ops[-1].results == answer.values:
            return answer.ops
        return answer

    def match(self, op: Op, walk: Walk) -> Bound | None:
        """The bindings of the names if `op` matches the left side."""
        for arguments in _orders(self.left, type(op)):
            bound: Bound = {}
            if _match_op(self.left, arguments, op, bound, walk) and (
                self.where is None or self.where(bound)
            ):
                return bound
        return None

    def build(self, op: Op, bound: Bound, walk: Walk) -> Replace | None:
        """The right side in place of `op`; None where no ops of these types can form it."""
        for name, compute in self.let.items():
            number = compute(bound)
            if number is None:
                return None
            bound[name] = constant(op.results[0].type, number)
        builder = LawBuilder(bound, walk.definition, op)
        try:
            values = tuple(
                builder.operand(term, result.type)
                for term, result in zip(self.right, op.results, strict=True)
            )
        except VerifyError:
            return None
        fits = all(v.type is r.type for v, r in zip(values, op.results, strict=True))
        return Replace(values, tuple(builder.ops)) if fits else None


class LawBuilder:
    """Makes the ops of a term; they carry the predicate of the op they stand for."""

    def __init__(
        self, bound: Bound, definition: Callable[[Operand], Op | None], model: Op | None = None
    ) -> None:
        self.bound = bound
        self.definition = definition
        self.model = model
        self.ops: list[Op] = []

    def operand(self, term: Term, type: Type | None) -> Operand:
        """The operand `term` stands for, adding what it needs to `ops`. `type` is that of
        literals, and of ops that state their result."""
        from tileir.passes.laws.terms import Name, NumberTerm

        if isinstance(term, NumberTerm):
            return constant(cast(Type, type), term.value)
        if isinstance(term, Name):
            operand = self.bound[term.name]
            if term.index is None:
                return operand
            result = next((op for op in self.ops if operand in op.results), None)
            return cast(Op, result or self.definition(operand)).results[term.index]
        op = self._apply(term, type)
        self.ops.append(op)
        if term.name is not None:
            self.bound[term.name] = op.results[term.index]
        return op.results[term.index]

    def _apply(self, term: ApplyTerm, type: Type | None) -> Op:
        from tileir.passes.laws.terms import NumberTerm

        cls = cast("type[Op]", lookup(term.mnemonic))
        types: dict[str, Type] = {}
        if type is not None and cls.results_ and cls.elementwise:
            cls.results_[term.index].match(type, types)
        arguments: dict[str, Any] = {}
        fields = [f for f in cls.schema if f.kind not in (FieldKind.ATTRIBUTE,)]
        terms = list(term.arguments)
        literals: list[tuple[Any, Term]] = []
        for field in fields:
            if field.kind is FieldKind.RESULT_TYPE:
                arguments[field.name] = type
            elif field.kind in (FieldKind.VARIADIC, FieldKind.PAIRS):
                arguments[field.name] = tuple(self.operand(t, type) for t in terms)
            elif not terms:
                break
            elif isinstance(terms[0], NumberTerm):
                literals.append((field, terms.pop(0)))
            else:
                arguments[field.name] = value = self.operand(terms.pop(0), None)
                cast(Pattern, field.pattern).match(value.type, types)
        for field, literal in literals:
            arguments[field.name] = self.operand(literal, field.pattern.build(types))
        arguments.update(self.attributes(term, cls))
        return cls(**arguments, predicate=self._predicate(cls, type))

    def attributes(self, term: ApplyTerm, cls: type[Op]) -> dict[str, Any]:
        """The attributes that `term` states, by field name."""
        return {
            f.name: _attribute(f.attribute, term.attributes[f.spelling])
            for f in cls.fields(FieldKind.ATTRIBUTE)
            if term.attributes.get(f.spelling) is not None
        }

    def _predicate(self, cls: type[Op], type: Type | None) -> Operand | None:
        predicate = None if self.model is None else self.model.predicate
        if predicate is None or not cls.predicable:
            return None
        return predicate


def rules(
    laws: Iterable[Law],
    first: Iterable[Rule] = (),
    by_mnemonic: Mapping[str, Rule] | None = None,
) -> Rule:
    """One rule that tries `first` on every op, then the rule in `by_mnemonic`, then the laws of the
    mnemonic, in order."""
    find = _Finder(laws).find
    general, special = tuple(first), by_mnemonic or {}

    def rule(op: Op, walk: Walk) -> Answer:
        for attempt in general:
            answer = attempt(op, walk)
            if answer is not op:
                return answer
        attempt = special.get(op.mnemonic)
        answer = op if attempt is None else attempt(op, walk)
        if answer is not op:
            return answer
        for law in find(op, walk):
            result = law(op, walk)
            if result is not None:
                return result
        return op

    return rule


class _Finder:
    """Laws by the mnemonic of their left side and by what defines its operands."""

    def __init__(self, laws: Iterable[Law]) -> None:
        self.by_mnemonic: dict[str, tuple[Law, ...]] = {}
        for law in laws:
            before = self.by_mnemonic.get(law.left.mnemonic, ())
            self.by_mnemonic[law.left.mnemonic] = (*before, law)
        self.by_operands: dict[tuple[str, ...], tuple[Law, ...]] = {}

    def find(self, op: Op, walk: Walk) -> tuple[Law, ...]:
        """The laws that may match `op`, in the order of the table."""
        laws = self.by_mnemonic.get(op.mnemonic, ())
        inputs = op.inputs
        if not laws or len(inputs) > _INDEXED:
            return laws
        key = (op.mnemonic, *[_kind(operand, walk) for operand in inputs])
        by_operand = self.by_operands.get(key)
        if by_operand is None:
            by_operand = tuple(law for law in laws if _may_match(law, type(op), key[1:]))
            self.by_operands[key] = by_operand
        return by_operand


_INDEXED = 3
_LITERAL = "literal"


def _kind(operand: Operand, walk: Walk) -> str:
    """The mnemonic of what defines `operand`, or that it is a literal."""
    if type(operand) is Constant:
        return _LITERAL
    op = walk.definition(operand)
    return "" if op is None else op.mnemonic


def _may_match(law: Law, cls: type[Op], kinds: tuple[str, ...]) -> bool:
    for arguments in _orders(law.left, cls):
        if len(arguments) == len(kinds) and all(map(_may_be, arguments, kinds)):
            return True
    return False


def _may_be(term: Term, kind: str) -> bool:
    from tileir.passes.laws.terms import ApplyTerm

    if isinstance(term, ApplyTerm):
        return kind == term.mnemonic
    return kind == _LITERAL or not _is_literal(term)


def _orders(left: ApplyTerm, cls: type[Op]) -> tuple[tuple[Term, ...], ...]:
    """The arguments in the orders worth matching: literals stand on the right already."""
    arguments = left.arguments
    if not cls.commutative or len(arguments) < 2 or _is_literal(arguments[1]):
        return (arguments,)
    return (arguments, (arguments[1], arguments[0], *arguments[2:]))


def _is_literal(term: Term) -> bool:
    from tileir.passes.laws.terms import Name, NumberTerm

    return isinstance(term, NumberTerm) or (isinstance(term, Name) and term.literal)


def _match_op(
    term: ApplyTerm, arguments: tuple[Term, ...], op: Op, bound: Bound, walk: Walk
) -> bool:
    inputs = op.inputs
    if len(inputs) != len(arguments):
        return False
    for part, operand in zip(arguments, inputs, strict=True):
        if not _match(part, operand, bound, walk):
            return False
    return _match_attributes(term, op)


def _match(term: Term, operand: Operand, bound: Bound, walk: Walk) -> bool:
    from tileir.passes.laws.terms import Name, NumberTerm

    if isinstance(term, NumberTerm):
        return type(operand) is Constant and operand.bits == _bits(term.value, operand.type)
    if isinstance(term, Name):
        return _match_name(term, operand, bound, walk)
    op = walk.definition(operand)
    if op is None or op.mnemonic != term.mnemonic or op.results[term.index] is not operand:
        return False
    for arguments in _orders(term, type(op)):
        trial = dict(bound)
        if _match_op(term, arguments, op, trial, walk):
            bound.update(trial)
            if term.name is not None:
                bound[term.name] = operand
            return True
    return False


def _match_name(term: Name, operand: Operand, bound: Bound, walk: Walk) -> bool:
    if term.index is not None:
        op = walk.definition(bound.get(term.name))
        return op is not None and op.results[term.index] is operand
    if term.literal and type(operand) is not Constant:
        return False
    binding = bound.setdefault(term.name, operand)
    return binding is operand or (type(operand) is Constant and binding == operand)


def _match_attributes(term: ApplyTerm, op: Op) -> bool:
    for field in type(op).fields(FieldKind.ATTRIBUTE):
        if field.name in PERMISSIONS:
            continue
        attribute = term.attributes.get(field.spelling, ...)
        if attribute is None or (attribute is ... and field.default is attrs.NOTHING):
            continue
        value = getattr(op, field.name)
        expected = field.default if attribute is ... else _attribute(field.attribute, attribute)
        if value != expected:
            return False
    return True


def _attribute(kind: Any, word: Any) -> Any:
    if kind.enum is not None:
        return kind.enum(word)
    return {"true": True, "false": False}.get(word, word) if kind.form == "bool" else int(word)


def _bits(value: int | float | bool, type: Type) -> int | None:
    element = element_of(type)
    if not isinstance(element, Scalar):
        return 0 if _is_zero(value) else None
    fits = element.is_float is isinstance(value, float)
    if not fits or (isinstance(value, bool) and element is not I1):
        return None
    try:
        return encode(element, value)
    except OverflowError:
        return None


def _is_zero(value: int | float | bool) -> bool:
    """Whether `value` is the integer 0, the null pointer's address."""
    return type(value) is int and value == 0
