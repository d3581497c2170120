"""What the verifier says about predicates: warnings and remarks, where they belong."""

from __future__ import annotations

import pytest

from tests.verify.test_text import findings, place
from tileir.errors import Severity

HEADER = """define kernel void @k(f32* %x, i32* %y, i32 %n, f32 %f, i1 %c, i1 %d) {
entry:
  %r = make_range i32<8> {start = 0}
  %t = splat i32<8> %n
  %ps = splat f32*<8> %x
  %q = getelementptr f32*<8> %ps, %r
  %in, %out = icmp (i1<8>, i1<8>) %r, %t {predicate = slt}
  %low, %high = icmp (i1<8>, i1<8>) %r, 4 {predicate = slt}
"""

WARNED = [
    # a value defined under a predicate reaches memory where it may be undefined
    ("TIR0230", "@%in %v = load f32<8> %q\n  «store %q, %v"),
    ("TIR0230", "@%in %v = load f32<8> %q\n  «store %q, %v, %out"),
    ("TIR0230", "@%in %v = load f32<8> %q\n  «@%out store %q, %v"),
    ("TIR0230", "@%in %v = load f32<8> %q\n  «@%low store %q, %v"),
    ("TIR0230", "@%in %v = load f32<8> %q\n  %w = fadd f32<8> %v, 1.0\n  «store %q, %w"),
    ("TIR0230", "@%in %v = load f32<8> %q\n  «%s = reduce f32 %v {axis = 0, combiner = fadd}"),
    ("TIR0230", "@%in %v = add i32<8> %r, 1\n  «%s = scan i32<8> %v {axis = 0, combiner = add}"),
    ("TIR0230", "@%in %i = add i32<8> %r, 1\n  %p = getelementptr f32*<8> %ps, %i\n"
     "  «%v = load f32<8> %p"),
    ("TIR0230", "@%in %v = load f32<8> %q\n  %w = select f32<8> %low, %v, 0.0\n  «store %q, %w"),
    ("TIR0230", "@%in %v = load f32<8> %q\n  %w = psi f32<8> [%in, 0.0], [%out, %v]\n"
     "  «store %q, %w"),
    ("TIR0230", "@%c %v = add i32 %n, 1\n  «store %y, %v"),
    ("TIR0230", "@%c %v = add i32 %n, 1\n  «@%d store %y, %v"),
    ("TIR0230", "@%c %v, _ = icmp (i1, i1) %n, 1 {predicate = eq}\n  «cond_br %v, a, a\na:"),
    ("TIR0230", "@%c %v = add i32 %n, 1\n  br j\nj:\n  %p = phi i32 [%v, entry]\n  «store %y, %p"),
    ("TIR0230", "@%in %v = load f32<8> %q\n  «print %v {prefix = \"v\"}"),
    ("TIR0230", "@%in %a, _ = icmp (i1<8>, i1<8>) %r, 2 {predicate = ne}\n"
     "  %w = and i1<8> %a, %low\n  «store %q, 0.0, %w"),
    ("TIR0230", "@%in %a, _ = icmp (i1<8>, i1<8>) %r, 2 {predicate = ne}\n"
     "  «@%a store %q, 0.0"),
    ("TIR0230", "@%c %a, _ = icmp (i1, i1) %n, 2 {predicate = ne}\n  «@%a %v = sdiv i32 9, %n"),
    # a mask does not mask itself, nor what stands for masked lanes
    ("TIR0230", "@%in %a, _ = icmp (i1<8>, i1<8>) %r, 2 {predicate = ne}\n"
     "  %w = and i1<8> %a, %in\n  «store %q, 0.0, %w"),
    ("TIR0230", "@%in %v = load f32<8> %q\n  «%w = load f32<8> %q, %in, %v"),
    # psi
    ("TIR0231", "«%v = psi i32<8> [%in, %r]"),
    ("TIR0231", "«%v = psi i32<8> [%in, %r], [%low, %t]"),
    ("TIR0231", "«%v = psi i32 [%c, %n], [%d, 1]"),
    ("TIR0232", "«%v = psi i32<8> [%in, %r], [%low, %t]"),
    ("TIR0232", "«%v = psi i32 [%c, %n], [%d, 1]"),
    ("TIR0233", "«%v = psi i32<8> [%in, %r], [i1 true, %t]"),
    ("TIR0233", "«%v = psi i32<8> [%in, %r], [%in, %t]"),
    ("TIR0233", "%a = and i1<8> %in, %low\n  «%v = psi i32<8> [%a, %r], [%in, %t]"),
    ("TIR0233", "«%v = psi i32<8> [%low, %r], [%in, %r], [%out, %t]"),
]  # fmt: skip

