"""A kernel for every cell of the op by type by shape matrix (`tileir.ops.matrix`): it loads the
op's operands, applies the op and stores its results.

Pointers that the op dereferences point into a buffer, which is compared too. Other pointers are 64
random bits. i4 and f4e2m1 have no representation in memory and are converted from f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import attrs
import numpy as np

from tileir.ir import Block, Function, Global, Module, Parameter
from tileir.op import Effects, FieldKind, Op
from tileir.ops.arith import And, ICmp, IntegerPredicate, Select
from tileir.ops.cast import AddrSpaceCast, Bitcast, FPCast, IntToPtr, PtrToInt
from tileir.ops.control import Return
from tileir.ops.descriptor import DescriptorLoad, MakeDescriptor
from tileir.ops.memory import Load, Store
from tileir.ops.reduce import Combiner, Reduce
from tileir.ops.shape import GetElementPtr, MakeRange, Reshape, Splat
from tileir.testing.matrix_numbers import numbers
from tileir.testing.matrix_variants import OPERANDS, USUAL, Variant
from tileir.types import (
    F4E2M1,
    F8E8M0,
    F32,
    I1,
    I4,
    I32,
    I64,
    AddressSpace,
    Descriptor,
    Element,
    Pointer,
    Scalar,
    Type,
    element_of,
    pointer,
    shape_of,
    tile,
    with_element,
)
from tileir.values import Constant, Operand, Value, constant

FOLLOWED = {
    "load": ("pointer",), "store": ("pointer",), "atomic_rmw": ("pointer",),
    "atomic_cas": ("pointer",), "atomic_load": ("pointer",), "atomic_store": ("pointer",),
    "make_descriptor": ("base",),
}  # fmt: skip
"""Operands through which an op accesses memory."""

UNSEEN = frozenset({"clock", "globaltimer"})
"""Ops whose results are another at every run."""


@attrs.define
class MatrixCase:
    """One cell: an op, its kernel, and the way its arguments are computed."""

    op: Op
    number: int
    kernel: str = "cell"
    ops: list[Op] = attrs.field(factory=list)
    parameters: list[Value] = attrs.field(factory=list)
    sources: list[tuple[str, Type, int]] = attrs.field(factory=list)
    """Per parameter: its operand ("" for a result), its type, its number of elements."""
    variant: Variant = USUAL
    constants: dict[str, np.ndarray[Any, Any]] = attrs.field(factory=dict)
    """Elements of the operands that are literals."""
    lanes: Operand | None = None
    """The lanes in which the op runs, if it is predicated."""

    def __attrs_post_init__(self) -> None:
        fields = [f for f in self.op.fields() if f.kind in OPERANDS]
        changed: dict[str, Any] = {}
        for field in fields:
            operand = getattr(self.op, field.name)
            if field.kind is FieldKind.PAIRS and self.op.mnemonic == "make_descriptor":
                changed[field.name] = self._dimensions(operand)
            elif isinstance(operand, tuple):
                changed[field.name] = tuple([self._operand(field.name, v.type) for v in operand])
            elif operand is not None:
                changed[field.name] = self._operand(field.name, operand.type)
        applied = self.op.evolve(**changed) if changed else self.op
        if self.variant.predicate != "none":
            applied = self._predicate(applied)
        self.ops.append(applied)
        self._keep(applied)
        self.ops.append(Return())

    @property
    def name(self) -> str:
        """A description of the cell."""
        types = ", ".join(str(v.type) for v in (*self.op.inputs, *self.op.results))
        words = [
            f"{k}={_word(v)}" for k, v in self.op.attributes.items() if v != _default(self.op, k)
        ]
        variant = () if self.variant is USUAL else (f"({self.variant})",)
        return " ".join((self.op.mnemonic, types, *words, *variant))

    def module(self) -> Module:
        """A module that contains only the kernel of this cell."""
        block = Block("entry", ops=self.ops)
        followed = (*FOLLOWED.get(self.op.mnemonic, ()), "descriptor")
        promise = self.variant.attributes(self.op)
        parameters = [
            Parameter(v, promise) if name in followed else Parameter(v)
            for v, (name, _, _) in zip(self.parameters, self.sources, strict=True)
        ]
        function = Function(self.kernel, parameters, (), {"entry": block}, kernel=True)
        return Module({function.name: function}, self._globals())

    def arguments(self) -> list[np.ndarray[Any, Any]]:
        """The operands and buffers, and zeros for results."""
        random = np.random.default_rng(self.number)
        return [numbers(random, self.op, name, kind, count) for name, kind, count in self.sources]

    # Making the kernel --------------------------------------------------------------------

    def emit(self, op: Op) -> Value:
        """Append `op`, and return its result."""
        self.ops.append(op)
        return op.result

    def operand_array(self, name: str, arrays: Sequence[Any]) -> Any:
        """The elements of the operand `name`, from arguments in the order of `arguments`."""
        by_name = dict(zip((n for n, _, _ in self.sources), arrays, strict=True))
        return self.constants.get(name, by_name.get(name))

    def _literal(self, name: str, kind: Type) -> Operand | None:
        """A literal for the operand `name`, None if its type has no plain literal."""
        element = element_of(kind)
        if not isinstance(element, Scalar) or element in (I4, F4E2M1, F8E8M0):
            return None
        random = np.random.default_rng(self.number)
        number = numbers(random, self.op, name, kind, 1)
        self.constants[name] = np.full(prod(shape_of(kind)), number[0])
        return constant(kind, number[0].item())

    def _predicate(self, op: Op) -> Op:
        """`op` under the predicate of the variant."""
        how = self.variant.predicate
        shape = () if how == "scalar" else op.predicate_shape()
        flags = self._load_operand("false" if how == "false" else "predicate", tile(I1, shape))
        if how == "nested":
            compared = self._load_operand("inner", tile(I32, shape))
            zero = constant(compared.type, 0)
            test = ICmp(compared, zero, predicate_=IntegerPredicate.SLT, predicate=flags)
            self.ops.append(test)
            inner = test.results[self.number % 2]
            self.lanes = self.emit(Select(flags, inner, constant(inner.type, False)))
            acts = op.effects & ~Effects.READ or op.mnemonic == "histogram"
            return op.evolve(predicate=self.lanes if acts else inner)
        self.lanes = flags
        return op.evolve(predicate=flags)

    def _result_mask(self, op: Op, value: Value, mask: Operand | None) -> Operand | None:
        """The defined lanes of `value`, a result of `op`; None for all lanes."""
        lanes, shape = self.lanes, shape_of(value.type)
        if lanes is None:
            return mask
        if shape_of(lanes.type) and op.mnemonic == "histogram":
            return mask
        if shape_of(lanes.type) and op.mnemonic == "reduce":
            folded: Any = op
            lanes = self.emit(Reduce((lanes,), axis=folded.axis, combiner=Combiner.OR))
        if shape and not shape_of(lanes.type):
            lanes = self.emit(Splat(lanes, tile(I1, shape)))
        return lanes if mask is None else self.emit(And(mask, lanes))

    def _operand(self, name: str, kind: Type) -> Operand:
        followed = FOLLOWED.get(self.op.mnemonic, ())
        if name not in followed and self.variant.is_constant(self.op, name):
            literal = self._literal(name, kind)
            if literal is not None:
                return literal
        if isinstance(kind, Descriptor):
            return self._descriptor(name, kind)
        if name in FOLLOWED.get(self.op.mnemonic, ()):
            return self._pointers(name, kind)
        return self._load_operand(name, kind)

    def _load_operand(self, name: str, kind: Type) -> Value:
        """A value loaded through a parameter of its own."""
        element: Any = element_of(kind)
        stored = _memory_type(element)
        value = self.emit(Load(self._addresses(name, with_element(kind, stored))))
        if isinstance(element, Pointer):
            return self.emit(IntToPtr(value, kind))
        if stored is not element:
            value = self.emit(FPCast(value, with_element(kind, F4E2M1)))
        return self.emit(Bitcast(value, kind)) if element is I4 else value

    def _addresses(self, name: str, kind: Type) -> Value:
        """Addresses of consecutive elements, as many as `kind` has elements."""
        shape = shape_of(kind)
        base = self._parameter(name, kind, prod(shape))
        return self._neighbours(base, shape)

    def _parameter(self, name: str, kind: Type, count: int) -> Value:
        value = Value(pointer(element_of(kind)), f"p{len(self.parameters)}")  # type: ignore[arg-type]
        self.parameters.append(value)
        self.sources.append((name, kind, count))
        return value

    def _neighbours(self, base: Value, shape: tuple[int, ...]) -> Value:
        if not shape:
            return base
        offsets = self.emit(MakeRange(tile(I32, (prod(shape),))))
        if len(shape) > 1:
            offsets = self.emit(Reshape(offsets, tile(I32, shape)))
        bases = self.emit(Splat(base, tile(element_of(base.type), shape)))  # type: ignore[arg-type]
        return self.emit(GetElementPtr(bases, offsets))

    def _pointers(self, name: str, kind: Type) -> Value:
        """Pointers that the op dereferences, in the address space that it requires."""
        element = element_of(kind)
        assert isinstance(element, Pointer)
        count = prod(self.op.to.block.shape) if name == "base" else prod(shape_of(kind))  # type: ignore[attr-defined]
        base = self._parameter(name, with_element(kind, element.pointee), count)
        neighbours = self._neighbours(base, shape_of(kind))
        if element.space is AddressSpace.GENERIC:
            return self.emit(AddrSpaceCast(neighbours, kind))
        return neighbours

    def _descriptor(self, name: str, kind: Descriptor) -> Value:
        """A descriptor of a matrix of about two blocks along every dimension."""
        element, extents = kind.block.element, [2 * n + 1 for n in kind.block.shape]
        base = self._parameter(name, element, prod(extents))
        pairs: list[Operand] = []
        for dim, extent in enumerate(extents):
            pairs += [constant(I32, extent), constant(I64, prod(extents[dim + 1 :]))]
        return self.emit(MakeDescriptor(base, kind, tuple(pairs)))

    def _dimensions(self, operands: tuple[Value, ...]) -> tuple[Operand, ...]:
        """Extents slightly smaller than the block, so that part of it is out of bounds, and strides
        of rows without gaps."""
        shape = self.op.to.block.shape  # type: ignore[attr-defined]
        numbers = [(max(1, n - 1), prod(shape[d + 1 :])) for d, n in enumerate(shape)]
        flat = [n for pair in numbers for n in pair]
        return tuple([constant(v.type, n) for v, n in zip(operands, flat, strict=True)])

    def _keep(self, op: Op) -> None:
        if op.mnemonic in UNSEEN:
            return
        for value in op.results:
            if isinstance(value.type, Descriptor):
                zeros = tuple([constant(I32, 0)] * len(value.type.block.shape))
                value = self.emit(DescriptorLoad(value, zeros, predicate=self.lanes))
            if op.mnemonic == "global_address":
                value = self.emit(Load(value, predicate=self.lanes))
            self._store(value, self._result_mask(op, value, _mask(op)))

    def _store(self, value: Value, mask: Operand | None) -> None:
        element = element_of(value.type)
        if isinstance(element, Pointer):
            value = self.emit(PtrToInt(value, with_element(value.type, I64)))
        if element is I4:
            value = self.emit(Bitcast(value, with_element(value.type, F4E2M1)))
        if element in (I4, F4E2M1):
            value = self.emit(FPCast(value, with_element(value.type, F32)))
        self.ops.append(Store(self._addresses("", value.type), value, mask))

    def _globals(self) -> dict[str, Global]:
        if self.op.mnemonic != "global_address":
            return {}
        kind = self.op.result.type
        assert isinstance(kind, Pointer)
        constant_ = kind.space is AddressSpace.CONSTANT
        one = Constant(kind.pointee, 1)
        return {"symbol": Global("symbol", kind.pointee, 1, constant_, (one,), space=kind.space)}


def _memory_type(element: Element) -> Element:
    """The type in memory of an operand."""
    if isinstance(element, Pointer):
        return I64
    return F32 if element in (I4, F4E2M1) else element


def _mask(op: Op) -> Operand | None:
    """The defined lanes of the results: all, or those of the op's mask."""
    masked = getattr(op, "mask", None)
    return masked if op.mnemonic in FOLLOWED and getattr(op, "other", None) is None else None


def _default(op: Op, name: str) -> Any:
    return next(f.default for f in op.schema if f.name == name)


def _word(value: Any) -> str:
    return str(getattr(value, "value", value))
