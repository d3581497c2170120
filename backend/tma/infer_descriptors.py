"""Tiles of pointers that are blocks of strided tensors, as accesses through descriptors."""

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
from tileir.backend.tma.preceding_ops import ops_that_may_precede
from tileir.backend.transforms.canonical_counters import add_canonical_induction_variables
from tileir.backend.transforms.polynomial_emitter import PolynomialEmitter, place_of, writable
from tileir.backend.warp_specialize.register_operands import feeds_only_operand_a, is_row
from tileir.effects import Effects
from tileir.errors import Diagnostic
from tileir.ir import Block, Function, Module
from tileir.op import Op
from tileir.ops.arith import And, SMax, SMin
from tileir.ops.atomic import AtomicKind, AtomicRMW, Order, Scope
from tileir.ops.cast import Trunc
from tileir.ops.compare import ICmp, IntegerPredicate
from tileir.ops.descriptor import (
    DescriptorLoad,
    DescriptorReduce,
    DescriptorStore,
    MakeDescriptor,
)
from tileir.ops.dot import Dot
from tileir.ops.memory import Load, Store
from tileir.ops.program import Assume
from tileir.ops.shape import GetElementPtr, Reshape, Trans
from tileir.passes.cse import cse
from tileir.passes.dce import dce
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal
from tileir.types import F32, I32, I64, Descriptor, Tile, element_of, shape_of
from tileir.values import Constant, Operand, Value, constant

LARGEST = 1 << 28
"""Extents and other numbers that bound indices are less than this, so that sums of few of them do
not wrap."""

FARTHEST = (1 << 31) - (1 << 12)
"""Where starts end and extents that nothing bounds: starts are multiples of up to 2^12 still."""
_CHUNK = 16
"""Bytes that rows of a box are multiples of (CUDA driver API, "Tensor Map")."""


