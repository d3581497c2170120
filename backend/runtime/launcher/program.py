"""The interpreter of launch programs (`launch_program.ProgramCode`), and the encoding of tensor
maps."""

from __future__ import annotations

from tileir.backend.runtime.launcher.structures import with_structures

ROWS = 256
"""Encoded maps that are kept of one recipe. A power of two: the upper bits of a hash choose."""

WORDS = 10
"""Words that a map is made of: address, 5 extents and 4 strides, innermost first."""

MAPS = 32
"""The most tensor maps that a kernel is passed by this launcher."""

_TEXT = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
; words, the map
%Row = type { [16 x i64], [128 x i8] }
@ones = private constant [5 x i32] [i32 1, i32 1, i32 1, i32 1, i32 1]

; The number in register %i.
define internal i64 @register(ptr %registers, i32 %i) alwaysinline {
  %p = getelementptr i64, ptr %registers, i32 %i
  %v = load i64, ptr %p
  ret i64 %v
}

; The number in the register that entry %i of %list names.
define internal i64 @entry(ptr %registers, ptr %list, i32 %i) alwaysinline {
  %p = getelementptr i32, ptr %list, i32 %i
  %register = load i32, ptr %p
  %v = call i64 @register(ptr %registers, i32 %register)
  ret i64 %v
}

; %v as a signed number of 64 - %unused bits.
define internal i64 @wrapped(i64 %v, i64 %unused) alwaysinline {
  %high = shl i64 %v, %unused
  %low = ashr i64 %high, %unused
  ret i64 %low
}

; %a / %b toward zero, with the remainder. %b is not 0. -2^63 / -1 wraps.
define internal { i64, i64 } @divided(i64 %a, i64 %b) alwaysinline {
  %odd = icmp eq i64 %b, -1
  %safe = select i1 %odd, i64 1, i64 %b
  %q = sdiv i64 %a, %safe
  %r = srem i64 %a, %safe
  %minus = sub i64 0, %a
  %quotient = select i1 %odd, i64 %minus, i64 %q
  %x = insertvalue { i64, i64 } poison, i64 %quotient, 0
  %y = insertvalue { i64, i64 } %x, i64 %r, 1
  ret { i64, i64 } %y
}

; The words of a map, and whether a tensor map may have them ("Tensor Map", CUDA driver API).
define internal i1 @words(ptr %map, ptr %registers, ptr %key) {
  call void @llvm.memset.p0.i64(ptr %key, i8 0, i64 80, i1 false)
  %base.register = field %TensorMap %map, base
  %base = call i64 @register(ptr %registers, i32 %base.register)
  %extents = address %TensorMap %map, extents
  %strides = address %TensorMap %map, strides
  store i64 %base, ptr %key
  %rank = field %TensorMap %map, rank
  %size.32 = field %TensorMap %map, size
  %size = zext i32 %size.32 to i64
  %base.rest = and i64 %base, 15
  %base.fits = icmp eq i64 %base.rest, 0
  br label %next
next:
  %i = phi i32 [ 0, %0 ], [ %i.after, %placed ]
  %good = phi i1 [ %base.fits, %0 ], [ %good.after, %placed ]
  %more = icmp slt i32 %i, %rank
  br i1 %more, label %dimension, label %done
dimension:
  %i.after = add i32 %i, 1
  %inner = sub i32 %rank, %i.after
  %extent = call i64 @entry(ptr %registers, ptr %extents, i32 %i)
  %stride = call i64 @entry(ptr %registers, ptr %strides, i32 %i)
  %at.extent = add i32 %inner, 1
  %k.extent = getelementptr i64, ptr %key, i32 %at.extent
  store i64 %extent, ptr %k.extent
  %extent.less = sub i64 %extent, 1
  %extent.fits = icmp ult i64 %extent.less, 4294967296
  %extent.good = and i1 %good, %extent.fits
  %innermost = icmp eq i32 %inner, 0
  br i1 %innermost, label %last, label %other
last:
  %one = icmp eq i64 %stride, 1
  br label %placed
other:
  %bytes = mul i64 %stride, %size
  %at.stride = add i32 %inner, 5
  %k.stride = getelementptr i64, ptr %key, i32 %at.stride
  store i64 %bytes, ptr %k.stride
  %stride.small = icmp ult i64 %stride, 1099511627776
  %bytes.less = sub i64 %bytes, 1
  %bytes.fit = icmp ult i64 %bytes.less, 1099511627775
  %rest = and i64 %bytes, 15
  %whole = icmp eq i64 %rest, 0
  %stride.positive = and i1 %stride.small, %bytes.fit
  %stride.fits = and i1 %stride.positive, %whole
  br label %placed
placed:
  %fits = phi i1 [ %one, %last ], [ %stride.fits, %other ]
  %good.after = and i1 %extent.good, %fits
  br label %next
done:
  ret i1 %good
}

