"""The code that converts Python objects to numbers, and tests them against the conditions of an
argument."""

from __future__ import annotations

NUMBERS = """
; Whether %v is what the argument may be: within bounds, not 1 (flag 2), a multiple of the divisor
; or none (flag 1).
define internal i1 @fits(ptr %a, i64 %v) alwaysinline {
  %low = field %Arg %a, low
  %high = field %Arg %a, high
  %above = icmp sge i64 %v, %low
  %below = icmp sle i64 %v, %high
  %within = and i1 %above, %below
  %flags = field %Arg %a, flags
  %flag.one = and i32 %flags, 2
  %refuses.one = icmp ne i32 %flag.one, 0
  %one = icmp eq i64 %v, 1
  %wrong.one = and i1 %refuses.one, %one
  %not.wrong = xor i1 %wrong.one, true
  %good = and i1 %within, %not.wrong
  %divisor = field %Arg %a, divisor
  %any = icmp ule i32 %divisor, 1
  br i1 %any, label %done, label %divide
divide:
  %wide = zext i32 %divisor to i64
  %rest = urem i64 %v, %wide
  %divides = icmp eq i64 %rest, 0
  %flag.not = and i32 %flags, 1
  %wants = icmp eq i32 %flag.not, 0
  %agrees = icmp eq i1 %divides, %wants
  br label %done
done:
  %fine = phi i1 [ true, %0 ], [ %agrees, %divide ]
  %result = and i1 %good, %fine
  ret i1 %result
}

; The number that a Python integer holds; false, and no error left, where 64 bits do not.
define internal { i1, i64 } @number(ptr %o) alwaysinline {
  %v = call i64 @@PyLong_AsLongLong@@(ptr %o)
  %odd = icmp eq i64 %v, -1
  br i1 %odd, label %ask, label %good
ask:
  %error = call ptr @@PyErr_Occurred@@()
  %none = icmp eq ptr %error, null
  br i1 %none, label %good, label %bad
bad:
  call void @@PyErr_Clear@@()
  ret { i1, i64 } { i1 false, i64 0 }
good:
  %r = insertvalue { i1, i64 } { i1 true, i64 0 }, i64 %v, 1
  ret { i1, i64 } %r
}

; The number that a function of one object gives.
define internal { i1, i64 } @asked(ptr %function, ptr %o) {
  %list = alloca [2 x ptr]
  %first = getelementptr [2 x ptr], ptr %list, i32 0, i32 1
  store ptr %o, ptr %first
  %r = call ptr @@PyObject_Vectorcall@@(ptr %function, ptr %first, i64 @@ONE@@, ptr null)
  %failed = icmp eq ptr %r, null
  br i1 %failed, label %bad, label %good
bad:
  call void @@PyErr_Clear@@()
  ret { i1, i64 } { i1 false, i64 0 }
good:
  %v = call { i1, i64 } @number(ptr %r)
  call void @@Py_DecRef@@(ptr %r)
  ret { i1, i64 } %v
}

; Whether an attribute of an object is another object.
define internal i1 @is(ptr %o, ptr %name, ptr %expected) {
  %r = call ptr @@PyObject_GetAttr@@(ptr %o, ptr %name)
  %failed = icmp eq ptr %r, null
  br i1 %failed, label %bad, label %good
bad:
  call void @@PyErr_Clear@@()
  ret i1 false
good:
  call void @@Py_DecRef@@(ptr %r)
  %same = icmp eq ptr %r, %expected
  ret i1 %same
}
"""
