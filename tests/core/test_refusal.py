"""Why a transformation does not apply: one remark, with the op in the way as a note."""

from tileir.errors import Location, Severity
from tileir.passmanager import run
from tileir.refusal import Refusal
from tileir.textual import parse

HERE, THERE = Location("k.tir", 3, 1), Location("k.tir", 7, 3)


def test_the_op_in_the_way_is_a_note() -> None:
    remark = Refusal("it writes", THERE).remark("TIR0653", "not pipelined", HERE)
    assert (remark.code, remark.message) == ("TIR0653", "not pipelined: it writes")
    assert (remark.severity, remark.location) == (Severity.REMARK, HERE)
    assert [(n.severity, n.location) for n in remark.notes] == [(Severity.NOTE, THERE)]


def test_a_refusal_without_a_place_of_its_own_has_no_note() -> None:
    for place in (None, HERE):
        assert not Refusal("it writes", place).remark("TIR0653", "not pipelined", HERE).notes


def test_a_pass_points_at_what_is_in_the_way() -> None:
    module = parse("""tir 1.0
define void @f(f32* %p, f32* %q, i32 %n) {
entry:
  br loop
loop:
  %i = phi i32 [0, entry], [%j, loop]
  %a = getelementptr f32* %p, %i
  %x = load f32 %a
  store %q, %x
  %j = add i32 %i, 1
  %c, _ = icmp (i1, i1) %j, %n {predicate = slt}
  cond_br %c, loop, done
done:
  ret
}
""")
    (remark,) = run(module, "prefetch-loads").remarks
    assert remark.location is not None and remark.location.line == 8
    (note,) = remark.notes
    assert note.location is not None and note.location.line == 9
