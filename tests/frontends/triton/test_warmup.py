"""What `warmup` gives: what the kernel takes, and a launch, as the tutorial of softmax uses it."""

from __future__ import annotations

import pickle

import numpy as np

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tileir import Module
from tileir.textual import print_module


@triton.jit
def softmax(y, x, x_stride, y_stride, rows, columns, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=num_stages):
        i = tl.arange(0, BLOCK)
        v = tl.load(x + row * x_stride + i, mask=i < columns, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(y + row * y_stride + i, e / tl.sum(e, axis=0), mask=i < columns)


def test_a_warm_kernel_tells_what_it_takes_and_is_launched() -> None:
    x = np.random.default_rng(0).standard_normal((9, 77)).astype(np.float32)
    y = np.empty_like(x)
    kernel = softmax.warmup(y, x, 77, 77, 9, 77, BLOCK=128, num_stages=2, num_warps=4, grid=(1,))
    kernel._init_handles()
    assert 0 < kernel.n_regs <= 255 and kernel.n_spills == 0
    assert kernel.metadata.shared >= 0 and kernel.metadata.num_warps == 4
    expected = np.exp(x - x.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    kernel[(4, 1, 1)](y, x, 77, 77, 9, 77, 128, 2)
    assert np.allclose(y, expected, atol=1e-6)
    y[:] = 0
    kernel[(2, 1, 1)](y, x, 77, 77, 9, 77)
    assert np.allclose(y, expected, atol=1e-6)


def test_a_warm_kernel_is_a_module() -> None:
    x = np.empty((9, 77), np.float32)
    kernel = softmax.warmup(x, x, 77, 77, 9, 77, BLOCK=128, num_stages=2, grid=(1,))
    assert isinstance(kernel, Module) and kernel.kernel("softmax").name == "softmax"
    copied = pickle.loads(pickle.dumps(kernel))
    assert type(copied) is Module and print_module(copied) == print_module(kernel)
