"""Functions in LLVM IR that check every lane of an access. They are separate functions, since the
code of kernels would otherwise double in size.

A record describes the memory that a pointer may access, in six words: the first byte; the number of
bytes from there that may be read, and that may be written, without a check of every lane (0 if
every lane must be checked); whether any of it may be written; the address of the regions; and their
number. A region is five words: its first byte, its size in bytes, whether it may be written, and,
if there are gaps between its elements, the number of its dimensions and their address. Read-only
regions come first: a byte of a read-only region is never written, whatever other regions it belongs
to. A dimension is two words, the distance in bytes and the extent. Outer dimensions come first; the
number of contiguous bytes follows the last one.
"""

from __future__ import annotations

from tileir.backend.cpu.lane_values import WIDTH

VALUE_BYTES = 256
"""Bytes of the values that all lanes pass to a site."""
RECORD, REGION = 6, 5
"""Words of each."""

_PARAMETERS = (
    "i64 %size, ptr %record, i32 %active, i1 %write, i64 %site, ptr %launch, "
    "i32 %px, i32 %py, i32 %pz"
)
_STEPS = ", ".join(f"i64 {lane}" for lane in range(WIDTH))


def _spread(name: str) -> str:
    return (
        f"  %{name}.0 = insertelement <32 x i64> poison, i64 %{name}, i64 0\n"
        f"  %{name}.all = shufflevector <32 x i64> %{name}.0, <32 x i64> poison, "
        "<32 x i32> zeroinitializer"
    )


def _put(kind: str, value: str, offset: int) -> str:
    place = f"%lanes{offset}"
    return (
        f"  {place} = getelementptr i8, ptr %buffer, i64 {offset * VALUE_BYTES}\n"
        f"  store {kind} {value}, ptr {place}, align 8"
    )


def _word(base: str, index: int, name: str, kind: str = "i64") -> str:
    return (
        f"  {name}.at = getelementptr i64, ptr {base}, i64 {index}\n"
        f"  {name} = load {kind}, ptr {name}.at"
    )


_WITHIN = f"""define internal i1 @within(
  i64 %offset, i64 %size, ptr %dims, i64 %count
) noinline cold #0 {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %walk ]
  %rest = phi i64 [ %offset, %entry ], [ %left, %walk ]
  %place = getelementptr [2 x i64], ptr %dims, i64 %i
{_word("%place", 0, "%word")}
  %last = icmp eq i64 %i, %count
  br i1 %last, label %row, label %walk
walk:
{_word("%place", 1, "%extent")}
  %index = udiv i64 %rest, %word
  %left = urem i64 %rest, %word
  %next = add i64 %i, 1
  %there = icmp ult i64 %index, %extent
  br i1 %there, label %loop, label %no
row:
  %end = add i64 %rest, %size
  %inside = icmp ule i64 %end, %word
  ret i1 %inside
no:
  ret i1 false
}}"""
"""Whether bytes from `offset` of a region with bytes between elements are all of elements."""

_BETWEEN = """define internal i32 @outside.elements(
  <32 x i64> %at, i64 %size, ptr %dims, i64 %count, i32 %active
) noinline cold #0 {
entry:
  br label %loop
loop:
  %bits = phi i32 [ %active, %entry ], [ %rest, %look ]
  %found = phi i32 [ 0, %entry ], [ %more, %look ]
  %some = icmp ne i32 %bits, 0
  br i1 %some, label %look, label %done
look:
  %lane = call i32 @llvm.cttz.i32(i32 %bits, i1 true)
  %offset = extractelement <32 x i64> %at, i32 %lane
  %inside = call i1 @within(i64 %offset, i64 %size, ptr %dims, i64 %count)
  %bit = shl i32 1, %lane
  %out = select i1 %inside, i32 0, i32 %bit
  %more = or i32 %found, %out
  %rest = xor i32 %bits, %bit
  br label %loop
done:
  ret i32 %found
}"""
"""The lanes among those of mask `%active` that access bytes between elements."""

