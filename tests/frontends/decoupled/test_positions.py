"""Positions outside of a tensor, a block or a tile of one, which take no part in reductions."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.sizes import few_or_all
from tileir.frontends.decoupled import parse

SUMMANDS = (
    "A[x, k]", "A[x, k] * 2", "A[x, k] + 1", "A[x, k] * (k + 1)", "exp(A[x, k])",
    "where(A[x, k] < 0, 1, 2)",
)  # fmt: skip
DOTS = (
    "rdot(A[x, k], B[k, y], k)", "rdot(A[x, k] + 1, B[k, y], k)", "rdot(A[x, k], B[k, y] - 1, k)",
    "rdot(exp(A[x, k]), C[y] * reshape(k + 1, k, 1), k)",
    "rdot(A[x, k] + 1, C[y] * reshape(k + 1, k, 1), k)",
)  # fmt: skip
VALUES = (*(f"{op}({s}, k)" for op in ("rsum", "rmax", "rmin") for s in SUMMANDS), *DOTS)
SHAPES = {"A": "xk", "B": "ky", "C": "y"}


def random_definition(value: str, choose: random.Random) -> tuple[str, dict[str, int]]:
    """A definition of `value` and sizes: blocks and tiles of any length, which need not divide each
    other. A may be a fused Func."""
    sizes = {n: choose.choice((1, 3, 4, 6, 8, 12, 13)) for n in "xy"}
    sizes["k"] = choose.choice((5, 8, 12, 24, 25, 30))
    labels = "xy" if "rdot" in value else "x"
    schedule = ""
    for label in (*labels, "k"):
        block = choose.choice((0, 2, 3, 4, 6, 8, 12, 24)) if label in "xk" else 0
        schedule += f" f.block({label}:{block});" if block else ""
        fitting = [n for n in (0, 2, 3, 4, 5, 8) if not block or n <= block]
        schedule += f" f.tensorize({label}:{choose.choice(fitting)});"
    tensors = [n for n in SHAPES if n in value]
    first, funcs = "", "f"
    if choose.random() < 0.4:
        funcs = "f, g"
        first = "g[x, k] = A[x, k] * A[x, k] + 1;"
        value = value.replace("A[x, k]", "g[x, k]")
        schedule += f" g.fuse_at(f, {choose.choice(('x', 'k'))});"
    source = f"""Func {funcs}; In {", ".join(tensors)}; Var {", ".join(labels)}; RVar k;
{first}
f[{", ".join(labels)}] = {value};{schedule}
f.compile();
"""
    return source, sizes


@pytest.mark.parametrize("count", few_or_all(2, 40))
def test_positions_outside_take_no_part(count: int) -> None:
    for number, value in enumerate(VALUES * count):
        source, sizes = random_definition(value, random.Random(number))
        rng = np.random.default_rng(number)
        function = parse(source).function()
        arrays = {
            name: (
                rng.integers(1, 9, [sizes[n] for n in SHAPES[name]]) / 8 * rng.choice((-1, 1))
            ).astype(np.float32)
            for name in function.tensors
        }
        expected = function.reference(**arrays)
        result = function(**arrays, on="interpreter")
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5, err_msg=source)


STORED = {
    "f[x, y] = g[x, y] + 2 * g[x, y]": "",
    "f[x, y] = g[x, y] * rsum(g[x, k], k)": "",
    "f[x, y] = rdot(g[x, k], C[k, y], k)": "",
    "f[x, y] = h[x, y] - rmax(h[x, k], k)": "h[x, y] = g[x, y] + rsum(g[x, k], k);",
    "f[x, y] = h[x, y] * g[x, y]": "h[x, y] = rsum(g[x, k] - 1, k) * g[x, y];",
    "f[x, y, z] = g[x, y, z] + rmax(g[x, y, k], k)": "",
    "f[x, y, z] = g[x, y, z] * rsum(g[x, k, z], k)": "",
}
"""Results that read a fused Func `g`, of which some read it at all positions of a dimension; and
another one between both."""


def random_storing(value: str, choose: random.Random) -> str:
    """A definition of `value` in which Funcs are fused at any dimension, with any blocks and
    tiles."""
    labels = "xyz" if "z" in value else "xy"
    listed = ", ".join(labels)
    blocks = {n: choose.choice((1, 2, 4, 8)) for n in labels if choose.random() < 0.7}
    schedule = f"f.block({', '.join(f'{n}:{size}' for n, size in blocks.items())});"
    schedule = schedule if blocks else ""
    tiles = {
        n: choose.choice([t for t in (0, 1, 2) if t <= blocks.get(n, 2)])
        for n in (*labels, *("k" * ("k]" in value or "k," in value)))
        if choose.random() < 0.6
    }
    if tiles:
        schedule += f" f.tensorize({', '.join(f'{n}:{size}' for n, size in tiles.items())});"
    funcs = ["g", *("h" * bool(STORED[value]))]
    schedule += "".join(f" {name}.fuse_at(f, {choose.choice(labels)});" for name in funcs)
    return f"""Func f, {", ".join(funcs)}; In A, C; Var x, y, z; RVar k;
g[{listed}] = A[{listed}] * 2 + len({labels[-1]}); {STORED[value]}
{value}; {schedule} f.compile();"""


@pytest.mark.parametrize("count", few_or_all(3, 60))
def test_fused_funcs_in_memory_are_whole_where_they_are_read(count: int) -> None:
    """What is read of a Func has been computed by the same instance, and in memory of its own."""
    are_stored = 0
    for number, value in enumerate([*STORED] * count):
        source = random_storing(value, random.Random(number))
        rng = np.random.default_rng(number)
        sizes = [(3, 5, 8)[rng.integers(3)] for _ in range(2 + ("z" in value))]
        function = parse(source).function()
        arrays = {"A": rng.standard_normal(sizes).astype(np.float32)}
        if "C" in function.tensors:
            arrays["C"] = rng.standard_normal((sizes[1], sizes[1])).astype(np.float32)
        result, expected = function(**arrays, on="interpreter"), function.reference(**arrays)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4, err_msg=source)
        are_stored += bool(function.plan(**arrays).scratch)
    assert are_stored > count