; The bytes, a power of two up to 16, that base, rows and the ends of rows are multiples of; 0 where
; an extent is less than 1.
define internal i64 @unit(ptr %map, ptr %registers) {
  %base.register = field %TensorMap %map, base
  %base = call i64 @register(ptr %registers, i32 %base.register)
  %extents = address %TensorMap %map, extents
  %strides = address %TensorMap %map, strides
  %rank = field %TensorMap %map, rank
  %size.32 = field %TensorMap %map, size
  %size = zext i32 %size.32 to i64
  %innermost = sub i32 %rank, 1
  %last = call i64 @entry(ptr %registers, ptr %strides, i32 %innermost)
  %contiguous = icmp eq i64 %last, 1
  %begin = or i64 %base, 16
  br label %next
next:
  %i = phi i32 [ 0, %0 ], [ %i.after, %positive ]
  %all = phi i64 [ %begin, %0 ], [ %all.after, %positive ]
  %more = icmp slt i32 %i, %rank
  br i1 %more, label %dimension, label %done
dimension:
  %i.after = add i32 %i, 1
  %extent = call i64 @entry(ptr %registers, ptr %extents, i32 %i)
  %stride = call i64 @entry(ptr %registers, ptr %strides, i32 %i)
  %some = icmp sge i64 %extent, 1
  br i1 %some, label %positive, label %none
positive:
  %is.last = icmp eq i32 %i, %innermost
  %step = select i1 %is.last, i64 %extent, i64 %stride
  %elements = select i1 %contiguous, i64 %step, i64 1
  %bytes = mul i64 %elements, %size
  %all.after = or i64 %all, %bytes
  br label %next
done:
  %minus = sub i64 0, %all
  %lowest = and i64 %all, %minus
  ret i64 %lowest
none:
  ret i64 0
}

; Copy the map of these words to %to. 1: done, 0: no map may have them, 2: the driver refuses.
define internal i32 @encode(ptr %map, ptr %registers, ptr %to, ptr %driver) {
  %key = alloca [10 x i64]
  %fits = call i1 @words(ptr %map, ptr %registers, ptr %key)
  br i1 %fits, label %hash, label %no
hash:
  %h.i = phi i32 [ 0, %0 ], [ %h.after, %hash ]
  %h = phi i64 [ 0, %0 ], [ %h.next, %hash ]
  %p.h = getelementptr i64, ptr %key, i32 %h.i
  %h.word = load i64, ptr %p.h
  %h.mixed = xor i64 %h, %h.word
  %h.scaled = mul i64 %h.mixed, -7046029254386353131
  %h.high = lshr i64 %h.scaled, 32
  %h.next = xor i64 %h.scaled, %h.high
  %h.after = add i32 %h.i, 1
  %h.more = icmp slt i32 %h.after, 10
  br i1 %h.more, label %hash, label %row
row:
  %spread = mul i64 %h.next, -7046029254386353131
  %index = lshr i64 %spread, @@SHIFT@@
  %table = field %TensorMap %map, table
  %row.at = getelementptr %Row, ptr %table, i64 %index
  %p.map = getelementptr %Row, ptr %row.at, i32 0, i32 1
  br label %compare
compare:
  %c.i = phi i32 [ 0, %row ], [ %c.after, %alike ]
  %p.mine = getelementptr i64, ptr %key, i32 %c.i
  %p.kept = getelementptr i64, ptr %row.at, i32 %c.i
  %mine = load i64, ptr %p.mine
  %kept = load i64, ptr %p.kept
  %same = icmp eq i64 %mine, %kept
  br i1 %same, label %alike, label %miss
alike:
  %c.after = add i32 %c.i, 1
  %c.more = icmp slt i32 %c.after, 10
  br i1 %c.more, label %compare, label %copy
miss:
  %p.extents = getelementptr i64, ptr %key, i32 1
  %p.strides = getelementptr i64, ptr %key, i32 6
  %p.box = address %TensorMap %map, box
  %rank = field %TensorMap %map, rank
  %type = field %TensorMap %map, type
  %swizzle = field %TensorMap %map, swizzle
  %fill = field %TensorMap %map, fill
  %base = load ptr, ptr %key
  %no.driver = icmp eq ptr %driver, null
  br i1 %no.driver, label %failed, label %call
call:
  %status = call i32 %driver(ptr %to, i32 %type, i32 %rank, ptr %base, ptr %p.extents,
                             ptr %p.strides, ptr %p.box, ptr @ones, i32 0, i32 %swizzle, i32 3,
                             i32 %fill)
  %encoded = icmp eq i32 %status, 0
  br i1 %encoded, label %keep, label %failed
keep:
  ; after the call, during which another thread may have replaced the row
  call void @llvm.memcpy.p0.p0.i64(ptr %row.at, ptr %key, i64 80, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %p.map, ptr %to, i64 128, i1 false)
  ret i32 1
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %p.map, i64 128, i1 false)
  ret i32 1
