"""One argument: whether an object matches the description, and its value stored at its offset."""

from __future__ import annotations

ARGUMENT = """
; Whether the object %o is what %a describes; its value is then stored at its offset.
define internal i1 @take(ptr %a, ptr %o, ptr %values, ptr %stream) {
  %kind = field %Arg %a, kind
  %p.type = address %Arg %a, type
  %word = field %Arg %a, offset
  %object = field %Arg %a, object
  %reader = field %Arg %a, reader
  %p.own = getelementptr i8, ptr %o, i64 8
  %own = load ptr, ptr %p.own
  switch i32 %kind, label %no [
    i32 0, label %constant
    i32 1, label %integer
    i32 2, label %float
    i32 3, label %double
    i32 4, label %bool
    i32 5, label %tensor
    i32 6, label %read
    i32 7, label %queue
    i32 8, label %whole
    i32 9, label %equal
    i32 10, label %bits
  ]
constant:
  %same = icmp eq ptr %o, %object
  ret i1 %same
integer:
  %is.int = icmp eq ptr %own, @@PyLong_Type@@
  br i1 %is.int, label %integer.value, label %no
integer.value:
  %i = call { i1, i64 } @number(ptr %o)
  br label %checked
float:
  %f = call { i1, double } @real(ptr %a, ptr %own, ptr %o)
  %f.good = extractvalue { i1, double } %f, 0
  %f.double = extractvalue { i1, double } %f, 1
  %f.single = fptrunc double %f.double to float
  %f.bits = bitcast float %f.single to i32
  %f.wide = zext i32 %f.bits to i64
  br i1 %f.good, label %stored, label %no
double:
  %d = call { i1, double } @real(ptr %a, ptr %own, ptr %o)
  %d.good = extractvalue { i1, double } %d, 0
  %d.double = extractvalue { i1, double } %d, 1
  %d.bits = bitcast double %d.double to i64
  br i1 %d.good, label %stored, label %no
bool:
  %is.bool = icmp eq ptr %own, @@PyBool_Type@@
  %is.true = icmp eq ptr %o, @@True@@
  %bit = zext i1 %is.true to i64
  br i1 %is.bool, label %stored, label %no
tensor:
  %type = load ptr, ptr %p.type
  %is.tensor = icmp eq ptr %own, %type
  br i1 %is.tensor, label %tensor.place, label %no
tensor.place:
  %several = icmp ne ptr %reader, null
  br i1 %several, label %tensor.device, label %tensor.cuda
tensor.device:
  %found = call { i1, i64 } @asked(ptr %reader, ptr %o)
  %found.good = extractvalue { i1, i64 } %found, 0
  %found.value = extractvalue { i1, i64 } %found, 1
  %device = field %Arg %a, device
  %found.same = icmp eq i64 %found.value, %device
  %there = and i1 %found.good, %found.same
  br i1 %there, label %tensor.dtype, label %no
tensor.cuda:
  %on.gpu = call i1 @is(ptr %o, ptr @@"is_cuda"@@, ptr @@True@@)
  br i1 %on.gpu, label %tensor.dtype, label %no
tensor.dtype:
  %dtype = field %Arg %a, dtype
  %any.dtype = icmp eq ptr %dtype, null
  br i1 %any.dtype, label %tensor.address, label %tensor.typed
tensor.typed:
  %typed = call i1 @is(ptr %o, ptr @@"dtype"@@, ptr %dtype)
  br i1 %typed, label %tensor.address, label %no
tensor.address:
  %address = call { i1, i64 } @asked(ptr %object, ptr %o)
  br label %checked
read:
  %r = call { i1, i64 } @asked(ptr %reader, ptr %o)
  br label %checked
queue:
  %is.handle = icmp eq ptr %own, @@PyLong_Type@@
  br i1 %is.handle, label %queue.value, label %no
queue.value:
  %q = call { i1, i64 } @number(ptr %o)
  %q.good = extractvalue { i1, i64 } %q, 0
  %q.value = extractvalue { i1, i64 } %q, 1
  store i64 %q.value, ptr %stream
  ret i1 %q.good
whole:
  %whole.type = load ptr, ptr %p.type
  %is.whole = icmp eq ptr %own, %whole.type
  br i1 %is.whole, label %whole.parts, label %no
whole.parts:
  %complete = call i1 @parts(ptr %a, ptr %o, ptr %values, ptr %stream)
  ret i1 %complete
equal:
  %equal.type = load ptr, ptr %p.type
  %is.alike = icmp eq ptr %own, %equal.type
  br i1 %is.alike, label %equal.compare, label %no
equal.compare:
  %compared = call i32 @@PyObject_RichCompareBool@@(ptr %o, ptr %object, i32 2)
  %compare.error = icmp slt i32 %compared, 0
  br i1 %compare.error, label %equal.failed, label %equal.answer
equal.failed:
  call void @@PyErr_Clear@@()
  ret i1 false
equal.answer:
  %is.equal = icmp eq i32 %compared, 1
  ret i1 %is.equal
bits:
  %is.real = icmp eq ptr %own, @@PyFloat_Type@@
  br i1 %is.real, label %bits.compare, label %no
bits.compare:
  %real = call double @@PyFloat_AsDouble@@(ptr %o)
  %real.bits = bitcast double %real to i64
  %bits.expected = field %Arg %a, low
  %same.bits = icmp eq i64 %real.bits, %bits.expected
  ret i1 %same.bits
checked:
  %n = phi { i1, i64 } [ %i, %integer.value ], [ %address, %tensor.address ], [ %r, %read ]
  %n.good = extractvalue { i1, i64 } %n, 0
  %n.value = extractvalue { i1, i64 } %n, 1
  br i1 %n.good, label %bounds, label %no
bounds:
  %fits = call i1 @fits(ptr %a, i64 %n.value)
  br i1 %fits, label %stored, label %no
stored:
  %value = phi i64 [ %f.wide, %float ], [ %d.bits, %double ], [ %bit, %bool ], [ %n.value, %bounds ]
  %passed = icmp sge i32 %word, 0
  br i1 %passed, label %store, label %yes
store:
  %where = getelementptr i64, ptr %values, i32 %word
  store i64 %value, ptr %where
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether an object has as many items as %a says, and its parts are what %a describes.
define internal i1 @parts(ptr %a, ptr %o, ptr %values, ptr %stream) {
  %list = alloca [2 x ptr]
  %first = getelementptr [2 x ptr], ptr %list, i32 0, i32 1
  %length = field %Arg %a, low
  %parts = field %Arg %a, parts
  %count = field %Arg %a, count
  %any.length = icmp slt i64 %length, 0
  br i1 %any.length, label %next, label %measure
measure:
  %size = call i64 @@PyObject_Size@@(ptr %o)
  %as.long = icmp eq i64 %size, %length
  br i1 %as.long, label %next, label %wrong
next:
  %i = phi i64 [ 0, %0 ], [ 0, %measure ], [ %after, %compared ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %yes
one:
  %after = add i64 %i, 1
  %part = getelementptr %Part, ptr %parts, i64 %i
  %access = field %Part %part, access
  %member = field %Part %part, member
  %arg = field %Part %part, arg
  store ptr %o, ptr %first
  switch i64 %access, label %itself [
    i64 0, label %item
    i64 1, label %attribute
    i64 2, label %method
    i64 3, label %function
  ]
item:
  %index = ptrtoint ptr %member to i64
  %by.index = call ptr @@PySequence_GetItem@@(ptr %o, i64 %index)
  br label %obtained
attribute:
  %by.name = call ptr @@PyObject_GetAttr@@(ptr %o, ptr %member)
  br label %obtained
method:
  %by.method = call ptr @@PyObject_VectorcallMethod@@(ptr %member, ptr %first, i64 @@ONE@@,
                                                      ptr null)
  br label %obtained
function:
  %by.function = call ptr @@PyObject_Vectorcall@@(ptr %member, ptr %first, i64 @@ONE@@, ptr null)
  br label %obtained
itself:
  call void @@Py_IncRef@@(ptr %o)
  br label %obtained
obtained:
  %p = phi ptr [ %by.index, %item ], [ %by.name, %attribute ], [ %by.method, %method ],
               [ %by.function, %function ], [ %o, %itself ]
  %none = icmp eq ptr %p, null
  br i1 %none, label %wrong, label %compare
compare:
  %fits = call i1 @take(ptr %arg, ptr %p, ptr %values, ptr %stream)
  call void @@Py_DecRef@@(ptr %p)
  br i1 %fits, label %compared, label %no
compared:
  br label %next
yes:
  ret i1 true
wrong:
  call void @@PyErr_Clear@@()
  br label %no
no:
  ret i1 false
}

; The number that a Python float holds, or an integer where flag 4 allows it.
define internal { i1, double } @real(ptr %a, ptr %own, ptr %o) alwaysinline {
  %is.float = icmp eq ptr %own, @@PyFloat_Type@@
  %is.int = icmp eq ptr %own, @@PyLong_Type@@
  %flags = field %Arg %a, flags
  %flag = and i32 %flags, 4
  %allowed = icmp ne i32 %flag, 0
  %int.too = and i1 %is.int, %allowed
  %right = or i1 %is.float, %int.too
  br i1 %right, label %take, label %no
take:
  %v = call double @@PyFloat_AsDouble@@(ptr %o)
  %odd = fcmp oeq double %v, -1.0
  br i1 %odd, label %ask, label %yes
ask:
  %error = call ptr @@PyErr_Occurred@@()
  %none = icmp eq ptr %error, null
  br i1 %none, label %yes, label %bad
bad:
  call void @@PyErr_Clear@@()
  br label %no
yes:
  %r = insertvalue { i1, double } { i1 true, double 0.0 }, double %v, 1
  ret { i1, double } %r
no:
  ret { i1, double } { i1 false, double 0.0 }
}
"""