@pass_("infer-descriptors")
def infer_descriptors(module: Module) -> PassResult:
    """Read what feeds dots, and write what comes of them, by blocks of tensors.

    A load whose pointers are a sum of starts, lanes times strides, and whose mask compares indices
    with extents, reads a block of a tensor: zeros outside, as the mask gives. A tile whose first
    dimension has the neighbours in memory is read as the other way round and transposed.
    Parameters that are extents are assumed to be in 1 to 2^28 - 1, others that masks add to
    indices in 0 to 2^28 - 1, which the launcher has to look at, and arithmetic of indices
    not to wrap: an access within its array does not. A start that could be negative, for all that
    is known, is checked, by the entry, or where it is used if memory says what it is: an element
    before the first of its row is read by pointers, not by a tensor. Parameters that are
    descriptors become a base, extents and strides.

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
    found = {name: infer_kernel_descriptors(f) for name, f in module.functions.items() if f.blocks}
    remarks = tuple(r for outcome in found.values() for r in outcome.remarks)
    count = sum(outcome.statistics.get("descriptors", 0) for outcome in found.values())
    if all(outcome.ir is module.functions[name] for name, outcome in found.items()):
        return PassResult(module, remarks)
    functions = {**module.functions, **{n: cast(Function, o.ir) for n, o in found.items()}}
    changed = module.evolve(functions=functions, stage=module.stage or "descriptors")
    return PassResult(changed, remarks, {"descriptors": count})


def infer_kernel_descriptors(function: Function) -> PassResult:
    """The same for one function."""
    function = expand_descriptor_parameters(function)
    found = list(_candidates(function))
    if not found:
        return PassResult(function)
    guarded = _guarded(add_canonical_induction_variables(function), found)
    facts = _facts(guarded)
    remarks: list[Diagnostic] = []
    chosen: dict[Op, TensorAccess] = {}
    for op in found:
        answer = _description(guarded, facts, op)
        if isinstance(op, Load) and is_row(op) and not is_always_mappable(guarded, op, answer):
            continue
        if isinstance(answer, Refusal):
            remarks.append(answer.remark("TIR0653", "no tensor map", op.location))
        else:
            chosen[op] = answer
    if not any(isinstance(op, Load) and not is_row(op) for op in chosen):
        return PassResult(function, tuple(remarks))
    changed = _rewritten(guarded, chosen)
    return PassResult(dce(cse(changed)), tuple(remarks), {"descriptors": len(chosen)})


# Which accesses ---------------------------------------------------------------------------------


def _candidates(function: Function) -> Iterator[Op]:
    """Loads that only feed dots, as they are or by ops on registers, and, where there are any,
    stores of matrices and what is added to them."""
    loads = [
        op
        for op in function.ops
        if isinstance(op, Load) and _plain(op)
        and (_feeds(function, op) or feeds_only_operand_a(function, op))
    ]  # fmt: skip
    yield from loads
    if loads:
        stores = (op for op in function.ops if _writes(function, op))
        yield from (op for op in stores if len(shape_of(cast(Any, op).value.type)) > 1)


def _writes(function: Function, op: Op) -> bool:
    """Whether all that an op does is to write a tile, or to add it to memory, which nothing then
    has to find there: copies make it when the kernel is at its end at the latest."""
    if isinstance(op, Store):
        return _plain(op)
    if not _adds(function, op):
        return False
    others = [o for o in function.ops if o.effects and not _adds(function, o)]
    known = aliases(function)
    return not any(
        o.effects & Effects.SYNC or known.may_change(o, op) or _may_find(function, o, op)
        for o in others
    )


def _adds(function: Function, op: Op) -> bool:
    """Whether an op adds f32 to memory, in no order with anything, and is asked for no more."""
    if not isinstance(op, AtomicRMW) or op.predicate is not None:
        return False
    relaxed = op.sem is Order.RELAXED and op.scope is Scope.GPU
    floats = op.op is AtomicKind.FADD and element_of(op.value.type) is F32
    return relaxed and floats and not uses(function).get(op.result)


def _may_find(function: Function, reader: Op, op: Op) -> bool:
    """Whether `reader` may read what `op` wrote."""
    return bool(reader.effects & Effects.READ) and aliases(function).may_change(op, reader)


def _plain(op: Any) -> bool:
    other = getattr(op, "other", None)
    zero = other is None or (isinstance(other, Constant) and not other.bits)
    return zero and not op.volatile and op.predicate is None


def _feeds(function: Function, op: Op) -> bool:
    """Whether all that reads a result, as it is, transposed or reshaped, are factors of dots."""
    value = op.results[0]
    if not isinstance(value.type, Tile) or len(value.type.shape) < 2:
        return False
    readers = uses(function).get(value, ())
    return bool(readers) and all(
        (isinstance(r, Dot) and value is not r.c)
        or (isinstance(r, (Trans, Reshape)) and _feeds(function, r))
        for r in readers
    )


def _facts(function: Function) -> HostFacts:
    known, early = host_values(function), entry_values(function)
    return HostFacts(affine(function), ranges(function), known.__contains__, early.__contains__)


def _description(function: Function, facts: HostFacts, op: Any) -> TensorAccess | Refusal:
    kind = op.pointer.type
    element = kind.element.pointee
    found = delinearize(facts, op.pointer, op.mask, len(kind.shape))
    if isinstance(found, Refusal):
        return found
    if kind.shape[found.order[-1]] * element.bytes % _CHUNK:
        return Refusal(f"its rows are no multiples of {_CHUNK} bytes")
    if not facts.known(found.base):
        return Refusal("its base is not known to the host")
    if any(is_negative_at_origin(facts, d.maybe_negative) for d in found.dimensions):
        return Refusal("an index begins below 0")
    if may_be_negative(function, found):
        return Refusal("an index may be negative")
    reached = _reached(function, op)
    moving = {s for d in found.dimensions for m in d.start.terms for s in m}
    if not all(writable(function, s, reached) for s in moving):
        return Refusal("an index cannot be computed where it is needed")
    if isinstance(op, Load) and any(
        aliases(function).may_change(w, op) for w in ops_that_may_precede(function, op)
    ):
        return Refusal("what it reads may be written before")
    return found


def _reached(function: Function, op: Op) -> Any:
    tree, place = dominance(function), defining_blocks(function)
    here = next(n for n, b in function.blocks.items() if op in b.ops)
    return lambda value: tree.dominates(place[value], here)


# What the host has to look at ------------------------------------------------------------------


def _guarded(function: Function, found: list[Op]) -> Function:
    """`function` with the integers that bound indices assumed not to be negative or too large."""
    forms, known = affine(function), host_values(function)
    least: dict[Value, int] = {}
    for op in found:
        mask = getattr(op, "mask", None)
        for bound in (forms.bounds(mask) or ()) if mask is not None else ():
            for side in (bound.left, bound.right):
                for value, floor in _floors(function, side.offset):
                    least[value] = max(least.get(value, 0), floor)
    parameters = {p.value for p in function.parameters}
    entry = function.entry
    ops = [op for v in least if v in parameters and v in known for op in _assumed(v, least[v])]
    blocks = {**function.blocks, entry.label: attrs.evolve(entry, ops=(*ops, *entry.ops))}
    return function.with_blocks(blocks)


def _floors(function: Function, side: Polynomial) -> Iterator[tuple[Value, int]]:
    """The values in one side of a bound, and what each is at least: 1 in an extent, 0 in what
    lanes are added to or an extent is less by."""
    start = any(isinstance(s, Lane) for m in side.terms for s in m)
    for monomial, factor in side.terms.items():
        for which in sorted(monomial, key=lambda s: place_of(function, s)):
            if isinstance(which, Value):
                yield which, int(not start and factor > 0)


def _assumed(value: Value, least: int) -> list[Op]:
    """The promise that `value` is in `least` to `LARGEST` - 1."""
    above = ICmp(value, constant(value.type, least), predicate_=IntegerPredicate.SGE)
    below = ICmp(value, constant(value.type, LARGEST), predicate_=IntegerPredicate.SLT)
    both = And(above.results[0], below.results[0])
    return [above, below, both, Assume(both.results[0])]


# Writing it --------------------------------------------------------------------------------------


def _rewritten(function: Function, chosen: Mapping[Op, TensorAccess]) -> Function:
    """`function` with the chosen accesses through descriptors, which are made in the entry."""
    entry = function.entry
    makers = {op: _maker(function, op, found) for op, found in chosen.items()}
    checks = list(host_checks(function, chosen))
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        ops: list[Op] = []
        for op in block.ops[:-1]:
            if op not in chosen:
                ops.append(op)
                continue
            if block is entry:
                ops += makers[op]
            ops += kernel_checks(function, chosen[op])
            ops += _access(function, op, makers[op][-1].results[0], chosen[op])
        if block is entry:
            ops += [new for op in chosen if op not in entry.ops for new in makers[op]]
            ops += checks
        blocks[label] = attrs.evolve(block, ops=(*ops, block.terminator))
    return function.with_blocks(blocks)


def _maker(function: Function, op: Any, found: TensorAccess) -> list[Op]:
    """What makes the descriptor of `op`, last the op that does."""
    kind, numbers = op.pointer.type, PolynomialEmitter(function, I64)
    base: Operand = found.base
    if found.offset.terms:
        base = numbers.made(GetElementPtr(base, numbers.write(found.offset)))
    pairs: list[Operand] = []
    for d in found.dimensions:
        extent = constant(I64, FARTHEST) if d.extent is None else numbers.write(d.extent)
        pairs += [extent, numbers.write(d.stride)]
    block = Tile(kind.element.pointee, found.block(kind.shape))
    numbers.made(MakeDescriptor(base, Descriptor(block), tuple(pairs), location=op.location))
    return numbers.ops


def _access(function: Function, op: Any, descriptor: Value, found: TensorAccess) -> list[Op]:
    """`op` through its descriptor."""
    numbers, kind = PolynomialEmitter(function, I64), op.pointer.type
    indices = tuple([_index(numbers, d) for d in found.dimensions])
    turned = found.order != tuple(range(len(kind.shape)))
    if isinstance(op, Load):
        value: Operand = numbers.made(DescriptorLoad(descriptor, indices, location=op.location))
        shape = tuple(kind.shape[d] for d in found.order)
        value = _reshaped(numbers, value, shape)
        if turned:
            order = tuple(found.order.index(d) for d in range(len(kind.shape)))
            value = numbers.made(Trans(value, order=order, location=op.location))
        numbers.ops[-1] = attrs.evolve(numbers.ops[-1], results=op.results, comments=op.comments)
        return numbers.ops
    value = op.value
    if turned:
        value = numbers.made(Trans(value, order=found.order, location=op.location))
    value = _reshaped(numbers, value, found.block(kind.shape))
    stored: Op = DescriptorStore(descriptor, value, indices, location=op.location)
    if isinstance(op, AtomicRMW):
        stored = DescriptorReduce(descriptor, value, indices, op=op.op, location=op.location)
    return [*numbers.ops, attrs.evolve(stored, comments=op.comments)]


def _reshaped(numbers: PolynomialEmitter, value: Operand, shape: tuple[int, ...]) -> Operand:
    if shape_of(value.type) == shape:
        return value
    kind = Tile(element_of(value.type), shape)  # type: ignore[arg-type]
    return numbers.made(Reshape(value, kind))


def _index(numbers: PolynomialEmitter, dimension: TensorDimension) -> Operand:
    """The start as an i32: what is out of its range is out of every tensor, too."""
    wide = numbers.write(dimension.start)
    if isinstance(wide, Constant):
        return constant(I32, int(wide.value))
    return numbers.once(("index", wide), lambda: _narrowed(numbers, wide))


def _narrowed(numbers: PolynomialEmitter, wide: Operand) -> Operand:
    least = numbers.made(SMax(wide, constant(I64, -(1 << 31))))
    most = numbers.made(SMin(least, constant(I64, FARTHEST)))
    return numbers.made(Trunc(most, to=I32))
