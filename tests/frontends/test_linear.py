"""Reading takes work in proportion to the length of the text: calls of functions are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.counting import grows_linearly
from tileir.frontends import decoupled, tensor_comprehensions, tile, triton_c, ttir
from tileir.frontends.decoupled.fusion import Group


def lines(text: str, n: int) -> str:
    """`text` for each number below n in place of `?`."""
    return "".join([text.replace("?", str(i)) for i in range(n)])


def ttir_kernel(body: str) -> str:
    head = "module {\n  tt.func public @k(%x: !tt.ptr<f32>, %n: i32, %c: i1) {\n"
    return f"{head}{body}    tt.return\n  }}\n}}\n"


def c_kernel(body: str) -> str:
    return f"kernel void k(int* x, int n) {{\n{body}}}\n"


FUNCS = "Func f; In A, B; Var x, y; RVar k;\n"
COMPILED = "f[x] = A[x]; f.block(x:2); f.compile();"
TEXTS: dict[str, tuple[Callable[[str], Any], Callable[[int], str]]] = {
    "TTIR ops": (
        ttir.read,
        lambda n: ttir_kernel(lines("    %a? = arith.addi %n, %n : i32\n", n)),
    ),
    "TTIR flags": (
        ttir.read,
        lambda n: ttir_kernel(lines("    %a? = arith.addi %n, %n overflow<nsw> : i32\n", n)),
    ),
    "TTIR locations": (
        ttir.read,
        lambda n: (
            ttir_kernel(lines("    %a? = arith.addi %n, %n : i32 loc(#loc?)\n", n))
            + lines('#loc? = loc("k.py":?:1)\n', n)
        ),
    ),
    "TTIR branches": (
        ttir.read,
        lambda n: ttir_kernel(
            lines(
                "    %a? = scf.if %c -> (i32) {\n      scf.yield %n : i32\n    } else {\n"
                "      scf.yield %n : i32\n    }\n",
                n,
            )
        ),
    ),
    "TTIR loops": (
        ttir.read,
        lambda n: ttir_kernel(
            lines(
                "    %a? = scf.for %i? = %n to %n step %n iter_args(%b? = %n) -> (i32) : i32 {\n"
                "      scf.yield %b? : i32\n    }\n",
                n,
            )
        ),
    ),
    "TTIR loops in a row": (
        ttir.read,
        lambda n: ttir_kernel(
            "    %a0 = arith.addi %n, %n : i32\n"
            + "".join(
                f"    %a{i + 1} = scf.for %i{i} = %n to %n step %n iter_args(%b = %a{i}) -> (i32)"
                " : i32 {\n      scf.yield %b : i32\n    }\n"
                for i in range(n)
            )
        ),
    ),
    "TTIR combiners": (
        ttir.read,
        lambda n: ttir_kernel(
            "    %t = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>\n"
            + lines(
                '    %a? = "tt.reduce"(%t) <{axis = 0 : i32}> ({\n    ^bb0(%b: i32, %d: i32):\n'
                "      %e = arith.subi %b, %d : i32\n      tt.reduce.return %e : i32\n"
                "    }) : (tensor<64xi32>) -> i32\n",
                n,
            )
        ),
    ),
    "TTIR functions": (
        ttir.read,
        lambda n: (
            "module {\n" + lines("  tt.func public @k?(%x: i32) {\n    tt.return\n  }\n", n) + "}\n"
        ),
    ),
    "Triton-C statements": (
        lambda text: triton_c.parse(text).module(),
        lambda n: c_kernel(lines("  int a? = n * ? + (n - 3) / 2;\n", n)),
    ),
    "Triton-C terms": (triton_c.parse, lambda n: c_kernel(f"  n = n{' + n' * n};\n")),
    "Triton-C functions": (
        triton_c.parse,
        lambda n: lines("kernel void k?(int* x) { *x = 1; }\n", n),
    ),
    "Tile statements": (
        tile.parse,
        lambda n: f"function (A[M, N]) -> (O) {{ {lines('B?[i: M] = +(A[i, k]); ', n)} O = A; }}",
    ),
    "Tensor Comprehensions": (
        tensor_comprehensions.parse,
        lambda n: lines("def f?(float(M, K) A) -> (C) { C(m) +=! A(m, k) where k in 0:K }\n", n),
    ),
    "Decoupled Funcs": (
        decoupled.parse,
        lambda n: FUNCS + lines("Func g?; g?[x] = rsum(B[x, k], k);\n", n) + COMPILED,
    ),
    "Decoupled Funcs in one kernel": (
        decoupled.parse,
        lambda n: (
            FUNCS
            + COMPILED
            + lines("Func g?, h?; g?[x] = A[x]; h?[x] = g?[x]; g?.fuse_at(h?, x);\n", n)
        ),
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_reading_is_linear(name: str) -> None:
    read, text = TEXTS[name]
    assert grows_linearly(lambda n: read(text(n)), 24)


def test_the_dimensions_of_a_kernel_are_gathered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of tuples are no calls: what makes them is counted."""
    gathered: list[int] = []
    labels = Group.labels.fget
    assert labels is not None
    monkeypatch.setattr(Group, "labels", property(lambda own: gathered.append(1) or labels(own)))

    def count(n: int) -> int:
        gathered.clear()
        names = [f"x{i}" for i in range(n)]
        sizes = ", ".join(f"{name}:0" for name in names)
        listed = ", ".join(names)
        decoupled.parse(
            f"Func f; Var {listed}; f[{listed}] = 1; f.tensorize({sizes}); f.compile();"
        )
        return len(gathered)

    assert count(32) == count(8)
