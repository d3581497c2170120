"""The named combiners of reductions and scans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.backend.codegen.rules.floats import extreme
from tileir.types import I1, Element
from tileir.values import encode

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread

_EXTREMES = ("fminimum", "fmaximum", "fminnum", "fmaxnum")
_INTRINSICS = ("smin", "smax", "umin", "umax")
_I1 = {"smin": "or", "smax": "and", "umin": "and", "umax": "or", "add": "xor", "mul": "and"}


def combine_named(t: Thread, name: str, element: Element, a: Handle, b: Handle) -> Handle:
    """Combine `a` and `b` by the combiner `name`."""
    if element is I1:
        return t.binary(_I1.get(name, name), element, a, b)
    if name in _EXTREMES:
        return extreme(t, name, element, a, b)
    if name in _INTRINSICS:
        return t.intrinsic(name, element, a, b)
    # The addition may be fused with a multiplication that has the same flag.
    return t.binary(name, element, a, b, "contract" if name == "fadd" else "")


def identity(name: str, element: Element) -> int:
    """The bits of the identity element of the combiner `name`."""
    ones = (1 << element.bits) - 1
    if name in ("add", "or", "xor", "umax"):
        return 0
    if name in ("and", "umin"):
        return ones
    if name in ("smin", "smax"):
        return ones >> 1 if name == "smin" else (ones >> 1) + 1
    if name == "mul":
        return 1
    numbers = {"fadd": -0.0, "fmul": 1.0, "fminimum": float("inf"), "fmaximum": float("-inf")}
    return encode(element, numbers.get(name, float("nan")))
