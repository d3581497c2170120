"""Programs with the barriers that they need and no others.

A line `!block` or `!warp` is a barrier that the pass puts there; the others are the program's.
"""

from __future__ import annotations

import re

from tileir import Function
from tileir.passmanager import run
from tileir.textual import parse

HEAD = """tir 1.0
stage "allocated"
#a = layout(rank = 1, lane = [[1], [2], [4], [8], [16]], warp = [[32]])
#s = layout(rank = 1, lane = [[1], [2], [4], [8], [0]], warp = [[16]])
#f = layout(rank = 2, lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 0]], warp = [[0, 16]])
#c = layout(rank = 1, lane = [[1], [2], [4], [8], [16]], warp = [[0]])
#e = layout(rank = 2, lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[0, 0]])
#r = layout(rank = 2, lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[1, 0]])
#g = layout(rank = 2, register = [[0, 8], [4, 0], [0, 1]], lane = [[1, 0], [0, 2], [2, 0], [0, 16], [0, 4]], warp = [[0, 32]])
#w = layout(rank = 2, register = [[0, 1], [0, 9], [4, 9]], lane = [[0, 16], [0, 18], [0, 22], [2, 0], [3, 0]], warp = [[0, 40]])
#uu = layout(rank = 2, register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]], warp = [[0, 32]])
#z = layout(rank = 2, lane = [[1, 0], [0, 1], [0, 2], [0, 4], [0, 8]], warp = [[0, 16]])

define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y, f32** %pp, i32* %flag, i32 %n, i32 %m, i1 %c, i1 %d) {num_warps = 2, shared = 65536} {
entry:
  %i = make_range i32<64, #a>
  %last = splat i32<64, #a> 63
  %j = sub i32<64, #a> %last, %i
  %xs = splat f32*<64, #a> %x
  %ys = splat f32*<64, #a> %y
  %p = getelementptr f32*<64, #a> %xs, %i
  %q = getelementptr f32*<64, #a> %xs, %j
  %yp = getelementptr f32*<64, #a> %ys, %i
  %v = splat f32<64, #a> 1.0
  %i2 = reshape i32<2, 32, #r> %i
  %g0 = make_range i32<32, #c>
  %g1 = expand_dims i32<1, 32, #e> %g0 {axis = 0}
  %g2 = broadcast i32<2, 32, #r> %g1
  %g3 = add i32<2, 32, #r> %g2, %g2
  %rest = splat i32<2, 32, #r> 31
  %g4 = sub i32<2, 32, #r> %rest, %g3
  %turned = add i32<2, 32, #r> %i2, %g4
  %xr = splat f32*<2, 32, #r> %x
  %pr = getelementptr f32*<2, 32, #r> %xr, %i2
  %qr = getelementptr f32*<2, 32, #r> %xr, %turned
  %vr = splat f32<2, 32, #r> 1.0
  %is = make_range i32<32, #s>
  %xss = splat f32*<32, #s> %x
  %yss = splat f32*<32, #s> %y
  %ps = getelementptr f32*<32, #s> %xss, %is
  %ysp = getelementptr f32*<32, #s> %yss, %is
  %vs = splat f32<32, #s> 1.0
  %vg = splat f32<8, 64, #g> 1.0
"""  # noqa: E501
"""`%p` goes up, `%q` down; `%pr` has a row for each warp, of which `%qr` goes backwards; of `%ps`
two lanes of a warp hold each element."""

_BARRIER = re.compile(r"^ *(?:!(block|warp)|gpu\.barrier( \{warp = true\})?)$")
_NO_OP = re.compile(r"^ *(;.*|\w+:|%\w+ = phi .*)?$")


def scene(body: str) -> list[str]:
    """The lines of `body`, a `ret` after them where there is none."""
    lines = body.rstrip().splitlines()
    return lines if any(line.strip() == "ret" for line in lines) else [*lines, "  ret"]


def kernel(body: str) -> Function:
    """The program without its marks, and with the barriers that it needs."""
    lines = [line for line in scene(body) if not line.strip().startswith("!")]
    return run(parse(HEAD + "\n".join(lines) + "\n}\n"), "insert-barriers").module.kernel()


def expected_barriers(body: str) -> list[tuple[str, int]]:
    """The barriers of `body`, marks included: kind, and how many ops come before."""
    barriers: list[tuple[str, int]] = []
    count = 0
    for line in [*HEAD.partition("entry:\n")[2].splitlines(), *scene(body)]:
        if barrier := _BARRIER.match(line):
            barriers.append((barrier[1] or ("warp" if barrier[2] else "block"), count))
        else:
            count += not _NO_OP.match(line)
    return barriers


def barriers_of(body: str) -> list[tuple[str, int]]:
    """The barriers of the program of `body`, in the same way."""
    barriers: list[tuple[str, int]] = []
    count = 0
    for op in kernel(body).ops:
        if op.mnemonic == "gpu.barrier":
            barriers.append(("warp" if getattr(op, "warp", False) else "block", count))
        else:
            count += 1
    return barriers
