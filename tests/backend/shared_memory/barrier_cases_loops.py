"""Iterations of loops, and integers that are known in part."""

from __future__ import annotations


def nested_loops(passed: str, body: str = "", first: str = "%p", mark: str = "!block") -> str:
    """Every iteration loads and stores at `%t`: first `first`, then `passed`."""
    return f"""
  %by64 = splat i32<64, #a> 64
  %by32 = splat i32<64, #a> 32
  %back = splat i32<64, #a> -64
  %by0 = splat i32<64, #a> 0
  %byn = splat i32<64, #a> %n
  %far = getelementptr f32*<64, #a> %p, %byn
  br loop
loop:
  %k = phi i32 [0, entry], [%k2, loop]
  %t = phi f32*<64, #a> [{first}, entry], [{passed}, loop]
  {mark}
  %a = load f32<64, #a> %t
  store %t, %a
  %k2 = add i32 %k, 1
  {body}
  cond_br %c, loop, done
done:
  ret
"""


def loop_with_index(index: str, mark: str) -> str:
    """Every iteration loads and stores 64 elements from `%at` on, which `index` computes."""
    return f"""
  br loop
loop:
  %k = phi i32 [0, entry], [%k2, loop]
  %l = phi i32 [%m, entry], [%l2, loop]
  %k2 = add i32 %k, 1
  %l2 = add i32 %l, 3
  {index}
  %ats = splat i32<64, #a> %at
  %t = getelementptr f32*<64, #a> %p, %ats
  {mark}
  %a = load f32<64, #a> %t
  store %t, %a
  cond_br %c, loop, done
done:
  ret
"""


def latches(left: int, right: int, mark: str) -> str:
    """Two ways back to the head, that move on by so many elements."""
    return f"""
  %one = splat i32<64, #a> {left}
  %two = splat i32<64, #a> {right}
  br loop
loop:
  %t = phi f32*<64, #a> [%p, entry], [%t1, left], [%t2, right]
  {mark}
  %a = load f32<64, #a> %t
  store %t, %a
  cond_br %c, left, right
left:
  %t1 = getelementptr f32*<64, #a> %t, %one
  br loop
right:
  %t2 = getelementptr f32*<64, #a> %t, %two
  cond_br %d, loop, done
done:
  ret
"""


def moving(step: str) -> str:
    return f"%t2 = getelementptr f32*<64, #a> %t, {step}"


