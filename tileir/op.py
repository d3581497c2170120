"""Ops: each one is a frozen class, and everything else is derived from its fields.

    @op("add")
    class Add(Op):
        \"\"\"Sum modulo 2^n.\"\"\"

        lhs: Operand = operand(T)
        rhs: Operand = operand(T)
        results_ = (T,)

        def evaluate(self, machine, lhs, rhs):
            return machine.add(lhs, rhs)

Fields are declared in the order they are written in text, by kind: `operand`, `optional`,
`variadic`, `pairs` (values and literals), `symbol` (`@name`), `successor` (labels), `result_type`
(a type that operands do not determine) and `attribute`. The constructor of an op checks it against
its signature, calls `verify` for other rules, and computes the result types.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from inspect import get_annotations
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import attrs

from tileir.display import op_line, op_text, text_html
from tileir.effects import EXACT, ROUNDED, Effects, Numerics, ulp
from tileir.errors import Diagnostic, Location, VerifyError, verify_error
from tileir.field import (
    BOOL_ATTRIBUTE,
    FLOAT,
    INT,
    INTS,
    LAYOUT,
    REMAP,
    SEVERAL,
    STRING,
    STRINGS,
    SYMBOL,
    TYPE,
    AttributeKind,
    Field,
    FieldKind,
    Successor,
    attribute,
    check_shared_range,
    check_values,
    combiner,
    expected_attribute,
    one_of,
    operand,
    optional,
    pairs,
    reader,
    result_type,
    result_types,
    successor,
    symbol,
    type_of,
    type_reader,
    variadic,
)
from tileir.signature import Bindings, Pattern
from tileir.types import I1, Tile, Type, shape_of
from tileir.values import Operand, Value

__all__ = [
    "BOOL_ATTRIBUTE", "EXACT", "FAMILIES", "FLOAT", "INT", "INTS", "LAYOUT", "OPS", "ROUNDED",
    "STRING", "STRINGS", "SYMBOL", "TYPE", "AttributeKind", "Effects", "Field", "FieldKind",
    "Numerics", "Op", "ResultTypesError", "Successor", "all_ops", "attribute", "combiner",
    "lookup", "one_of", "op", "operand", "optional", "pairs", "result_type", "result_types",
    "successor", "symbol", "ulp", "variadic",
]  # fmt: skip

_new_value, _setattr = Value, object.__setattr__
_MEMO_LIMIT = 4096


class _Slotted(type):
    """The class of op classes, whose instances have no dictionary, and which remember the types of
    their results. A class without fields of its own has its base's constructor and needs nothing
    from attrs."""

    def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> _Slotted:
        space.setdefault("__slots__", ())
        space.setdefault("_memo", {})
        return super().__new__(cls, name, bases, space)


@attrs.frozen(eq=False, weakref_slot=False)
class Op(metaclass=_Slotted):
    """Base class of all ops. Ops are immutable; two ops are equal only if they are the same object.

    `results` are the values that the op defines. Results passed to the constructor are kept where
    their types equal the inferred types, so that a rewrite of an operand does not rename later
    values. `predicate` is written `@%p`: lanes in which it is false have no effect and an undefined
    result. `shared` is the op's shared-memory range, offset and size in bytes; the backend sets it.
    """

    results: tuple[Value, ...] = attrs.field(default=(), kw_only=True)
    predicate: Operand | None = attrs.field(default=None, kw_only=True)
    location: Location | None = attrs.field(default=None, kw_only=True)
    comments: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    shared: tuple[int, int] | None = attrs.field(default=None, kw_only=True)

    mnemonic: ClassVar[str] = ""
    since: ClassVar[tuple[int, int]]
    results_: ClassVar[tuple[Pattern, ...]] = ()
    effects_: ClassVar[Effects] = Effects.PURE
    numerics: ClassVar[Numerics] = EXACT
    commutative: ClassVar[bool] = False
    elementwise: ClassVar[bool] = False
    """Element i of every result depends on element i of the operands alone."""
    predicable: ClassVar[bool] = True
    harmless: ClassVar[tuple[str, int] | None] = None
    """The operand that can make the op trap or its result undefined, and a value with which it does
    not."""
    divides: ClassVar[bool] = False
    """An integer quotient or remainder, which takes tens of instructions unless the divisor is
    known."""
    shares_layout: ClassVar[bool] = False
    """The threads that own an element of a result own that of every operand, as in an elementwise
    op, though the result may depend on several elements of a thread."""
    multiplies_matrices: ClassVar[bool] = False
    """The result is the accumulator of a matmul."""
    is_identity: ClassVar[bool] = False
    """The only result has the elements of the first operand, each in its place."""
    moves_elements: ClassVar[bool] = False
    """Each element of the only result is an element of the first operand: moved, repeated or
    dropped, with its value kept."""
    may_be_undefined: ClassVar[bool] = False
    """Elements of the results may be undefined although all operands are defined, for another
    reason than a flag of overflow; not with `saturate`, where an op has it."""
    is_atomic: ClassVar[bool] = False
    """Each lane makes one atomic access through the first operand."""
    allocates_shared: ClassVar[bool] = False
    """The result is a buffer in shared memory, which outlives the op."""
    waits_for_threads: ClassVar[bool] = False
    """The lowering begins with a barrier for all threads of the block."""
    orders_async: ClassVar[bool] = False
    """It orders asynchronous copies, wgmma or the blocks of a cluster, and is not moved."""
    uses_cluster_rank: ClassVar[bool] = False
    """The effect or the result depends on the rank of the block in its cluster."""
    runs_on_one_thread: ClassVar[bool] = False
    """One thread can do all of it, for all threads of its role."""
    schema: ClassVar[tuple[Field, ...]] = ()
    _types: ClassVar[Callable[[Any], tuple[Any, ...]]]
    _memo: ClassVar[dict[tuple[Any, ...], tuple[Type, ...]]]
    _names: ClassVar[tuple[str, ...]]
    """Parameters of the constructor."""
    _values: ClassVar[Callable[[Any], tuple[Any, ...]]]
    """The accessor of all fields, in the order of `_names`."""

    def __attrs_post_init__(self) -> None:
        try:
            key = self._types(self)
            types = self._memo.get(key)
        except (AttributeError, TypeError):  # no operand, or no hashable attribute
            key, types = None, None
        if types is None:
            types = self._checked_types(key)
        results = self.results
        if len(results) == 1 == len(types) and type(results[0]) is Value:
            if results[0].type is not types[0]:
                self._reject_results(results, types)
        elif not results:
            if len(types) == 1:
                _setattr(self, "results", (_new_value(types[0]),))
            elif types:
                _setattr(self, "results", tuple([_new_value(t) for t in types]))
        elif len(results) != len(types) or any(
            [type(v) is not Value or v.type is not t for v, t in zip(results, types, strict=True)]  # noqa: C419 - faster
        ):
            self._reject_results(results, types)
        if self.predicate is not None:
            self._check_predicate()
        if self.shared is not None:
            check_shared_range(self)

    def __str__(self) -> str:
        return op_text(self)

    def __repr__(self) -> str:
        return op_line(self)

    def _repr_html_(self) -> str:
        return text_html(self)

    # What a subclass states -------------------------------------------------------------

    def verify(self) -> None:
        """Check rules that the signature cannot state. Raises VerifyError through `self.fail`.

        `verify` and `infer` may use only types and attributes, not the identity or the value of an
        operand, because their outcome is cached by types and attributes.
        """

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        """Return the result types, from the type variables of the signature. By default they follow
        from `results_`."""
        return tuple([cast(Type, p.build(bound)) for p in self.results_])

    @property
    def effects(self) -> Effects:
        """The effects of this op. A class whose attributes change the effects overrides the
        property."""
        return self.effects_

    def evaluate(self, machine: Any, *operands: Any) -> Any:
        """Compute the results on `machine`, which defines the arithmetic.

        `operands` has one entry per operand field: a value, None for an absent optional operand, or
        a tuple for a variadic one. Returns the value of the result, or a tuple if there are several
        results.
        """
        raise NotImplementedError(f"{self.mnemonic} has no meaning outside its context")

    # What is derived ---------------------------------------------------------------------

    @property
    def result(self) -> Value:
        """The only result. Raises ValueError if the op has no result or several."""
        (only,) = self.results
        return only

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """The values and literals in the operand fields, in order, without absent ones."""
        raise NotImplementedError  # `_derive` defines it

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All operands: inputs, arguments of successors, and the predicate."""
        read = self.inputs
        for edge in self.successors:
            read += edge.arguments
        return read if self.predicate is None else (*read, self.predicate)

    @property
    def successors(self) -> tuple[Successor, ...]:
        """The edges to other blocks; () for ops that are not terminators."""
        return ()

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes by name, without symbols and explicit result types."""
        return {f.name: getattr(self, f.name) for f in self.fields(FieldKind.ATTRIBUTE)}

    @classmethod
    def fields(cls, *kinds: FieldKind) -> tuple[Field, ...]:
        """Return the declared fields of the given `kinds`, in the order of the text; all fields if
        no kind is given."""
        return tuple(f for f in cls.schema if f.kind in kinds) if kinds else cls.schema

    @property
    def is_terminator(self) -> bool:
        """Whether the op ends a block."""
        return Effects.CONTROL in self.effects_

    def remap(self, env: Mapping[Value, Operand]) -> Op:
        """Return the op with its operands replaced through `env`, or the op itself if none
        changes."""
        changes: dict[str, Any] = {}
        for name, replaced in self._readers:
            old = getattr(self, name)
            new = replaced(old, env)
            if new is not old:
                changes[name] = new
        return self.evolve(**changes) if changes else self

    _readers: ClassVar[tuple[tuple[str, Callable[[Any, Mapping[Value, Operand]], Any]], ...]] = ()
    """The fields that read values, and what replaces these in each."""

    def evolve(self, **changes: Any) -> Op:
        """Return a copy with fields changed. A result whose type does not change keeps its
        identity; other results become new values with the old names."""
        try:
            return self.with_fields(**changes)
        except ResultTypesError:
            fresh = self.with_fields(**{**changes, "results": ()})
            pairs = zip(fresh.results, self.results, strict=False)
            renamed = tuple(attrs.evolve(new, name=old.name) for new, old in pairs)
            return fresh.with_fields(results=renamed + fresh.results[len(renamed) :])

    def with_fields(self, **changes: Any) -> Self:
        """Return a copy with fields changed, which keeps the results unless they are changed. It is
        `attrs.evolve`, with all fields read by one C call. Raises ResultTypesError where the
        results do not have the types that follow from the fields."""
        cls = type(self)
        return cls(**{**dict(zip(cls._names, cls._values(self), strict=True)), **changes})

    def map_fields(
        self,
        operand: Callable[[Operand], Operand | None],
        result_type: Callable[[Type], Type] = lambda kind: kind,
    ) -> dict[str, Any]:
        """Return the changes, for `with_fields`, that replace every operand in the operand fields
        by `operand` of it, and every stated result type by `result_type` of it. The functions are
        called in the order of the fields; absent operands stay absent. The predicate and the
        arguments of successors are not among the fields."""
        changes: dict[str, Any] = {}
        for field in self.schema:
            old = getattr(self, field.name)
            if field.kind is FieldKind.OPERAND:
                changes[field.name] = operand(old)
            elif field.kind is FieldKind.OPTIONAL:
                changes[field.name] = None if old is None else operand(old)
            elif field.kind in SEVERAL:
                changes[field.name] = tuple([operand(v) for v in old])
            elif field.kind is FieldKind.RESULT_TYPE:
                changes[field.name] = result_type(old)
        return changes

    def key(self) -> tuple[Any, ...]:
        """A key that is equal for two ops that compute the same value: class, operands and
        attributes."""
        return (type(self), self.predicate, *(getattr(self, f.name) for f in self.schema))

    def fail(self, code: str, message: str, operand: str | int | None = None) -> VerifyError:
        """Return a `VerifyError` about this op, for `verify` and `infer` to raise."""
        text = f"{self.mnemonic}: {message}"
        return verify_error(code, text, self.location, operand=operand)

    # Checking -----------------------------------------------------------------------------

    def _checked_types(self, key: tuple[Any, ...] | None) -> tuple[Type, ...]:
        bound: dict[str, Type] = {}
        for field in self.schema:
            self._check_field(field, bound)
        self.verify()
        types = self.infer(bound)
        if key is None:
            raise self.fail("TIR0105", "operands and attributes must be immutable values")
        if len(self._memo) >= _MEMO_LIMIT:
            self._memo.clear()
        self._memo[key] = types
        return types

    def _check_field(self, field: Field, bound: Bindings) -> None:
        value: Any = getattr(self, field.name)
        if field.kind is FieldKind.ATTRIBUTE:
            if (expected := expected_attribute(field, value)) is not None:
                message = f"{field.name} must be {expected}, not {value!r}"
                raise self.fail("TIR0106", message, field.name)
            return
        absent = value is None and field.kind is FieldKind.OPTIONAL
        if field.pattern is None or absent:
            return
        items = cast(tuple[Any, ...], value if field.kind in SEVERAL else (value,))
        if field.kind is FieldKind.PAIRS and len(items) % 2:
            raise self.fail("TIR0105", f"{field.name} must come in pairs", field.name)
        for index, item in enumerate(items):
            result = (
                item if field.kind is FieldKind.RESULT_TYPE else type_of(self, field.name, item)
            )
            expected = cast(Pattern, field.pattern_at(index)).match(result, bound)
            if expected is not None:
                message = f"{field.name} must be {expected}, not {result}"
                raise self.fail("TIR0101", message, field.name)

    def _reject_results(self, values: tuple[Value, ...], types: tuple[Type, ...]) -> None:
        check_values(self, values)
        if len(values) == len(types) and all(map(_laid_out, values, types)):
            return
        result = ", ".join(str(v.type) for v in values)
        expected = ", ".join(map(str, types))
        message = f"{self.mnemonic}: results are ({expected}), not ({result})"
        raise ResultTypesError(Diagnostic("TIR0102", message, self.location, operand="results"))

    def _check_predicate(self) -> None:
        type_ = type_of(self, "predicate", self.predicate)
        if not self.predicable:
            raise self.fail("TIR0103", "this op takes no predicate", "predicate")
        if type_ is I1:
            return
        shape = self.predicate_shape()
        if not isinstance(type_, Tile) or type_.element is not I1 or type_.shape != shape:
            expected = "i1" if not shape else f"i1 or i1<{', '.join(map(str, shape))}>"
            raise self.fail("TIR0104", f"predicate must be {expected}, not {type_}", "predicate")

    def predicate_shape(self) -> tuple[int, ...]:
        """The shape that a tile predicate must have: the shape of the first operand for ops that
        access memory or reduce, of the first result for all others."""
        first = self.inputs[:1] if self.predicate_follows_operand or not self.results else ()
        for value in (*first, *self.results):
            return shape_of(value.type)
        return ()

    predicate_follows_operand: ClassVar[bool] = False


def _laid_out(value: Value, type: Type) -> bool:
    """Whether `value` has `type`, or `type` with a layout that the op leaves open."""
    result = value.type
    return result is type or (
        isinstance(result, Tile)
        and isinstance(type, Tile)
        and type.layout is None
        and (result.element, result.shape) == (type.element, type.shape)
    )


class ResultTypesError(VerifyError):
    """The result types stated for an op are not the ones it has."""


# Defining and finding ops ------------------------------------------------------------------

OPS: dict[str, type[Op]] = {}
"""Every loaded op class by mnemonic. Use `lookup`, which loads families on first use."""

FAMILIES = (
    "arith", "floats", "control", "shape", "memory", "program", "division", "hints",
    "dot", "reduce", "math", "cast", "fused", "rearrange", "symbols", "atomic", "predicate",
    "descriptor", "debug", "gpu", "hopper", "roles", "cluster", "warpgroup", "private",
)  # fmt: skip
"""Modules of `tileir.ops`, the most used first."""

_C = TypeVar("_C", bound=type[Op])


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field, operand, attribute))
def family(cls: _C) -> _C:
    """Class decorator of a base of several ops, whose fields come first: it is not registered."""
    if not get_annotations(cls):  # then it has the constructor and the accessors of its base
        return cls
    result = attrs.frozen(eq=False, weakref_slot=False, repr=False)(cls)
    _derive(result)
    return result


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field, operand, attribute))
def op(mnemonic: str, *, since: tuple[int, int] = (1, 0)) -> Callable[[_C], _C]:
    """Class decorator: make a frozen op class of the fields declared and register it."""

    def define(cls: _C) -> _C:
        result = family(cls)
        if not result.__doc__ or mnemonic in OPS:
            raise TypeError(f"op {mnemonic} needs a docstring and a mnemonic of its own")
        result.mnemonic, result.since = mnemonic, since
        OPS[mnemonic] = result
        return result

    return define


def lookup(mnemonic: str) -> type[Op] | None:
    """The op class called `mnemonic`, loading op families until one defines it."""
    result = OPS.get(mnemonic)
    if result is None:
        for family in FAMILIES:
            importlib.import_module(f"tileir.ops.{family}")
            if mnemonic in OPS:
                return OPS[mnemonic]
        _load_third_party()
    return OPS.get(mnemonic)


@cache
def _load_third_party() -> None:
    """Import what other distributions name under the entry point group `tileir.ops`."""
    from importlib.metadata import entry_points  # slow, and needed for unknown mnemonics only

    for point in entry_points(group="tileir.ops"):
        point.load()


def all_ops() -> Iterator[type[Op]]:
    """Every op class, all families loaded, ordered by mnemonic."""
    lookup("")
    return iter([OPS[name] for name in sorted(OPS)])


def _derive(cls: Any) -> None:
    """Fill in what follows from the fields: schema and the accessors that must be fast."""
    cls.schema = tuple(
        Field(
            a.name, a.metadata["kind"], a.metadata.get("pattern"), a.metadata.get("attribute"),
            a.default, a.metadata.get("second"), a.metadata.get("since", (1, 0)),
        )
        for a in attrs.fields(cls)
        if "kind" in a.metadata
    )  # fmt: skip
    reading = [(f.name, REMAP[f.kind]) for f in cls.schema if f.kind in REMAP]
    cls._readers = (*reading, ("predicate", REMAP[FieldKind.OPTIONAL]))
    parameters = [a for a in attrs.fields(cls) if a.init]
    cls._names = tuple(a.alias for a in parameters)
    cls._values = staticmethod(attrgetter(*(a.name for a in parameters)))
    cls.inputs = property(reader(cls.schema), doc=Op.inputs.__doc__)
    cls._types = staticmethod(type_reader(cls.schema))
    edges = [f.name for f in cls.schema if f.kind is FieldKind.SUCCESSOR]
    if edges:
        get = attrgetter(*edges)
        cls.successors = property(get if len(edges) > 1 else lambda self: (get(self),))


_derive(Op)  # for ops without fields