SILENT = [
    "@%in %h = histogram i32<4> %r\n  %i = make_range i32<4>\n  %ys = splat i32*<4> %y\n"
    "  %p = getelementptr i32*<4> %ys, %i\n  store %p, %h",
    "@%in %a, _ = icmp (i1<8>, i1<8>) %r, 2 {predicate = ne}\n"
    "  %w = select i1<8> %in, %a, false\n  @%w store %q, 0.0",
    "@%in %a, _ = icmp (i1<8>, i1<8>) %r, 2 {predicate = ne}\n  @%a %v = load f32<8> %q",
    "@%in %v = load f32<8> %q\n  @%in store %q, %v",
    "@%in %v = load f32<8> %q\n  store %q, %v, %in",
    "@%in %v = load f32<8> %q\n  %a = and i1<8> %in, %low\n  store %q, %v, %a",
    "@%in %v = load f32<8> %q\n  @%in %s = reduce f32 %v {axis = 0, combiner = fadd}",
    "@%in %v = load f32<8> %q\n  %w = psi f32<8> [%in, %v], [%out, 0.0]\n  store %q, %w",
    "@%in %v = load f32<8> %q\n  %w = psi f32<8> [i1 true, 0.0], [%in, %v]\n  store %q, %w",
    "@%in %v = load f32<8> %q\n  %w = select f32<8> %in, %v, 0.0\n  store %q, %w",
    "%not = xor i1<8> %in, true\n  @%not %v = load f32<8> %q\n  @%out store %q, %v",
    "%less, _ = icmp (i1<8>, i1<8>) %t, %r {predicate = sgt}\n"
    "  @%in %v = load f32<8> %q\n  @%less store %q, %v",
    "%not = xor i1<8> %in, true\n  %v = psi i32<8> [%in, %r], [%not, %t]",
    "%a = and i1<8> %in, %low\n  %b = and i1<8> %in, %high\n"
    "  %v = psi i32<8> [%a, %r], [%b, %t], [%out, 0]",
    "%a = and i1<8> %in, %low\n  %v = psi i32<8> [%in, %r], [%a, %t], [%out, 0]",
    "@%in %a, %b = icmp (i1<8>, i1<8>) %r, 2 {predicate = slt}\n"
    "  @%in %v = psi i32<8> [%a, %r], [%b, %t]\n  %p = psi i32<8> [i1 true, 0], [%in, %v]",
    "@%c %v = add i32 %n, 1\n  @%c store %y, %v",
    "@%in %a = add i32<8> %r, 1\n  %v = sdiv i32<8> %a, 2",
    "@%c %v = add i32 %n, 1\n  br j\nj:\n  %p = phi i32 [%n, entry]\n  %z = phi i32 [1, entry]",
    "%m = splat i1<8> %c\n  @%c %v = add i32<8> %r, 1\n  @%m store %q, 0.0",
]


def module_text(text: str) -> str:
    return HEADER + "  " + text + "\n  ret\n}\n"


@pytest.mark.parametrize(("code", "text"), WARNED)
def test_a_warning_points_at_the_read(code: str, text: str) -> None:
    diagnostic = findings(module_text(text))
    assert not [d for d in diagnostic if d.severity is Severity.ERROR], list(map(str, diagnostic))
    places = [(d.code, d.location.line, d.location.column) for d in diagnostic if d.location]
    assert (code, *place(module_text(text))) in places, list(map(str, diagnostic))


@pytest.mark.parametrize("text", SILENT)
def test_nothing_is_reported_of_values_that_are_defined_where_they_are_read(text: str) -> None:
    assert findings(module_text(text)) == ()
