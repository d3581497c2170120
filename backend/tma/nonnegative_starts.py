"""Starts of blocks that may be negative: refused, assumed by the host, or checked by the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tileir.analysis.cache import cached
from tileir.analysis.polynomial import Polynomial, ProgramIndex
from tileir.backend.tma.delinearize import HostFacts, TensorAccess
from tileir.backend.tma.host_expressions import host_values
from tileir.backend.transforms.polynomial_emitter import PolynomialEmitter
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.compare import ICmp, IntegerPredicate
from tileir.ops.hopper import DeviceAssert
from tileir.ops.program import Assume
from tileir.types import I64
from tileir.values import Value, constant


def host_checks(function: Function, chosen: Mapping[Op, TensorAccess]) -> Iterator[Op]:
    """That starts of which it is not certain are 0 or more, each once: by the host, where it can
    compute them. Those that are not known in the entry are checked where they are."""
    numbers = PolynomialEmitter(function, I64)
    unsure = [
        d.maybe_negative
        for found in chosen.values() for d in found.dimensions
        if d.maybe_negative.terms and is_early(function, d.maybe_negative)
    ]  # fmt: skip
    tested = {numbers.write(form): form for form in unsure}
    yield from numbers.ops
    known = host_values(function)
    for value, form in tested.items():
        test = ICmp(value, constant(I64, 0), predicate_=IntegerPredicate.SGE)
        early = all(s in known for m in form.terms for s in m)
        yield from (test, Assume(test.results[0]) if early else DeviceAssert(test.results[0]))


def kernel_checks(function: Function, found: TensorAccess) -> list[Op]:
    """That starts are 0 or more which only the access itself knows, as those read from memory."""
    numbers = PolynomialEmitter(function, I64)
    late = [d for d in found.dimensions if not is_early(function, d.maybe_negative)]
    tests = [numbers.write(d.maybe_negative) for d in late]
    for value in dict.fromkeys(tests):
        right = numbers.made(ICmp(value, constant(I64, 0), predicate_=IntegerPredicate.SGE))
        numbers.ops.append(DeviceAssert(right))
    return numbers.ops


def is_early(function: Function, form: Polynomial) -> bool:
    """Whether the entry can compute `form`."""
    early = entry_values(function)
    return all(isinstance(s, ProgramIndex) or s in early for m in form.terms for s in m)


def is_negative_at_origin(facts: HostFacts, form: Polynomial) -> bool:
    """Whether `form` is negative where all that it is made of is 0, and only grows; what the host
    computes it looks at."""
    others = {m: factor for m, factor in form.terms.items() if m}
    if others and all(map(facts.settled, others)):
        return False
    return form.terms.get((), 0) < 0 and all(factor > 0 for factor in others.values())


def may_be_negative(function: Function, found: TensorAccess) -> bool:
    """Whether an index that only its access knows may well be negative: it falls, or is one of
    elements that the base has been moved by."""
    late = [d.maybe_negative for d in found.dimensions if not is_early(function, d.maybe_negative)]
    falls = any(factor < 0 for form in late for factor in form.terms.values())
    return falls or bool(late and found.offset.terms)


@cached
def entry_values(function: Function) -> frozenset[Value]:
    """What the entry knows."""
    made = (v for op in function.entry.ops for v in op.results)
    return frozenset((*made, *(p.value for p in function.parameters)))
