"""Starts of blocks that may be negative: refused, guarded by the host, or checked by the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tileir.analysis import memoize
from tileir.analysis.polynomial import Polynomial, ProgramIndex
from tileir.backend.tma.delinearize import HostFacts, TensorAccess
from tileir.backend.tma.host_expressions import host_values
from tileir.backend.transforms.polynomial_emitter import PolynomialEmitter
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import ICmp, IntegerPredicate
from tileir.ops.hints import Assume
from tileir.ops.hopper import DeviceAssert
from tileir.types import I64
from tileir.values import Value, constant


def host_checks(function: Function, chosen: Mapping[Op, TensorAccess]) -> Iterator[Op]:
    """Checks in the entry block that starts are nonnegative, each once. A check is an `assume`,
    which the host guards, if the host can compute the start; otherwise it is an assertion. Starts
    that the entry block cannot compute are checked by `kernel_checks`."""
    emitter = PolynomialEmitter(function, I64)
    forms = [
        d.maybe_negative
        for access in chosen.values() for d in access.dimensions
        if d.maybe_negative.terms and is_computable_in_entry(function, d.maybe_negative)
    ]  # fmt: skip
    form_of = {emitter.emit(form): form for form in forms}
    yield from emitter.ops
    on_host = host_values(function)
    for value, form in form_of.items():
        test = ICmp(value, constant(I64, 0), predicate_=IntegerPredicate.SGE)
        is_on_host = all(s in on_host for m in form.terms for s in m)
        yield from (test, Assume(test.results[0]) if is_on_host else DeviceAssert(test.results[0]))


def kernel_checks(function: Function, access: TensorAccess) -> list[Op]:
    """Assertions before an access that its starts are nonnegative, for starts that the entry block
    cannot compute, such as those loaded from memory."""
    emitter = PolynomialEmitter(function, I64)
    unchecked = [
        d for d in access.dimensions if not is_computable_in_entry(function, d.maybe_negative)
    ]
    values = [emitter.emit(d.maybe_negative) for d in unchecked]
    for value in dict.fromkeys(values):
        condition = emitter.append(ICmp(value, constant(I64, 0), predicate_=IntegerPredicate.SGE))
        emitter.ops.append(DeviceAssert(condition))
    return emitter.ops


def is_computable_in_entry(function: Function, form: Polynomial) -> bool:
    """Whether the entry block can compute `form`."""
    available = entry_values(function)
    return all(isinstance(s, ProgramIndex) or s in available for m in form.terms for s in m)


def is_negative_at_origin(facts: HostFacts, form: Polynomial) -> bool:
    """Whether `form` is negative where all its symbols are 0, and increases in each of them. False
    if the host can compute it: the launcher then checks the value."""
    variable_terms = {m: coefficient for m, coefficient in form.terms.items() if m}
    if variable_terms and all(map(facts.is_host_computable, variable_terms)):
        return False
    return form.terms.get((), 0) < 0 and all(
        coefficient > 0 for coefficient in variable_terms.values()
    )


def may_be_negative(function: Function, access: TensorAccess) -> bool:
    """Whether a start that the entry block cannot compute may well be negative: it decreases in a
    symbol, or the base of the access has an offset."""
    forms = [
        d.maybe_negative
        for d in access.dimensions
        if not is_computable_in_entry(function, d.maybe_negative)
    ]
    decreases = any(coefficient < 0 for form in forms for coefficient in form.terms.values())
    return decreases or bool(forms and access.offset.terms)


@memoize
def entry_values(function: Function) -> frozenset[Value]:
    """The parameters, and the values defined in the entry block."""
    results = (v for op in function.entry.ops for v in op.results)
    return frozenset((*results, *(p.value for p in function.parameters)))
