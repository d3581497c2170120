"""The same kernels as four releases of Triton write them."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tileir import interpret
from tileir.frontends.ttir import CompilationError, read

FILES = sorted((Path(__file__).parent / "versions").glob("*/*.ttir"))
FOREIGN = "3.0.0/fp8dot"
"""Has a float type of AMD's GPUs, which that release took for this one's."""
chance = np.random.default_rng(0)
X = chance.random(128, np.float32)
COUNTS = chance.integers(0, 16, 128).astype(np.int32)
PLACES = chance.permutation(128).astype(np.int32)
A, B = (chance.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
TO = {"rtol": 1e-5}


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def control(x, n):
    """What the loop of `control` makes of `x` in `n` iterations."""
    for k in range(n):
        other = np.where(x > 1, x, 1 / (1 + np.exp(-x)))
        x = np.sqrt(x) + np.exp2(x) if k % 2 == 0 else other
    return x


def product(a, b, to):
    return (a.astype(to).astype(np.float32)) @ (b.astype(to).astype(np.float32))


def softmax(x):
    return np.exp(x) / np.exp(x).sum(1, keepdims=True)


E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
GRID = chance.random((16, 128), np.float32) + 1
ROWS = X[:120].reshape(4, 30)
CASES = {
    "add": (1, (X, X * 2, zeros(128), 100), 2, np.where(np.arange(128) < 100, X * 3, 0)),
    "atomics": (1, (X, zeros(1, dtype=np.int32), zeros(128)), 2, X),
    "blockptr": (1, (GRID, np.full((16, 128), 7, np.float32), 16, 128), 1, GRID * 2),
    "cat": (1, (np.tile(X, 2), zeros(256)), 1, np.tile(X, 2)),
    "control": (1, (X, zeros(128), 5), 1, control(X, 5)),
    "desc": (1, (A, zeros(64, 32, dtype=np.float16), 16, 64), 1, None),
    "fp8dot": (1, (A[:32, :32].copy(), B[:32, :32].copy(), zeros(32, 32)), 2,
               product(A[:32, :32], B[:32, :32], E5M2).astype(E4M3).astype(np.float32)),
    "gather": (1, (X, PLACES, zeros(128)), 2, X[PLACES]),
    "hints": (1, (X, zeros(128), 100), 1, np.where(np.arange(128) < 100, X, 0)),
    "joinsplit": (1, (X, zeros(256)), 1, np.concatenate([X, X + 1])),
    "matmul": (1, (A, B, zeros(64, 64, dtype=np.float16), 64, 64, 64, 64, 1, 64, 1, 64, 1), 2,
               product(A, B, np.float32)),
    "scanhist": (1, (COUNTS, zeros(128, dtype=np.int32), zeros(16, dtype=np.int32)), 1,
                 np.cumsum(COUNTS)),
    "softmax": (4, (zeros(4, 30), ROWS, 30, 30, 30), 0, softmax(ROWS)),
}  # fmt: skip


@pytest.mark.sampled(28)
@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_kernel_means_the_same_in_every_version(path: Path) -> None:
    if FOREIGN in str(path.with_suffix("")):
        with pytest.raises(CompilationError, match="type f8E4M3FNUZ is not supported"):
            read(path.read_text())
        return
    text = path.read_text()
    if path.stem == "control":  # the interpreter runs no PTX: its move becomes |x|, which is x here
        assert "inline_asm" in [op.mnemonic for op in read(text).kernel().ops]
        text, moves = re.subn(r'tt.elementwise_inline_asm "mov.+?} (\S+) : (\S+) -> \S+',
                              r"math.absf \1 : \2", text)  # fmt: skip
        assert moves == 1
    module = read(text, path.name)
    grid, arguments, out, expected = CASES[path.stem]
    values = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
    interpret(module, None, grid, values)
    if path.stem == "desc":
        assert (values[1].reshape(-1)[:32] == A[0, 32:]).all()
    else:
        np.testing.assert_allclose(values[out], expected, rtol=2e-3, atol=1e-5)
    if path.stem == "scanhist":
        assert (values[2] == np.bincount(COUNTS, minlength=16) + np.argmax(COUNTS)).all()


def test_ops_stand_at_the_lines_of_the_kernel() -> None:
    path = next(p for p in FILES if "3.9.0/softmax" in str(p))
    ops = list(read(path.read_text()).kernel().ops)
    lines = {op.mnemonic: str(op.location) for op in ops}
    assert lines["store"].startswith("kern.py:") and lines["load"] != lines["store"]
    # What is inlined stands where it was written: `tl.max` in Triton's own file.
    assert "triton/language/standard.py" in lines["reduce"]


@pytest.mark.parametrize("version", ["3.3.1", "3.9.0"])
def test_dots_of_8_bits_may_be_added_up_as_the_text_allows(version: str) -> None:
    (path,) = (p for p in FILES if f"{version}/fp8dot" in str(p))
    allowed = [op.attributes["max_imprecise"] for op in read(path.read_text()).kernel().ops
               if op.mnemonic == "dot"]  # fmt: skip
    assert allowed == [1 << 30]
