"""Inference of tensor descriptors from tiles of pointers to blocks of strided tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import attrs

from tileir.analysis.affine import affine
from tileir.analysis.aliases import aliases
from tileir.analysis.dominance import dominance
from tileir.analysis.polynomial import Lane, Polynomial
from tileir.analysis.ranges import ranges
from tileir.analysis.uses import defining_blocks, uses
from tileir.backend.tma.delinearize import HostFacts, TensorAccess, TensorDimension, delinearize
from tileir.backend.tma.expand_descriptor_parameters import expand_descriptor_parameters
from tileir.backend.tma.host_expressions import host_values
from tileir.backend.tma.mappable import is_always_mappable
from tileir.backend.tma.nonnegative_starts import (
    entry_values,
    host_checks,
    is_negative_at_origin,
    kernel_checks,
    may_be_negative,
)
from tileir.backend.tma.preceding_ops import changes_that_may_precede, places
from tileir.backend.tma.register_operands import feeds_only_operand_a, is_row
from tileir.backend.transforms.canonical_counters import add_canonical_induction_variables
from tileir.backend.transforms.polynomial_emitter import PolynomialEmitter, symbol_order, writable
from tileir.effects import Effects
from tileir.errors import Diagnostic
from tileir.ir import Block, Function, Module
from tileir.op import Op
from tileir.ops.arith import And, ICmp, IntegerPredicate, Select, SMax, SMin
from tileir.ops.atomic import AtomicKind, AtomicRMW, MemoryScope, Order
from tileir.ops.cast import Trunc
from tileir.ops.descriptor import (
    DescriptorLoad,
    DescriptorReduce,
    DescriptorStore,
    MakeDescriptor,
)
from tileir.ops.dot import Dot
from tileir.ops.hints import Assume
from tileir.ops.memory import Load, Store
from tileir.ops.shape import GetElementPtr, Reshape, Trans
from tileir.passes.cse import cse
from tileir.passes.dce import dce
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal
from tileir.types import F32, I32, I64, Descriptor, Tile, element_of, shape_of
from tileir.values import Constant, Operand, Value, constant

LARGEST = 1 << 28
"""Exclusive limit of extents and other bounds of indices, so that adding a few does not wrap."""

FARTHEST = (1 << 31) - (1 << 12)
"""The limit of starts, and the extent of unbounded dimensions: a multiple of 2^12, so that clamped
starts keep their alignment."""
_CHUNK = 16
"""The rows of a box are multiples of this number of bytes (CUDA driver API, "Tensor Map")."""


@pass_("infer-descriptors")
def infer_descriptors(module: Module) -> PassResult:
    """Replace loads that feed dots, and stores of their results, by accesses through descriptors.

    A load whose addresses are starts plus lanes times strides, and whose mask compares indices with
    extents, reads a block of a tensor. Elements out of bounds are zero, as under the mask. A tile
    whose first dimension is contiguous in memory is loaded transposed, and then transposed. A batch
    dimension of stride 0, which no tensor map can have, gets another stride and is read at index 0.

    Parameters that are extents are assumed to be in [1, 2^28), other bounds in masks to be in [0,
    2^28). The launcher guards these assumptions. Index arithmetic is assumed not to wrap, which is
    true of every access within its array. Unlike a pointer, a block cannot start before its row. A
    start that may be negative is therefore checked in the entry block, or at the access if it is
    loaded from memory. Descriptor parameters are expanded into base, extents and strides.

    before:
        define kernel void @f(f16* %a, f16* %b, f32* %c, i32 %k, i32 %s) {
        entry:
          %i = make_range i32<16>
          %r = expand_dims i32<16, 1> %i {axis = 1}
          %rows = broadcast i32<16, 16> %r
          %q = expand_dims i32<1, 16> %i {axis = 0}
          %columns = broadcast i32<16, 16> %q
          %p = program_id i32
          %p16 = mul i32 %p, 16
          %from = splat i32<16, 16> %p16
          %row = add i32<16, 16> %rows, %from
          %ss = splat i32<16, 16> %s
          %down = mul i32<16, 16> %row, %ss
          %offs = add i32<16, 16> %down, %columns
          %as = splat f16*<16, 16> %a
          %pa = getelementptr f16*<16, 16> %as, %offs
          %ks = splat i32<16, 16> %k
          %in, _ = icmp (i1<16, 16>, i1<16, 16>) %columns, %ks {predicate = slt}
          %x = load f16<16, 16> %pa, %in, 0.0
          %y = trans f16<16, 16> %x {order = [1, 0]}
          %d = dot f32<16, 16> %x, %y, 0.0
          %cs = splat f32*<16, 16> %c
          %pc = getelementptr f32*<16, 16> %cs, %offs
          store %pc, %d
          ret
        }
    after:
        stage "descriptors"

        define kernel void @f(f16* %a, f16* %b, f32* %c, i32 %k, i32 %s) {
        entry:
          %0, _ = icmp (i1, i1) %k, 1 {predicate = sge}
          %1, _ = icmp (i1, i1) %k, 268435456 {predicate = slt}
          %2 = and i1 %0, %1
          assume %2
          %p = program_id i32
          %3 = sext i64 %s
          %4 = sext i64 %k
          %5 = make_descriptor tensor_desc<f16<16, 16>> %a, [i64 2147479552, %3], [%4, i64 1]
          %6 = sext i64 %p
          %7 = mul i64 16, %6
          %8 = smax i64 %7, -2147483648
          %9 = smin i64 %8, 2147479552
          %10 = trunc i32 %9
          %x = descriptor_load f16<16, 16> %5, %10, 0
          %y = trans f16<16, 16> %x {order = [1, 0]}
          %d = dot f32<16, 16> %x, %y, 0.0
          %11 = make_descriptor tensor_desc<f32<16, 16>> %c, [i64 2147479552, %3], [i64 2147479552, i64 1]
          descriptor_store %11, %d, %10, 0
          ret
        }
    """  # noqa: E501
    outcomes = {
        name: infer_kernel_descriptors(f) for name, f in module.functions.items() if f.blocks
    }
    remarks = tuple(r for outcome in outcomes.values() for r in outcome.remarks)
    count = sum(outcome.statistics.get("descriptors", 0) for outcome in outcomes.values())
    if all(outcome.ir is module.functions[name] for name, outcome in outcomes.items()):
        return PassResult(module, remarks)
    functions = {**module.functions, **{n: cast(Function, o.ir) for n, o in outcomes.items()}}
    changed = module.evolve(functions=functions, stage=module.stage or "descriptors")
    return PassResult(changed, remarks, {"descriptors": count})


def infer_kernel_descriptors(function: Function) -> PassResult:
    """Infer descriptors, as `infer_descriptors`, in one function."""
    function = expand_descriptor_parameters(function)
    candidates = list(_candidates(function))
    if not candidates:
        return PassResult(function)
    assumed = _assume_bounds(add_canonical_induction_variables(function), candidates)
    facts = _facts(assumed)
    remarks: list[Diagnostic] = []
    accesses: dict[Op, TensorAccess] = {}
    for op in candidates:
        access = _tensor_access(assumed, facts, op)
        if isinstance(op, Load) and is_row(op) and not is_always_mappable(assumed, op, access):
            continue
        if isinstance(access, Refusal):
            remarks.append(access.remark("TIR0653", "no tensor map", op.location))
        else:
            accesses[op] = access
    if not any(isinstance(op, Load) and not is_row(op) for op in accesses):
        return PassResult(function, tuple(remarks))
    changed = _rewrite(assumed, accesses)
    return PassResult(dce(cse(changed)), tuple(remarks), {"descriptors": len(accesses)})


# Which accesses ---------------------------------------------------------------------------------


def _candidates(function: Function) -> Iterator[Op]:
    """Loads that only feed dots, directly or through ops on registers; if there are any, also
    stores and relaxed atomic additions of matrices."""
    loads = [
        op
        for op in function.ops
        if isinstance(op, Load) and _is_simple(op)
        and (_feeds_only_dots(function, op) or feeds_only_operand_a(function, op))
    ]  # fmt: skip
    yield from loads
    if loads:
        stores = (op for op in function.ops if _is_store_like(function, op))
        yield from (op for op in stores if len(shape_of(cast(Any, op).value.type)) > 1)


def _is_store_like(function: Function, op: Op) -> bool:
    """Whether an op only stores a tile, or adds it to memory that no later op of the kernel
    accesses. A TMA copy may complete as late as the end of the kernel."""
    if isinstance(op, Store):
        return _is_simple(op)
    if not _is_relaxed_add(function, op):
        return False
    other_accesses = [o for o in function.ops if o.effects and not _is_relaxed_add(function, o)]
    alias_analysis = aliases(function)
    return not any(
        o.effects & Effects.SYNC or alias_analysis.may_change(o, op) or _may_read(function, o, op)
        for o in other_accesses
    )


def _is_relaxed_add(function: Function, op: Op) -> bool:
    """Whether an op is a relaxed atomic addition of f32 whose result is unused."""
    if not isinstance(op, AtomicRMW) or op.predicate is not None:
        return False
    relaxed = op.sem is Order.RELAXED and op.scope is MemoryScope.GPU
    floats = op.op is AtomicKind.FADD and element_of(op.value.type) is F32
    return relaxed and floats and not uses(function).get(op.result)


def _may_read(function: Function, reader: Op, op: Op) -> bool:
    """Whether `reader` may read memory that `op` wrote."""
    return bool(reader.effects & Effects.READ) and aliases(function).may_change(op, reader)


def _is_simple(op: Any) -> bool:
    zero = not isinstance(op, Load) or op.fills_with_zeros
    return zero and not op.volatile and op.predicate is None


def _feeds_only_dots(function: Function, op: Op) -> bool:
    """Whether all uses of the result of `op`, directly, transposed or reshaped, are operands A or B
    of dots."""
    value = op.results[0]
    if not isinstance(value.type, Tile) or len(value.type.shape) < 2:
        return False
    readers = uses(function).get(value, ())
    return bool(readers) and all(
        (isinstance(r, Dot) and value is not r.c)
        or (isinstance(r, (Trans, Reshape)) and _feeds_only_dots(function, r))
        for r in readers
    )


def _facts(function: Function) -> HostFacts:
    on_host, in_entry = host_values(function), entry_values(function)
    return HostFacts(
        affine(function), ranges(function), on_host.__contains__, in_entry.__contains__
    )


def _tensor_access(function: Function, facts: HostFacts, op: Any) -> TensorAccess | Refusal:
    kind = op.pointer.type
    element = kind.element.pointee
    access = delinearize(facts, op.pointer, op.mask, len(kind.shape))
    if isinstance(access, Refusal):
        return access
    if kind.shape[access.order[-1]] * element.bytes % _CHUNK:
        return Refusal(f"its rows are not multiples of {_CHUNK} bytes")
    if not facts.is_on_host(access.base):
        return Refusal("the host cannot compute its base pointer")
    if any(is_negative_at_origin(facts, d.maybe_negative) for d in access.dimensions):
        return Refusal("its first index is negative")
    if may_be_negative(function, access):
        return Refusal("its first index may be negative")
    is_available = _availability_at(function, op)
    varying = {s for d in access.dimensions for m in d.start.terms for s in m}
    if not all(writable(function, s, is_available) for s in varying):
        return Refusal("its first index is not available at the access")
    if isinstance(op, Load) and any(
        aliases(function).may_change(w, op) for w in changes_that_may_precede(function, op)
    ):
        return Refusal("an earlier op may write the memory it reads")
    return access


def _availability_at(function: Function, op: Op) -> Any:
    tree, block_of = dominance(function), defining_blocks(function)
    own, _ = places(function)[op]
    return lambda value: tree.dominates(block_of[value], own)


# Assumptions that the host guards --------------------------------------------------------------


def _assume_bounds(function: Function, candidates: list[Op]) -> Function:
    """`function` with assumptions on the ranges of the integers in bounds of indices."""
    forms, on_host = affine(function), host_values(function)
    minimum: dict[Value, int] = {}
    for op in candidates:
        mask = getattr(op, "mask", None)
        for bound in (forms.bounds(mask) or ()) if mask is not None else ():
            for side in (bound.left, bound.right):
                for value, floor in _minimums(function, side.offset):
                    minimum[value] = max(minimum.get(value, 0), floor)
    parameters = {p.value for p in function.parameters}
    entry = function.entry
    ops = [
        op for v in minimum if v in parameters and v in on_host for op in _assumption(v, minimum[v])
    ]
    blocks = {**function.blocks, entry.label: attrs.evolve(entry, ops=(*ops, *entry.ops))}
    return function.with_blocks(blocks)


def _minimums(function: Function, side: Polynomial) -> Iterator[tuple[Value, int]]:
    """The values in one side of a bound and the assumed minimum of each: 1 for an extent; 0 for a
    start, or for a value that is subtracted from an extent."""
    start = any(isinstance(s, Lane) for m in side.terms for s in m)
    for monomial, coefficient in side.terms.items():
        for symbol in sorted(monomial, key=lambda s: symbol_order(function, s)):
            if isinstance(symbol, Value):
                yield symbol, int(not start and coefficient > 0)


def _assumption(value: Value, least: int) -> list[Op]:
    """The ops that assume `least` <= `value` < `LARGEST`."""
    above = ICmp(value, constant(value.type, least), predicate_=IntegerPredicate.SGE)
    below = ICmp(value, constant(value.type, LARGEST), predicate_=IntegerPredicate.SLT)
    in_range = And(above.results[0], below.results[0])
    return [above, below, in_range, Assume(in_range.results[0])]


# Rewriting ---------------------------------------------------------------------------------------


def _rewrite(function: Function, accesses: Mapping[Op, TensorAccess]) -> Function:
    """`function` with the accesses replaced by accesses through descriptors, which the entry block
    makes."""
    entry = function.entry
    makers = {op: _make_descriptor(function, op, access) for op, access in accesses.items()}
    checks = list(host_checks(function, accesses))
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        ops: list[Op] = []
        for op in block.ops[:-1]:
            if op not in accesses:
                ops.append(op)
                continue
            if block is entry:
                ops += makers[op]
            ops += kernel_checks(function, accesses[op])
            ops += _descriptor_access(function, op, makers[op][-1].results[0], accesses[op])
        if block is entry:
            ops += [new for op in accesses if op not in entry.ops for new in makers[op]]
            ops += checks
        blocks[label] = attrs.evolve(block, ops=(*ops, block.terminator))
    return function.with_blocks(blocks)


def _make_descriptor(function: Function, op: Any, access: TensorAccess) -> list[Op]:
    """The ops that make the descriptor of `op`; the last one is `make_descriptor`. If the stride of
    a dimension may be 0, which no tensor map can have, the descriptor has another stride."""
    kind, emitter = op.pointer.type, PolynomialEmitter(function, I64)
    base: Operand = access.base
    if access.offset.terms:
        base = emitter.append(GetElementPtr(base, emitter.emit(access.offset)))
    pairs: list[Operand] = []
    for d in access.dimensions:
        extent = constant(I64, FARTHEST) if d.extent is None else emitter.emit(d.extent)
        stride = emitter.emit(d.stride)
        if (repeats := _repeats(emitter, op, d)) is not None:
            any_other = constant(I64, _CHUNK // kind.element.pointee.bytes)
            stride = emitter.append(Select(repeats, any_other, stride))
        pairs += [extent, stride]
    block = Tile(kind.element.pointee, access.block(kind.shape))
    emitter.append(MakeDescriptor(base, Descriptor(block), tuple(pairs), location=op.location))
    return emitter.ops


def _repeats(emitter: PolynomialEmitter, op: Op, dimension: TensorDimension) -> Operand | None:
    """The condition that a dimension has a stride of 0, if a block has one element along it, as
    along a batch: all blocks along it are then the first one. None for dimensions with bounds, and
    for strides that are not 0."""
    stride = dimension.stride
    if not isinstance(op, Load) or dimension.tile_dim is not None or dimension.extent is not None:
        return None
    if not stride.terms or () in stride.terms:  # a number
        return None
    emitted = emitter.emit(stride)
    return emitter.once(("repeats", emitted), lambda: _compare_with_zero(emitter, emitted))


def _compare_with_zero(emitter: PolynomialEmitter, operand: Operand) -> Operand:
    test = ICmp(operand, constant(I64, 0), predicate_=IntegerPredicate.EQ)
    emitter.append(test)
    return test.results[0]


def _descriptor_access(
    function: Function, op: Any, descriptor: Value, access: TensorAccess
) -> list[Op]:
    """The ops that replace `op` by an access through its descriptor."""
    emitter, kind = PolynomialEmitter(function, I64), op.pointer.type
    indices = tuple([_index(emitter, op, d) for d in access.dimensions])
    is_transposed = access.order != tuple(range(len(kind.shape)))
    if isinstance(op, Load):
        value: Operand = emitter.append(DescriptorLoad(descriptor, indices, location=op.location))
        shape = tuple(kind.shape[d] for d in access.order)
        value = _reshape(emitter, value, shape)
        if is_transposed:
            order = tuple(access.order.index(d) for d in range(len(kind.shape)))
            value = emitter.append(Trans(value, order=order, location=op.location))
        emitter.ops[-1] = attrs.evolve(emitter.ops[-1], results=op.results, comments=op.comments)
        return emitter.ops
    value = op.value
    if is_transposed:
        value = emitter.append(Trans(value, order=access.order, location=op.location))
    value = _reshape(emitter, value, access.block(kind.shape))
    stored: Op = DescriptorStore(descriptor, value, indices, location=op.location)
    if isinstance(op, AtomicRMW):
        stored = DescriptorReduce(descriptor, value, indices, op=op.op, location=op.location)
    return [*emitter.ops, attrs.evolve(stored, comments=op.comments)]


def _reshape(emitter: PolynomialEmitter, value: Operand, shape: tuple[int, ...]) -> Operand:
    if shape_of(value.type) == shape:
        return value
    kind = Tile(element_of(value.type), shape)  # type: ignore[arg-type]
    return emitter.append(Reshape(value, kind))


def _index(emitter: PolynomialEmitter, op: Op, dimension: TensorDimension) -> Operand:
    """The start clamped to i32: an index outside this range is outside every tensor. Along a
    dimension of stride 0 it is 0."""
    wide = emitter.emit(dimension.start)
    if isinstance(wide, Constant):
        return constant(I32, int(wide.value))
    index = emitter.once(("index", wide), lambda: _clamp_to_i32(emitter, wide))
    if (repeats := _repeats(emitter, op, dimension)) is None:
        return index
    return emitter.append(Select(repeats, constant(I32, 0), index))


def _clamp_to_i32(emitter: PolynomialEmitter, wide: Operand) -> Operand:
    lower = emitter.append(SMax(wide, constant(I64, -(1 << 31))))
    clamped = emitter.append(SMin(lower, constant(I64, FARTHEST)))
    return emitter.append(Trunc(clamped, to=I32))
