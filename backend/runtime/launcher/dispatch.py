"""The function that Python calls. It compares the arguments with the recorded entries, packs them
and calls the driver, without allocating a Python object."""

from __future__ import annotations

from tileir.backend.runtime.launcher.argument import ARGUMENT
from tileir.backend.runtime.launcher.grid import GRID
from tileir.backend.runtime.launcher.numbers import NUMBERS
from tileir.backend.runtime.launcher.program import MAPS
from tileir.backend.runtime.launcher.structures import with_structures

ONE = -(1 << 63) + 1
"""One argument, with a free entry before it: PY_VECTORCALL_ARGUMENTS_OFFSET (Python's C API)."""

MAX_WORDS = 512
"""The most words that a kernel is passed by this launcher."""

DISPATCH = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Whether two tuples of names of keywords are the same.
define internal i1 @named(ptr %a, ptr %b) {
  %same = icmp eq ptr %a, %b
  br i1 %same, label %yes, label %both
both:
  %no.a = icmp eq ptr %a, null
  %no.b = icmp eq ptr %b, null
  %no.one = or i1 %no.a, %no.b
  br i1 %no.one, label %no, label %sizes
sizes:
  %n.a = call i64 @@PyTuple_Size@@(ptr %a)
  %n.b = call i64 @@PyTuple_Size@@(ptr %b)
  %equal = icmp eq i64 %n.a, %n.b
  br i1 %equal, label %each, label %no
each:
  %i = phi i64 [ 0, %sizes ], [ %after, %next ]
  %more = icmp slt i64 %i, %n.a
  br i1 %more, label %compare, label %yes
compare:
  %x = call ptr @@PyTuple_GetItem@@(ptr %a, i64 %i)
  %y = call ptr @@PyTuple_GetItem@@(ptr %b, i64 %i)
  %alike = icmp eq ptr %x, %y
  br i1 %alike, label %next, label %no
next:
  %after = add i64 %i, 1
  br label %each
yes:
  ret i1 true
no:
  ret i1 false
}

; The function that Python calls: grid, arguments, keywords, as METH_FASTCALL | METH_KEYWORDS.
define ptr @dispatch(ptr %self, ptr %vector, i64 %positional, ptr %names) {
  %values = alloca [@@MAX_WORDS@@ x i64]
  %pointers = alloca [@@POINTERS@@ x ptr]
  %maps = alloca [@@MAPS@@ x [128 x i8]], align 64
  %grid = alloca [3 x i64]
  %stream.given = alloca i64
  %state = call ptr @@PyLong_AsVoidPtr@@(ptr %self)
  %few = icmp slt i64 %positional, 1
  br i1 %few, label %slow, label %start
start:
  %first = field %State %state, first
  br label %entry
entry:
  %e = phi ptr [ %first, %start ], [ %e.next, %other ]
  %end = icmp eq ptr %e, null
  br i1 %end, label %slow, label %shape
shape:
  %e.next = field %Entry %e, next
  %e.positional = field %Entry %e, positional
  %as.many = icmp eq i64 %e.positional, %positional
  br i1 %as.many, label %keywords, label %other
keywords:
  %e.names = field %Entry %e, names
  %same.names = call i1 @named(ptr %e.names, ptr %names)
  br i1 %same.names, label %fill, label %other
other:
  br label %entry
fill:
  %count = field %Entry %e, count
  %args = field %Entry %e, args
  store i64 -1, ptr %stream.given
  %template = field %Entry %e, template
  %no.template = icmp eq ptr %template, null
  br i1 %no.template, label %each, label %copy
copy:
  %size = field %Entry %e, words
  %bytes = shl i64 %size, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %values, ptr %template, i64 %bytes, i1 false)
  br label %each
