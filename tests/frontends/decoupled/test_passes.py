"""Reductions in one pass: which are followed, how parts are joined, what is loaded before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.frontends.decoupled import CompilationError, parse


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@for_each("op", ["rmax", "rmin", "rsum"])
@for_each("dtype", ["float32", "float64", "int32"])
def test_only_maxima_of_floats_are_followed(op: str, dtype: str) -> None:
    """Those begin with the least number, which no other reduction does."""
    source = f"""
    Func out, top; In A; Var x; RVar k;
    top[x] = {op}(A[x, k], k);
    out[x] = rsum(exp(A[x, k] - reshape(top[x], x, 1)), k);
    top.fuse_at(out, x); out.online(k); out.tensorize(k:4); out.compile();
    """
    function, A = parse(source).function(), normal(3, 9).astype(dtype)
    if op == "rmax" and dtype != "int32":
        precision = 1e-5 if dtype == "float32" else 1e-12
        for values in (A, A - 100):
            expected = function.reference(values)
            np.testing.assert_allclose(function(values), expected, precision, precision)
        return
    with pytest.raises(CompilationError) as caught:
        function(A)
    assert caught.value.code == "TIR1204" and caught.value.line == 4


TOGETHER = (
    "rsum({0}, k) + rmax({0}, k) * 3",
    "rmax({0}, k) - rmin(2 * {0}, k)",
    "rsum(exp({0} - rmax({0}, k)) * 2, k) + rsum({0}, k) * rmin({0}, k)",
    "rsum(exp({0}) * exp({0} - rmax({0}, k)), k) / rsum(exp2({0} - rmax({0}, k)), k)",
)


@for_each("value", TOGETHER)
@for_each("dtype", ["float32", "int32"])
@for_each("tile", [8, 12, 16])
def test_approximate_passes_join_parts_by_the_op(value: str, dtype: str, tile: int) -> None:
    """A sum may have parts, of every eighth position each, where nothing else in the pass needs
    the whole; a maximum or minimum that none follows has none."""
    if dtype == "int32" and "exp" in value:
        return
    A = (np.random.default_rng(tile).permutation(3 * 48).reshape(3, 48) % 19 - 9).astype(dtype)
    A = A if dtype == "int32" else A / 4
    text = value.format("A[x, k]").replace(
        "- rmax(A[x, k], k)", "- reshape(rmax(A[x, k], k), x, 1)"
    )
    source = f"""
    Func out; In A; Var x; RVar k;
    out[x] = {text}; out.block(x:4);
    out.online(k); out.tensorize(x:0, k:{tile}); out.math(approx); out.compile();
    """
    function = parse(source).function()
    result = function(A, on="interpreter")
    np.testing.assert_allclose(result, function.reference(A), rtol=1e-4, atol=1e-5)


@for_each("value", ["rmax(rdot(Q[m, k], K[k, l], k), l)", "rsum(rdot(Q[m, k], K[k, l], k) * 2, l)"])
def test_operands_that_a_pass_does_not_change_are_loaded_before_it(value: str) -> None:
    source = f"""
    Func f; In Q, K; Var m; RVar k, l; f[m] = {value};
    f.block(m:16); f.tensorize(m:0, k:0, l:16); f.compile();
    """
    function, inputs = parse(source).function(), (normal(16, 16), normal(16, 64))
    result = function(*inputs, on="interpreter")
    np.testing.assert_allclose(result, function.reference(*inputs), rtol=1e-4, atol=1e-4)
    (kernel,) = function.plan(*inputs).module.functions.values()
    loads = [
        label for label, block in kernel.blocks.items() for op in block.ops if op.mnemonic == "load"
    ]
    assert len(loads) == 2 and loads.count("entry") == 1


@for_each(("dtype", "outside"), [("int32", "-1"), ("float32", "-1"), ("float32", "-inf")])
def test_masks_of_a_pass_are_those_of_elements_of_any_type(dtype: str, outside: str) -> None:
    source = f"""
    Func f; In A; Var m; RVar l;
    f[m] = rmax(where(l <= reshape(m, m, 1), A[m, l], {outside}), l);
    f.block(m:4); f.online(l); f.tensorize(m:0, l:4); f.compile();
    """
    A = (np.random.default_rng(1).permutation(11 * 11).reshape(11, 11) - 60).astype(dtype)
    expected = np.where(np.tri(11) > 0, A, float(outside)).max(axis=1)
    assert (parse(source).function()(A, on="interpreter") == expected).all()
