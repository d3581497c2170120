"""Programs for tests of `tileir-opt`."""

TEXT = """tir 1.0

define kernel void @f(i32* %p, i32 %n) {
entry:
  %a = add i32 %n, 0
  %b = add i32 %a, 1
  %c = add i32 %a, 1
  %d = mul i32 %b, %c
  store %p, %d
  ret
}

define kernel void @g(i32* %p, i32 %n) {
entry:
  %a = mul i32 %n, 1
  store %p, %a
  ret
}
"""
ONE = TEXT.partition("\ndefine kernel void @g")[0]
LOOP = """tir 1.0

define kernel void @f(i32* %p, i32* %q, i32 %n) {
entry:
  br loop
loop:
  %i = phi i32 [0, entry], [%j, loop]
  %x = load i32 %q
  store %p, %x
  %j = add i32 %i, 1
  %more, _ = icmp (i1, i1) %j, %n {predicate = slt}
  cond_br %more, loop, exit
exit:
  ret
}
"""
