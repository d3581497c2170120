"""The code for the grid: a number, a tuple, or a function of the arguments by name."""

from __future__ import annotations

GRID = """
; Extents of a grid: 0 and above, or -1 for what is none.
define internal i64 @extent(ptr %o) {
  %p.own = getelementptr i8, ptr %o, i64 8
  %own = load ptr, ptr %p.own
  %is.int = icmp eq ptr %own, @@PyLong_Type@@
  br i1 %is.int, label %value, label %no
value:
  %v = call { i1, i64 } @number(ptr %o)
  %good = extractvalue { i1, i64 } %v, 0
  %n = extractvalue { i1, i64 } %v, 1
  %small = icmp sle i64 %n, 2147483647
  %positive = icmp sge i64 %n, 0
  %fine = and i1 %small, %positive
  %all = and i1 %good, %fine
  %r = select i1 %all, i64 %n, i64 -1
  ret i64 %r
no:
  ret i64 -1
}

; The extents of an integer or a tuple, stored; whether there were any.
define internal i1 @extents(ptr %o, ptr %into) {
  %p.own = getelementptr i8, ptr %o, i64 8
  %own = load ptr, ptr %p.own
  %p.1 = getelementptr i64, ptr %into, i32 1
  %p.2 = getelementptr i64, ptr %into, i32 2
  store i64 1, ptr %into
  store i64 1, ptr %p.1
  store i64 1, ptr %p.2
  %is.tuple = icmp eq ptr %own, @@PyTuple_Type@@
  br i1 %is.tuple, label %tuple, label %single
single:
  %x = call i64 @extent(ptr %o)
  store i64 %x, ptr %into
  %x.good = icmp sge i64 %x, 0
  ret i1 %x.good
tuple:
  %size = call i64 @@PyTuple_Size@@(ptr %o)
  %some = icmp sge i64 %size, 1
  %few = icmp sle i64 %size, 3
  %count = and i1 %some, %few
  br i1 %count, label %next, label %no
next:
  %i = phi i64 [ 0, %tuple ], [ %after, %stored ]
  %item = call ptr @@PyTuple_GetItem@@(ptr %o, i64 %i)
  %e = call i64 @extent(ptr %item)
  %bad = icmp slt i64 %e, 0
  br i1 %bad, label %no, label %stored
stored:
  %where = getelementptr i64, ptr %into, i64 %i
  store i64 %e, ptr %where
  %after = add i64 %i, 1
  %more = icmp slt i64 %after, %size
  br i1 %more, label %next, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; The extents that a function of the arguments by name gives. 1: stored, 0: none, 2: it raised.
define internal i32 @computed(ptr %e, ptr %o, ptr %vector, ptr %into) {
  %list = alloca [2 x ptr]
  %meta = field %Entry %e, meta
  %count = field %Entry %e, count
  %args = field %Entry %e, args
  %whole = call ptr @@PyDict_Copy@@(ptr %meta)
  %failed = icmp eq ptr %whole, null
  br i1 %failed, label %raised, label %each
each:
  %i = phi i64 [ 0, %0 ], [ %after, %added ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %add, label %ask
add:
  %arg = getelementptr %Arg, ptr %args, i64 %i
  %name = field %Arg %arg, name
  %unnamed = icmp eq ptr %name, null
  br i1 %unnamed, label %added, label %set
set:
  %at = add i64 %i, 1
  %p.value = getelementptr ptr, ptr %vector, i64 %at
  %value = load ptr, ptr %p.value
  %status = call i32 @@PyDict_SetItem@@(ptr %whole, ptr %name, ptr %value)
  br label %added
added:
  %after = add i64 %i, 1
  br label %each
ask:
  %first = getelementptr [2 x ptr], ptr %list, i32 0, i32 1
  store ptr %whole, ptr %first
  %r = call ptr @@PyObject_Vectorcall@@(ptr %o, ptr %first, i64 @@ONE@@, ptr null)
  call void @@Py_DecRef@@(ptr %whole)
  %none = icmp eq ptr %r, null
  br i1 %none, label %raised, label %read
read:
  %good = call i1 @extents(ptr %r, ptr %into)
  call void @@Py_DecRef@@(ptr %r)
  %result = zext i1 %good to i32
  ret i32 %result
raised:
  ret i32 2
}
"""
