"""Every rule of every op, broken once: the code and the operand named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sizes import for_each
from tileir.errors import Location, VerifyError
from tileir.op import lookup
from tileir.ops.arith import IntegerPredicate, Overflow
from tileir.ops.cast import CastRounding
from tileir.ops.division import DivRounding
from tileir.ops.reduce import Combiner
from tileir.types import (
    F16,
    F32,
    I1,
    I32,
)  # fmt: skip
from tileir.values import Value, constant

from .type_errors import DI, FROW, INDEX, PF, ROW, TYPES, Case, t, v
from .usage_errors import RULES

HERE = Location("k.tir", 7, 3)

GENERAL: list[Case] = [
    ("sdiv", ROW, {"rounding": "floor"}, "TIR0106", "rounding"),
    ("srem", ROW, {"rounding": DivRounding.CEIL}, "TIR0106", "rounding"),
    ("add", ROW, {"overflow": 1}, "TIR0106", "overflow"),
    ("mul", (v(I32), 3), {"overflow": Overflow.NSW}, "TIR0105", "rhs"),
    ("fptrunc", (None, F16), {"rounding": CastRounding.ZERO}, "TIR0105", "value"),
    ("load", (v(PF, 8),), {"predicate": v(I1, 4)}, "TIR0104", "predicate"),
    ("store", (v(PF, 8), v(F32, 8)), {"predicate": v(I1, 4)}, "TIR0104", "predicate"),
    ("store", (v(PF), v(F32)), {"predicate": v(I1, 4)}, "TIR0104", "predicate"),
    ("reduce", (v(F32, 8),), {"_variadic": "values", "combiner": Combiner.FADD,
                              "predicate": v(I1, 4)}, "TIR0104", "predicate"),
    ("fadd", FROW, {"predicate": v(I32)}, "TIR0104", "predicate"),
    ("descriptor_load", (DI,), {"indices": (INDEX,), "predicate": v(I1, 8)}, "TIR0104",
     "predicate"),
    ("exp", (v(F32, 8),), {"results": (Value(t(F32, 4)),)}, "TIR0102", "results"),
    ("split", (v(F32, 8, 2),), {"results": (Value(t(F32, 8)),)}, "TIR0102", "results"),
    ("icmp", ROW, {"predicate_": IntegerPredicate.EQ, "results": (Value(t(I1, 8)),)}, "TIR0102",
     "results"),
    ("store", (v(PF), v(F32)), {"results": (v(F32),)}, "TIR0102", "results"),
]  # fmt: skip

CASES = TYPES + RULES + GENERAL


@for_each("number", range(len(CASES)))
def test_a_broken_rule_is_named(number: int) -> None:
    name, arguments, settings, code, operand = CASES[number]
    with pytest.raises(VerifyError) as caught:
        build(name, arguments, settings)
    diagnostic = caught.value.diagnostics[0]
    assert (diagnostic.code, diagnostic.operand) == (code, operand), diagnostic
    assert (caught.value.line, caught.value.column) == (7, 3)
    assert diagnostic.message.startswith(name)


def build(name: str, arguments: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """The op; `_variadic` names the field that takes what is left of the arguments."""
    kind: Any = lookup(name)
    inputs = dict(settings)
    many = inputs.pop("_variadic", None)
    if many is not None:
        fields = [f.name for f in kind.schema if f.name != many]
        single = 0 if many in ("values", "arms") else 1
        inputs[many] = arguments[single:]
        inputs.update(zip(fields, arguments[:single], strict=False))
        arguments = ()
    return kind(*arguments, **inputs, location=HERE)


def test_the_cases_are_many_and_differ() -> None:
    keys = {(n, c, o, str(a), str(s)) for n, a, s, c, o in CASES}
    assert len(keys) == len(CASES) >= 150
    assert {f"TIR01{n:02}" for n in range(1, 18)} <= {c[3] for c in CASES}


def test_literals_fit_like_values() -> None:
    kind: Any = lookup("add")
    assert kind(v(I32), constant(I32, 1)).result.type is I32


@pytest.mark.parametrize(
    ("name", "arguments", "attribute", "fits", "alike"),
    [
        ("expand_dims", (v(F32, 4),), "axis", 1, True),
        ("fpcast", (v(F32), F16), "saturate", True, 1),
        ("fadd", FROW, "ftz", False, 0),
    ],
)
def test_what_python_considers_equal_is_distinguished(
    name: str, arguments: tuple[Any, ...], attribute: str, fits: Any, alike: Any
) -> None:
    kind: Any = lookup(name)
    assert kind(*arguments, **{attribute: fits}).results
    with pytest.raises(VerifyError) as caught:
        kind(*arguments, **{attribute: alike})
    assert caught.value.code == "TIR0106"


@pytest.mark.parametrize("name", ["multiple_of", "contiguous", "constant_run"])
def test_a_promise_is_of_positive_numbers_in_64_bits(name: str) -> None:
    most = (1 << 63) - 1
    for number in (1, most):
        assert build(name, (v(I32),), {"values": (number,)}).values == (number,)
    for number in (0, -1, most + 1):
        with pytest.raises(VerifyError) as caught:
            build(name, (v(I32),), {"values": (number,)})
        assert caught.value.code == "TIR0113"