no:
  ret i32 0
failed:
  ret i32 2
}

; Execute a program. 1: launch, 0: the entry does not apply, 2: ask Python. Division by 0 and guards
; that are 0 fail until the program asks.
define i32 @execute(ptr %code, i64 %count, ptr %values, ptr %grid, ptr %maps, ptr %driver) {
  %registers = alloca i64, i64 %count
  br label %next
next:
  %op = phi ptr [ %code, %0 ], [ %op.next, %write ], [ %op.next, %go ]
  %failed = phi i1 [ false, %0 ], [ %failed.write, %write ], [ %failed.go, %go ]
  %op.next = getelementptr %Instruction, ptr %op, i32 1
  %which = field %Instruction %op, code
  %result = field %Instruction %op, result
  %number.a = field %Instruction %op, a
  %number.b = field %Instruction %op, b
  %immediate = field %Instruction %op, immediate
  %p.value = getelementptr i64, ptr %values, i32 %number.a
  %p.extent = getelementptr i64, ptr %grid, i32 %number.a
  %a = call i64 @register(ptr %registers, i32 %number.a)
  %b = call i64 @register(ptr %registers, i32 %number.b)
  switch i32 %which, label %python [
    i32 0, label %launch
    i32 1, label %write
    i32 2, label %word
    i32 3, label %extent
    i32 4, label %add
    i32 5, label %sub
    i32 6, label %mul
    i32 7, label %divide
    i32 8, label %divide
    i32 9, label %divide
    i32 10, label %and
    i32 11, label %or
    i32 12, label %xor
    i32 13, label %min
    i32 14, label %max
    i32 15, label %eq
    i32 16, label %ne
    i32 17, label %lt
    i32 18, label %le
    i32 19, label %ult
    i32 20, label %ule
    i32 21, label %move
    i32 22, label %select
    i32 23, label %guard
    i32 24, label %require
    i32 25, label %map
    i32 26, label %unit
    i32 27, label %expect
    i32 28, label %refuse
    i32 29, label %set.grid
    i32 30, label %set.word
  ]
word:
  %word.value = load i64, ptr %p.value
  br label %write
extent:
  %extent.value = load i64, ptr %p.extent
  br label %write
add:
  %sum = add i64 %a, %b
  %sum.wrapped = call i64 @wrapped(i64 %sum, i64 %immediate)
  br label %write
sub:
  %difference = sub i64 %a, %b
  %difference.wrapped = call i64 @wrapped(i64 %difference, i64 %immediate)
  br label %write
mul:
  %times = mul i64 %a, %b
  %times.wrapped = call i64 @wrapped(i64 %times, i64 %immediate)
  br label %write
divide:
  %by.zero = icmp eq i64 %b, 0
  %divisor = select i1 %by.zero, i64 1, i64 %b
  %parts = call { i64, i64 } @divided(i64 %a, i64 %divisor)
  %quotient = extractvalue { i64, i64 } %parts, 0
  %remainder = extractvalue { i64, i64 } %parts, 1
  %inexact = icmp ne i64 %remainder, 0
  %signs = xor i64 %remainder, %divisor
  %opposite = icmp slt i64 %signs, 0
  %alike.signs = xor i1 %opposite, true
  %is.floor = icmp eq i32 %which, 8
  %is.ceil = icmp eq i32 %which, 9
  %below = and i1 %is.floor, %opposite
  %above = and i1 %is.ceil, %alike.signs
  %down = and i1 %below, %inexact
  %up = and i1 %above, %inexact
  %less = sext i1 %down to i64
  %more = zext i1 %up to i64
  %lowered = add i64 %quotient, %less
  %rounded = add i64 %lowered, %more
  %rounded.wrapped = call i64 @wrapped(i64 %rounded, i64 %immediate)
  %failed.division = or i1 %failed, %by.zero
  br label %write
and:
  %both = and i64 %a, %b
  br label %write
or:
  %either = or i64 %a, %b
  br label %write
xor:
  %one.of = xor i64 %a, %b
  br label %write
min:
  %min.a = icmp sle i64 %a, %b
  %least = select i1 %min.a, i64 %a, i64 %b
  br label %write
max:
  %max.a = icmp sge i64 %a, %b
  %most = select i1 %max.a, i64 %a, i64 %b
  br label %write
eq:
  %is.eq = icmp eq i64 %a, %b
  br label %truth
ne:
  %is.ne = icmp ne i64 %a, %b
  br label %truth
lt:
  %is.lt = icmp slt i64 %a, %b
  br label %truth
le:
  %is.le = icmp sle i64 %a, %b
  br label %truth
ult:
  %is.ult = icmp ult i64 %a, %b
  br label %truth
ule:
  %is.ule = icmp ule i64 %a, %b
  br label %truth
truth:
  %true = phi i1 [ %is.eq, %eq ], [ %is.ne, %ne ], [ %is.lt, %lt ], [ %is.le, %le ],
                 [ %is.ult, %ult ], [ %is.ule, %ule ]
  %bit = zext i1 %true to i64
  br label %write
move:
  %bytes = mul i64 %b, %immediate
  %moved = add i64 %a, %bytes
  br label %write
select:
  %condition = icmp ne i64 %a, 0
  %p.otherwise = getelementptr i64, ptr %registers, i64 %immediate
  %otherwise = load i64, ptr %p.otherwise
  %selected = select i1 %condition, i64 %b, i64 %otherwise
  br label %write
write:
  %written = phi i64 [ %immediate, %next ], [ %word.value, %word ], [ %extent.value, %extent ],
                     [ %sum.wrapped, %add ], [ %difference.wrapped, %sub ],
                     [ %times.wrapped, %mul ], [ %rounded.wrapped, %divide ], [ %both, %and ],
                     [ %either, %or ], [ %one.of, %xor ], [ %least, %min ], [ %most, %max ],
                     [ %bit, %truth ], [ %moved, %move ], [ %selected, %select ],
                     [ %unit.joined, %unit.known ]
  %failed.write = phi i1 [ %failed, %next ], [ %failed, %word ], [ %failed, %extent ],
                         [ %failed, %add ], [ %failed, %sub ], [ %failed, %mul ],
                         [ %failed.division, %divide ], [ %failed, %and ], [ %failed, %or ],
                         [ %failed, %xor ], [ %failed, %min ], [ %failed, %max ],
                         [ %failed, %truth ], [ %failed, %move ], [ %failed, %select ],
                         [ %failed, %unit.known ]
  %p.written = getelementptr i64, ptr %registers, i32 %result
  store i64 %written, ptr %p.written
  br label %next
guard:
  %broken = icmp eq i64 %a, 0
  %failed.guard = or i1 %failed, %broken
  br label %go
require:
  br i1 %failed, label %other, label %go
map:
  %p.map = inttoptr i64 %immediate to ptr
  %p.to = getelementptr [128 x i8], ptr %maps, i32 %number.a
  %encoded = call i32 @encode(ptr %p.map, ptr %registers, ptr %p.to, ptr %driver)
  switch i32 %encoded, label %python [ i32 1, label %go
                                       i32 0, label %other ]
unit:
  %key = getelementptr [128 x i8], ptr %maps, i32 0
  %p.unit.map = inttoptr i64 %immediate to ptr
  %fits = call i1 @words(ptr %p.unit.map, ptr %registers, ptr %key)
  br i1 %fits, label %go, label %unit.find
unit.find:
  ; operand b is 1 where one parameter is the base of the tensor
  %unit.found = call i64 @unit(ptr %p.unit.map, ptr %registers)
  %unit.some = icmp ne i64 %unit.found, 0
  %unit.owned = icmp ne i32 %number.b, 0
  %unit.good = and i1 %unit.some, %unit.owned
  br i1 %unit.good, label %unit.known, label %unit.none
unit.known:
  %unit.old = call i64 @register(ptr %registers, i32 %result)
  %unit.first = icmp eq i64 %unit.old, 0
  %unit.smaller = icmp ult i64 %unit.found, %unit.old
  %unit.replace = or i1 %unit.first, %unit.smaller
  %unit.joined = select i1 %unit.replace, i64 %unit.found, i64 %unit.old
  br label %write
unit.none:
  br label %go
expect:
  %expected = icmp eq i64 %a, %immediate
  br i1 %expected, label %go, label %other
refuse:
  br i1 %failed, label %go, label %other
set.grid:
  %p.grid = getelementptr i64, ptr %grid, i32 %result
  store i64 %a, ptr %p.grid
  br label %go
set.word:
  %p.set.word = getelementptr i64, ptr %values, i32 %result
  store i64 %a, ptr %p.set.word
  br label %go
go:
  %failed.go = phi i1 [ %failed.guard, %guard ], [ false, %require ], [ %failed, %map ],
                      [ %failed, %unit ], [ true, %unit.none ], [ %failed, %expect ],
                      [ false, %refuse ], [ %failed, %set.grid ], [ %failed, %set.word ]
  br label %next
launch:
  ret i32 1
other:
  ret i32 0
python:
  ret i32 2
}
"""

PROGRAM = with_structures(_TEXT.replace("@@SHIFT@@", str(65 - ROWS.bit_length())))
"""The module with `execute`."""