each:
  %i = phi i64 [ 0, %fill ], [ 0, %copy ], [ %after, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %matched
one:
  %after = add i64 %i, 1
  %p.object = getelementptr ptr, ptr %vector, i64 %after
  %object = load ptr, ptr %p.object
  %a = getelementptr %Arg, ptr %args, i64 %i
  %taken = call i1 @take(ptr %a, ptr %object, ptr %values, ptr %stream.given)
  br i1 %taken, label %each, label %other
matched:
  %grid.object = load ptr, ptr %vector
  %plain = call i1 @extents(ptr %grid.object, ptr %grid)
  br i1 %plain, label %queue, label %function
function:
  %callable = call i32 @@PyCallable_Check@@(ptr %grid.object)
  %wrong = icmp eq i32 %callable, 0
  br i1 %wrong, label %slow, label %compute
compute:
  %status = call i32 @computed(ptr %e, ptr %grid.object, ptr %vector, ptr %grid)
  switch i32 %status, label %slow [ i32 1, label %queue
                                    i32 2, label %raised ]
raised:
  ret ptr null
queue:
  %result = field %Entry %e, result
  %x = load i64, ptr %grid
  %p.y = getelementptr i64, ptr %grid, i32 1
  %p.z = getelementptr i64, ptr %grid, i32 2
  %y = load i64, ptr %p.y
  %z = load i64, ptr %p.z
  %xy = mul i64 %x, %y
  %no.xy = icmp eq i64 %xy, 0
  %no.z = icmp eq i64 %z, 0
  %empty = or i1 %no.xy, %no.z
  br i1 %empty, label %return, label %planned
planned:
  %program = field %Entry %e, program
  %no.program = icmp eq ptr %program, null
  br i1 %no.program, label %which, label %plan
plan:
  %registers = field %Entry %e, registers
  %encode = field %State %state, encode
  %execute = field %Entry %e, execute
  %plan.status = call i32 %execute(ptr %program, i64 %registers, ptr %values, ptr %grid, ptr %maps,
                                   ptr %encode)
  switch i32 %plan.status, label %slow [ i32 1, label %which
                                         i32 0, label %other ]
which:
  %given = load i64, ptr %stream.given
  %is.given = icmp ne i64 %given, -1
  br i1 %is.given, label %launch, label %usual
usual:
  %getter = field %Entry %e, getter
  %fixed = field %Entry %e, stream
  %no.getter = icmp eq ptr %getter, null
  br i1 %no.getter, label %launch, label %get
get:
  %whose = field %Entry %e, whose
  %got = call { i1, i64 } @asked(ptr %getter, ptr %whose)
  %got.good = extractvalue { i1, i64 } %got, 0
  %got.value = extractvalue { i1, i64 } %got, 1
  br i1 %got.good, label %launch, label %slow
launch:
  %stream = phi i64 [ %given, %which ], [ %fixed, %usual ], [ %got.value, %get ]
  %words = field %Entry %e, words
  br label %point
point:
  %k = phi i64 [ 0, %launch ], [ %k.after, %pointing ]
  %k.more = icmp slt i64 %k, %words
  br i1 %k.more, label %pointing, label %mapped
pointing:
  %p.k = getelementptr i64, ptr %values, i64 %k
  %p.pointer = getelementptr ptr, ptr %pointers, i64 %k
  store ptr %p.k, ptr %p.pointer
  %k.after = add i64 %k, 1
  br label %point
mapped:
  %count.maps = field %Entry %e, maps
  br label %map
map:
  %m = phi i64 [ 0, %mapped ], [ %m.after, %mapping ]
  %m.more = icmp slt i64 %m, %count.maps
  br i1 %m.more, label %mapping, label %go
mapping:
  %p.m = getelementptr [128 x i8], ptr %maps, i64 %m
  %m.at = add i64 %words, %m
  %p.m.pointer = getelementptr ptr, ptr %pointers, i64 %m.at
  store ptr %p.m, ptr %p.m.pointer
  %m.after = add i64 %m, 1
  br label %map
go:
  %kernel = field %Entry %e, function
  %threads = field %Entry %e, threads
  %shared = field %Entry %e, shared
  %driver = field %State %state, launch
  %bx = load i64, ptr %grid
  %by = load i64, ptr %p.y
  %bz = load i64, ptr %p.z
  %gx = trunc i64 %bx to i32
  %gy = trunc i64 %by to i32
  %gz = trunc i64 %bz to i32
  %handle = inttoptr i64 %stream to ptr
  %thread = call ptr @@PyEval_SaveThread@@()
  %code = call i32 %driver(ptr %kernel, i32 %gx, i32 %gy, i32 %gz, i32 %threads, i32 1, i32 1,
                           i32 %shared, ptr %handle, ptr %pointers, ptr null)
  call void @@PyEval_RestoreThread@@(ptr %thread)
  %done = icmp eq i32 %code, 0
  br i1 %done, label %return, label %slow
return:
  call void @@Py_IncRef@@(ptr %result)
  ret ptr %result
slow:
  %fallback = field %State %state, slow
  %r = call ptr @@PyObject_Vectorcall@@(ptr %fallback, ptr %vector, i64 %positional, ptr %names)
  ret ptr %r
}
"""

WHOLE = (
    with_structures(NUMBERS + ARGUMENT + GRID + DISPATCH)
    .replace("@@MAX_WORDS@@", str(MAX_WORDS))
    .replace("@@POINTERS@@", str(MAX_WORDS + MAPS))
    .replace("@@MAPS@@", str(MAPS))
    .replace("@@ONE@@", str(ONE))
)
"""The module, but for addresses."""
