"""Kernels that load a block of a matrix under a mask of comparisons, for a dot."""

from __future__ import annotations

KERNEL = """tir 1.0

define kernel void @f(f16* aligned(16) noalias %x, f32* noalias %y, i32 %m, i32 %n, i32 %s) {{
entry:
  %pid = program_id i32
  %from = mul i32 %pid, {rows}
  %i = make_range i32<{rows}>
  %j = make_range i32<16>
  %r = expand_dims i32<{rows}, 1> %i {{axis = 1}}
  %c = expand_dims i32<1, 16> %j {{axis = 0}}
  %fs = splat i32<{rows}, 1> %from
  %row.0 = add i32<{rows}, 1> %r, %fs
  %row.1 = add i32<{rows}, 1> %row.0, {shift}
  %row = broadcast i32<{rows}, 16> %row.1
  %col = broadcast i32<{rows}, 16> %c
  %ns = splat i32<{rows}, 16> %n
  %ms = splat i32<{rows}, 16> %m
  %ss = splat i32<{rows}, 16> %s
  %far = mul i32<{rows}, 16> %row, %ns
  %at = add i32<{rows}, 16> %far, %col
  %xs = splat f16*<{rows}, 16> %x
  %p = getelementptr f16*<{rows}, 16> %xs, %at
{mask}
  %v = load f16<{rows}, 16> %p, %in, 0.0
  %d = dot f32<{rows}, 16> %v, f16<16, 16> 1.0, 0.0
  %row.2 = broadcast i32<{rows}, 16> %row.0
  %to = mul i32<{rows}, 16> %row.2, 16
  %o = add i32<{rows}, 16> %to, %col
  %ys = splat f32*<{rows}, 16> %y
  %q = getelementptr f32*<{rows}, 16> %ys, %o
  store %q, %d
  ret
}}
"""


def less(left: str, right: str, name: str, rows: int, word: str = "slt") -> str:
    kind = f"i1<{rows}, 16>"
    return f"  {name}, _ = icmp ({kind}, {kind}) {left}, {right} {{predicate = {word}}}\n"


WORDS = {"<": "slt", ">=": "sge", "<=": "sle", ">": "sgt", "u<": "ult", "u<=": "ule", "u>": "ugt"}


def kernel(*terms: str, rows: int = 16, shift: int = 0) -> str:
    """Loads where all `terms`, comparisons of tiles (`left < right`), hold."""
    mask, last = "", ""
    for n, term in enumerate(terms):
        left, word, right = term.split()
        for part in (left, right):
            name, sign, other = part.partition("+")[0], "+" in part, part.partition("+")[2]
            if sign:
                mask += f"  %t{n} = add i32<{rows}, 16> %{name}, %{other}\n"
            elif "-" in part:
                name, _, other = part.partition("-")
                mask += f"  %t{n} = sub i32<{rows}, 16> %{name}, %{other}\n"
        sides = [
            f"%t{n}" if "+" in p or "-" in p else "0" if p == "0" else f"%{p}"
            for p in (left, right)
        ]
        mask += less(*sides, f"%c{n}", rows, WORDS[word])  # type: ignore[arg-type]
        last = last or f"%c{n}"
        if n:
            mask += f"  %a{n} = and i1<{rows}, 16> {last}, %c{n}\n"
            last = f"%a{n}"
    mask_lines = mask.replace(f"{last} =", "%in =").replace(f"{last}, _ =", "%in, _ =")
    return KERNEL.format(rows=rows, shift=shift, mask=mask_lines.rstrip("\n"))