_EACH = f"""define internal i1 @beyond.each(<32 x i64> %at, {_PARAMETERS}) noinline cold #0 {{
entry:
  %buffer = alloca [{5 * VALUE_BYTES} x i8], align 64
{_word("%record", 3, "%writable")}
{_word("%record", 4, "%regions", "ptr")}
{_word("%record", 5, "%count")}
  %fixed = icmp eq i64 %writable, 0
  %denied = and i1 %write, %fixed
  br i1 %denied, label %end, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %on ]
  %bad = phi i32 [ %active, %entry ], [ %left, %on ]
  %stuck = phi i32 [ 0, %entry ], [ %barred, %on ]
  %other = icmp ult i64 %i, %count
  %open = icmp ne i32 %bad, 0
  %goes = and i1 %other, %open
  br i1 %goes, label %look, label %end
look:
  %skip = mul i64 %i, {REGION}
  %region = getelementptr i64, ptr %regions, i64 %skip
{_word("%region", 0, "%first")}
{_word("%region", 1, "%bytes")}
{_word("%region", 2, "%changes")}
{_word("%region", 3, "%rank")}
{_word("%region", 4, "%dims", "ptr")}
{_spread("first")}
  %offset = sub <32 x i64> %at, %first.all
  %last = sub i64 %bytes, %size
{_spread("last")}
  %near = icmp ule <32 x i64> %offset, %last.all
  %near.bits = bitcast <32 x i1> %near to i32
  %large = icmp uge i64 %bytes, %size
  %never = icmp eq i64 %changes, 0
  %kept = and i1 %write, %never
  %those = select i1 %large, i32 %near.bits, i32 0
  %asked = select i1 %kept, i32 %active, i32 %bad
  %here = and i32 %those, %asked
  %dense = icmp eq i64 %rank, 0
  %none = icmp eq i32 %here, 0
  %sure = or i1 %dense, %none
  br i1 %sure, label %on, label %holes
holes:
  %out = call i32 @outside.elements(<32 x i64> %offset, i64 %size, ptr %dims, i64 %rank, i32 %here)
  br label %on
on:
  %missed = phi i32 [ 0, %look ], [ %out, %holes ]
  %found = xor i32 %here, %missed
  %gone = select i1 %kept, i32 0, i32 %found
  %left = xor i32 %bad, %gone
  %hit = select i1 %kept, i32 %found, i32 0
  %barred = or i32 %stuck, %hit
  %next = add i64 %i, 1
  br label %loop
end:
  %never.written = phi i32 [ 0, %entry ], [ %stuck, %loop ]
  %unplaced = phi i32 [ %active, %entry ], [ %bad, %loop ]
  %wrong = or i32 %unplaced, %never.written
  %some = icmp ne i32 %wrong, 0
  br i1 %some, label %report, label %done
report:
  %lanes = bitcast i32 %wrong to <32 x i1>
  %flags = zext <32 x i1> %lanes to <32 x i8>
{_put("<32 x i8>", "%flags", 0)}
{_put("<32 x i64>", "%at", 1)}
{_put("i32", "%px", 2)}
{_put("i32", "%py", 3)}
{_put("i32", "%pz", 4)}
  call void @ask(ptr %launch, i64 %site, ptr %buffer)
  br label %done
done:
  ret i1 %some
}}"""

_ROW = f"""define internal i1 @beyond.row(i64 %low, i64 %step, {_PARAMETERS}) noinline cold #0 {{
entry:
{_word("%record", 3, "%writable")}
{_word("%record", 4, "%regions", "ptr")}
{_word("%record", 5, "%count")}
{_word("%regions", 0, "%first")}
{_word("%regions", 1, "%bytes")}
{_word("%regions", 3, "%rank")}
{_word("%regions", 4, "%dims", "ptr")}
  %reach = mul i64 %step, {WIDTH - 1}
  %length = add i64 %reach, %size
  %offset = sub i64 %low, %first
  %last = sub i64 %bytes, %length
  %before = icmp ule i64 %offset, %last
  %large = icmp uge i64 %bytes, %length
  %forward = icmp sge i64 %step, 0
  %single = icmp eq i64 %count, 1
  %fixed = icmp eq i64 %writable, 0
  %denied = and i1 %write, %fixed
  %may = xor i1 %denied, true
  %a = and i1 %before, %large
  %b = and i1 %forward, %single
  %c = and i1 %a, %b
  %quick = and i1 %c, %may
  br i1 %quick, label %row, label %each
row:
  %inside = call i1 @within(i64 %offset, i64 %length, ptr %dims, i64 %rank)
  br i1 %inside, label %fine, label %each
fine:
  ret i1 false
each:
{_spread("low")}
{_spread("step")}
  %far = mul <32 x i64> %step.all, <{_STEPS}>
  %at = add <32 x i64> %low.all, %far
  %some = call i1 @beyond.each(<32 x i64> %at, {_PARAMETERS})
  ret i1 %some
}}"""

FUNCTIONS = "\n".join((
    "declare i32 @llvm.cttz.i32(i32, i1)", _WITHIN, _BETWEEN, _EACH, _ROW, "!0 = !{}"
))  # fmt: skip
"""`beyond.each` and `beyond.row`: whether a lane is out of bounds, by all addresses or by the first
and their distance. A site then reports it."""