LOOPS = {
    "on to the next": nested_loops("%t2", moving("%by64"), mark=""),
    "back to the one before": nested_loops("%t2", moving("%back"), mark=""),
    "half of it again": nested_loops("%t2", moving("%by32")),
    "the same again": nested_loops("%t"),
    "the same again, by nothing": nested_loops("%t2", moving("%by0")),
    "from the beginning": nested_loops("%p"),
    "from somewhere on": nested_loops("%t2", moving("%by64"), first="%far", mark=""),
    "to where it was not": nested_loops("%far"),
    "by a number of the loop": loop_with_index("%at = mul i32 %k, 64", ""),
    "by half a number of the loop": loop_with_index("%at = mul i32 %k, 32", "!block"),
    "by the next number": loop_with_index("%at = mul i32 %k2, 64", ""),
    "by a number that stays": loop_with_index(
        "%k64 = mul i32 %k, 64\n  %at = add i32 %k64, %n", ""
    ),
    "by two numbers together": loop_with_index(
        "%k16 = mul i32 %k, 16\n  %l16 = mul i32 %l, 16\n  %at = add i32 %k16, %l16", ""
    ),
    "by two numbers together, and less": loop_with_index(
        "%k16 = mul i32 %k, 8\n  %l16 = mul i32 %l, 16\n  %at = add i32 %k16, %l16", "!block"
    ),
    "by two numbers against each other": loop_with_index(
        "%k48 = mul i32 %k, -48\n  %l16 = mul i32 %l, 16\n  %at = add i32 %k48, %l16", "!block"
    ),
    "by one of two that is not known": loop_with_index(
        "%k64 = mul i32 %k, 64\n  %o = load i32 %flag\n  %at = add i32 %k64, %o", "!block"
    ),
    "by what is recomputed": loop_with_index("%at = sdiv i32 %k, 2", "!block"),
    "two ways on, alike": latches(64, 64, ""),
    "two ways on": latches(64, 128, "!block"),
    "one way on, one back": latches(64, -64, "!block"),
    "a loop within a loop": """
  %by64 = splat i32<64, #a> 64
  br outer
outer:
  %t0 = phi f32*<64, #a> [%p, entry], [%t3, next]
  br inner
inner:
  %t = phi f32*<64, #a> [%t0, outer], [%t2, inner]
  !block
  %a = load f32<64, #a> %t
  store %t, %a
  %t2 = getelementptr f32*<64, #a> %t, %by64
  cond_br %c, inner, next
next:
  !block
  %b = load f32<64, #a> %q
  %t3 = getelementptr f32*<64, #a> %t0, %by64
  cond_br %d, outer, done
done:
  ret
""",
    "a pointer of a loop, and its parameter's": """
  %by64 = splat i32<64, #a> 64
  br loop
loop:
  %t = phi f32*<64, #a> [%p, entry], [%t2, loop]
  store %t, %v
  %t2 = getelementptr f32*<64, #a> %t, %by64
  cond_br %c, loop, done
done:
  !block
  %b = load f32<64, #a> %p
  ret
""",
    "within bounds in every iteration": """
  br loop
loop:
  %k = phi i32 [0, entry], [%k2, loop]
  %o = and i32 %k, 7
  %o8 = add i32 %o, 8
  %low = getelementptr f32* %x, %o
  %high = getelementptr f32* %x, %o8
  store %low, 1.0
  %a = load f32 %high
  %k2 = add i32 %k, 1
  cond_br %c, loop, done
done:
  ret
""",
    "a byte at or above a number that is not known": """
  %o = and i32 %m, 7
  %x8 = bitcast i8* %x
  %low = getelementptr i8* %x8, %n
  %high = getelementptr i8* %low, %o
  store %low, 1
  !block
  %a = load i8 %high
""",
    "a byte below a number that is not known": """
  %o = and i32 %m, 7
  %o8 = sub i32 %o, 8
  %x8 = bitcast i8* %x
  %low = getelementptr i8* %x8, %n
  %high = getelementptr i8* %low, %o8
  store %low, 1
  %a = load i8 %high
""",
    "thread 0 alone, wherever": """
  br loop
loop:
  %at = load i32 %flag
  %to = getelementptr f32* %y, %at
  store %to, 1.0
  atomic_store %x, 1.0 {sem = relaxed}
  cond_br %c, loop, done
done:
  ret
""",
    "above a number that is not known": """
  %o = and i32 %m, 7
  %o1 = add i32 %o, 1
  %low = getelementptr f32* %x, %n
  %high = getelementptr f32* %low, %o1
  store %low, 1.0
  %a = load f32 %high
  store %low, %a
""",
    "at or above a number that is not known": """
  %o = and i32 %m, 7
  %low = getelementptr f32* %x, %n
  %high = getelementptr f32* %low, %o
  store %low, 1.0
  !block
  %a = load f32 %high
""",
    "below a number that is not known": """
  %o = and i32 %m, 7
  %low = getelementptr f32* %x, %n
  %some = getelementptr f32* %low, %o
  %high = getelementptr f32* %low, i32 8
  store %some, 1.0
  %a = load f32 %high
  !block
  %b = load f32 %low
""",
    "numbers on both sides": """
  %o = and i32 %m, 7
  %e = and i32 %k9, 3
  %low = getelementptr f32* %x, %n
  %some = getelementptr f32* %low, %o
  %other = getelementptr f32* %low, %e
  %above = getelementptr f32* %other, i32 8
  %below = getelementptr f32* %other, i32 -4
  %near = getelementptr f32* %other, i32 7
  store %some, 1.0
  %a = load f32 %above
  %b = load f32 %below
  !block
  %d2 = load f32 %near
""".replace("%k9", "%shift").replace("  %o = and", "  %shift = lshr i32 %m, 3\n  %o = and", 1),
}
"""Around loops, and where integers are known in part."""
