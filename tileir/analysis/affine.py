"""Affine forms: addresses as base plus indices times strides, and masks as bounds on them.

%row = program_id; %cols = make_range; %p = %x + %row * %stride + %cols
affine(f).of(%p)  =  base %x, offset  program_id * %stride + lane 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tileir.analysis import memoize
from tileir.analysis.affine_forms import AffineForm, Facts, Form, MaskComparison
from tileir.analysis.affine_rules import MASK_RULES, RULES, relabel
from tileir.analysis.cfg import cfg
from tileir.analysis.induction import InductionVariable, induction_variables
from tileir.analysis.loops import loops
from tileir.analysis.polynomial import Iteration, number, symbol
from tileir.analysis.ranges import Ranges, ranges
from tileir.ir import Function
from tileir.op import Op
from tileir.types import I1, Descriptor, Pointer, Scalar, element_of
from tileir.values import Constant, Operand, Value

__all__ = ["AffineForm", "AffineForms", "MaskComparison", "affine", "relabel"]


@attrs.frozen(weakref_slot=False)
class AffineForms:
    """The affine forms of a function's integers and pointers, and the bounds its masks check."""

    forms: Mapping[Value, Form]

    def of(self, operand: Operand) -> AffineForm | None:
        """The form of an integer or pointer, scalar or tile; None where it has none."""
        result = _read(self.forms, operand)
        return result if isinstance(result, AffineForm) else None

    def bounds(self, mask: Operand) -> tuple[MaskComparison, ...] | None:
        """The comparisons whose conjunction is `mask`; None if `mask` is no such conjunction.
        `true` has no bounds."""
        result = _read(self.forms, mask)
        return result if isinstance(result, tuple) else None


@memoize
def affine(function: Function) -> AffineForms:
    """The affine forms of `function`."""
    forms: dict[Value, Form] = {}
    for parameter in function.parameters:
        forms[parameter.value] = opaque(parameter.value)
    bounds = ranges(function)
    moving = _moving(function)
    for label in cfg(function).order:
        block = function.blocks[label]
        for value in block.parameters:
            forms[value] = _of_parameter(forms, value, label, moving.get(value))
        for op in block.ops:
            if op.results:
                forms.update(zip(op.results, _transfer(forms, op, bounds), strict=True))
    return AffineForms(forms)


def _moving(function: Function) -> dict[Value, InductionVariable]:
    return {
        variable.value: variable
        for loop in loops(function).by_header.values()
        for variable in induction_variables(function, loop)
    }


def opaque(value: Value) -> Form:
    """The form of a value that is not analysed further: a base pointer, or a scalar integer."""
    if isinstance(value.type, Pointer):
        return AffineForm(value, number(0))
    if isinstance(value.type, Scalar) and value.type.is_integer and value.type is not I1:
        return AffineForm(None, symbol(value))
    return None


def _read(forms: Mapping[Value, Form], operand: Operand) -> Form:
    if isinstance(operand, Value):
        return forms.get(operand)
    element = element_of(operand.type)
    if not isinstance(operand, Constant) or not isinstance(element, Scalar):
        return None
    if element is I1:
        return () if operand.bits else None
    return AffineForm(None, number(int(operand.value))) if element.is_integer else None


def _of_parameter(
    forms: Mapping[Value, Form], value: Value, label: str, variable: InductionVariable | None
) -> Form:
    """An induction variable is its start plus iterations times its step."""
    if variable is None:
        return opaque(value)
    start, step = _read(forms, variable.start), _read(forms, variable.step)
    if (
        not isinstance(start, AffineForm)
        or not isinstance(step, AffineForm)
        or step.base is not None
    ):
        return opaque(value)
    moved = step.offset * symbol(Iteration(label))
    offset = start.offset - moved if variable.falling else start.offset + moved
    wraps = () if variable.update.mnemonic == "getelementptr" else (variable.update,)
    assuming = start.assuming | step.assuming | frozenset(wraps)
    return opaque(value) if offset.too_large else AffineForm(start.base, offset, assuming)


def _transfer(forms: Mapping[Value, Form], op: Op, bounds: Ranges) -> Sequence[Form]:
    rules: Mapping[str, Any] = MASK_RULES if _makes_mask(op) else RULES
    rule = rules.get(op.mnemonic)
    if rule is None or op.predicate is not None or isinstance(op.results[0].type, Descriptor):
        return [opaque(v) for v in op.results]
    facts: Facts = [_read(forms, v) for v in op.inputs]
    form: Form = rule(op, facts, bounds)
    if isinstance(form, AffineForm) and form.offset.too_large:
        form = None
    first = opaque(op.results[0]) if form is None else form
    return [first, *(opaque(v) for v in op.results[1:])]


def _makes_mask(op: Op) -> bool:
    return element_of(op.results[0].type) is I1
