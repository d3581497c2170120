"""A kernel for every cell of the op by type by shape matrix (`tileir.ops.matrix`): it loads the
op's operands, applies the op and stores its results.

Pointers that the op follows are real, into a buffer that is compared too. Other pointers are 64
random bits. i4 and f4e2m1, which do not lie in memory, pass through f32.
"""

from __future__ import annotations

from math import prod
from typing import Any

import attrs
import numpy as np

from tileir.ir import Block, Function, Global, Module, Parameter
from tileir.op import FieldKind, Op
from tileir.ops.cast import AddrSpaceCast, Bitcast, FPCast, IntToPtr, PtrToInt
from tileir.ops.control import Return
from tileir.ops.descriptor import DescriptorLoad, MakeDescriptor
from tileir.ops.memory import Load, Store
from tileir.ops.shape import GetElementPtr, MakeRange, Reshape, Splat
from tileir.testing.matrix_numbers import numbers
from tileir.types import (
    F4E2M1,
    F32,
    I4,
    I32,
    I64,
    AddressSpace,
    Descriptor,
    Element,
    Pointer,
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
class Case:
    """One cell: an op, its kernel, and what its arguments are made of."""

    op: Op
    number: int
    kernel: str = "cell"
    ops: list[Op] = attrs.field(factory=list)
    parameters: list[Value] = attrs.field(factory=list)
    sources: list[tuple[str, Type, int]] = attrs.field(factory=list)
    """Per parameter: the operand it holds ("" for a result), its type, room in elements."""

    def __attrs_post_init__(self) -> None:
        fields = [f for f in self.op.fields() if f.kind in _OPERANDS]
        changed: dict[str, Any] = {}
        for field in fields:
            held = getattr(self.op, field.name)
            if field.kind is FieldKind.PAIRS and self.op.mnemonic == "make_descriptor":
                changed[field.name] = self._dimensions(held)
            elif isinstance(held, tuple):
                changed[field.name] = tuple([self._operand(field.name, v.type) for v in held])
            elif held is not None:
                changed[field.name] = self._operand(field.name, held.type)
        applied = self.op.evolve(**changed) if changed else self.op
        self.ops.append(applied)
        self._keep(applied)
        self.ops.append(Return())

    @property
    def name(self) -> str:
        """What the cell is, in words."""
        types = ", ".join(str(v.type) for v in (*self.op.inputs, *self.op.results))
        words = [
            f"{k}={_word(v)}" for k, v in self.op.attributes.items() if v != _default(self.op, k)
        ]
        return " ".join((self.op.mnemonic, types, *words))

    def module(self) -> Module:
        """The module of this cell alone."""
        block = Block("entry", ops=self.ops)
        parameters = [Parameter(v) for v in self.parameters]
        function = Function(self.kernel, parameters, (), {"entry": block}, kernel=True)
        return Module({function.name: function}, self._globals())

    def arguments(self) -> list[np.ndarray[Any, Any]]:
        """Operands and buffers, and room for results."""
        random = np.random.default_rng(self.number)
        return [numbers(random, self.op, name, kind, room) for name, kind, room in self.sources]

    # Making the kernel --------------------------------------------------------------------

    def emit(self, op: Op) -> Value:
        """Append `op`; its result."""
        self.ops.append(op)
        return op.result

    def _operand(self, name: str, kind: Type) -> Operand:
        if isinstance(kind, Descriptor):
            return self._descriptor(name, kind)
        if name in FOLLOWED.get(self.op.mnemonic, ()):
            return self._pointers(name, kind)
        return self._loaded(name, kind)

    def _loaded(self, name: str, kind: Type) -> Value:
        """A value read from a parameter of its own."""
        element: Any = element_of(kind)
        held = _held(element)
        value = self.emit(Load(self._addresses(name, with_element(kind, held))))
        if isinstance(element, Pointer):
            return self.emit(IntToPtr(value, kind))
        if held is not element:
            value = self.emit(FPCast(value, with_element(kind, F4E2M1)))
        return self.emit(Bitcast(value, kind)) if element is I4 else value

    def _addresses(self, name: str, kind: Type) -> Value:
        """Addresses of as many neighbours as `kind` has elements."""
        shape = shape_of(kind)
        base = self._parameter(name, kind, prod(shape))
        return self._neighbours(base, shape)

    def _parameter(self, name: str, kind: Type, room: int) -> Value:
        value = Value(pointer(element_of(kind)), f"p{len(self.parameters)}")  # type: ignore[arg-type]
        self.parameters.append(value)
        self.sources.append((name, kind, room))
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
        """Pointers that the op follows, in the address space it wants."""
        element = element_of(kind)
        assert isinstance(element, Pointer)
        room = prod(self.op.to.block.shape) if name == "base" else prod(shape_of(kind))  # type: ignore[attr-defined]
        base = self._parameter(name, with_element(kind, element.pointee), room)
        neighbours = self._neighbours(base, shape_of(kind))
        if element.space is AddressSpace.GENERIC:
            return self.emit(AddrSpaceCast(neighbours, kind))
        return neighbours

    def _descriptor(self, name: str, kind: Descriptor) -> Value:
        """A matrix with room for about two blocks along every dimension."""
        element, extents = kind.block.element, [2 * n + 1 for n in kind.block.shape]
        base = self._parameter(name, element, prod(extents))
        pairs: list[Operand] = []
        for dim, extent in enumerate(extents):
            pairs += [constant(I32, extent), constant(I64, prod(extents[dim + 1 :]))]
        return self.emit(MakeDescriptor(base, kind, tuple(pairs)))

    def _dimensions(self, held: tuple[Value, ...]) -> tuple[Operand, ...]:
        """Extents a little smaller than the block, so that some of it is outside; strides of
        rows without gaps."""
        shape = self.op.to.block.shape  # type: ignore[attr-defined]
        numbers = [(max(1, n - 1), prod(shape[d + 1 :])) for d, n in enumerate(shape)]
        flat = [n for pair in numbers for n in pair]
        return tuple([constant(v.type, n) for v, n in zip(held, flat, strict=True)])

    def _keep(self, op: Op) -> None:
        if op.mnemonic in UNSEEN:
            return
        for value in op.results:
            if isinstance(value.type, Descriptor):
                zeros = tuple([constant(I32, 0)] * len(value.type.block.shape))
                value = self.emit(DescriptorLoad(value, zeros))
            if op.mnemonic == "global_address":
                value = self.emit(Load(value))
            self._store(value, _mask(op))

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


_OPERANDS = (FieldKind.OPERAND, FieldKind.OPTIONAL, FieldKind.VARIADIC, FieldKind.PAIRS)


def _held(element: Element) -> Element:
    """The type in memory of what a parameter gives."""
    if isinstance(element, Pointer):
        return I64
    return F32 if element in (I4, F4E2M1) else element


def _mask(op: Op) -> Operand | None:
    """Where the results are defined: everywhere, or where the op's mask is."""
    masked = getattr(op, "mask", None)
    return masked if op.mnemonic in FOLLOWED and getattr(op, "other", None) is None else None


def _default(op: Op, name: str) -> Any:
    return next(f.default for f in op.schema if f.name == name)


def _word(value: Any) -> str:
    return str(getattr(value, "value", value))
