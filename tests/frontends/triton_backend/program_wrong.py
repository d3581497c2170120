"""Kernels with planted mistakes, whose lines say `# wrong: CODE`, and kernels without."""

import torch
import triton
import triton.language as tl


@triton.jit
def all_write_one_place(x):
    tl.store(x, tl.program_id(0))  # wrong: TIR0517


@triton.jit
def total_without_atomics(x, total, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    before = tl.load(total)  # wrong: TIR0517
    tl.store(total, before + tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))


@triton.jit
def blocks_that_overlap(x, y, B: tl.constexpr):
    i = tl.program_id(0) * (B - 1) + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i))  # wrong: TIR0517


@triton.jit
def no_mask_on_the_load(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)  # wrong: TIR0501
    tl.store(y + i, v, mask=i < n)


@triton.jit
def stride_of_another_tensor(x, y, rows, stride, B: tl.constexpr):
    i = tl.arange(0, B)
    for row in range(rows):
        tl.store(y + row * stride + i, tl.load(x + row * B + i))  # wrong: TIR0501


@triton.jit
def sum_of_what_is_masked_off(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y, tl.sum(v, 0))  # wrong: TIR0505


@triton.jit
def right(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, v * 2, mask=i < n)


@triton.jit
def right_with_atomics(x, total, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(total, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))


ones, many = torch.ones(60), torch.zeros(100)
for launch in (
    lambda: all_write_one_place[(4,)](torch.zeros(4)),
    lambda: total_without_atomics[(4,)](ones, torch.zeros(1), 60, B=16),
    lambda: blocks_that_overlap[(3,)](ones, many, B=16),
    lambda: no_mask_on_the_load[(1,)](ones, many, 60, B=64),
    lambda: stride_of_another_tensor[(1,)](torch.ones(4, 16), many, 4, 32, B=16),
    lambda: sum_of_what_is_masked_off[(1,)](ones, many, 60, B=64),
    lambda: right[(2,)](ones, many[20:80], 60, B=32),
    lambda: right_with_atomics[(2,)](ones, torch.zeros(1), 60, B=32),
):
    try:
        launch()
    except Exception as error:
        print(type(error).__name__)
