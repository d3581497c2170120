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
def off_by_one_mask(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i <= n, other=0.0)  # wrong: TIR0501
    tl.store(y + i, v, mask=i < n)


@triton.jit
def missing_mask_on_the_store(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, v)  # wrong: TIR0501


@triton.jit
def double_store(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(y + i // 2, v)  # wrong: TIR0509


@triton.jit
def no_barrier_between_programs(x, flag, y, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(x + p * B + i, i * 1.0)  # wrong: TIR0517
    q = (p + 1) % tl.num_programs(0)
    tl.store(y + p * B + i, tl.load(x + q * B + i))


@triton.jit
def atomics_and_plain_reads(count, y):
    p = tl.program_id(0)
    tl.atomic_add(count, 1)  # wrong: TIR0517
    tl.store(y + p, tl.load(count))


@triton.jit
def negative_index(x, y, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i - 1)  # wrong: TIR0501
    tl.store(y + i, v)


@triton.jit
def int32_overflow(x, y, stride, B: tl.constexpr):
    row = tl.program_id(0) + 70000
    i = row * stride + tl.arange(0, B)
    v = tl.load(x + i)  # wrong: TIR0503
    tl.store(y + tl.arange(0, B), v)


@triton.jit
def unmasked_reduction(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    m = tl.max(v, 0)
    tl.store(y, m)  # wrong: TIR0505


@triton.jit
def helper(x, i):
    return tl.load(x + i * 2)  # wrong: TIR0501


@triton.jit
def in_a_helper(x, y, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, helper(x, i))


@triton.jit
def block_pointer_without_check(x, y, n, B: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (tl.program_id(0) * B,), (B,), (0,))
    v = tl.load(p)  # wrong: TIR0501
    q = tl.make_block_ptr(y, (n,), (1,), (tl.program_id(0) * B,), (B,), (0,))
    tl.store(q, v, boundary_check=(0,))


@triton.jit
def grid_too_large(x, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, 1.0)  # wrong: TIR0501


@triton.jit
def wrong_stride(x, y, rows, stride, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(y + r * stride + i, tl.load(x + r * B + i))  # wrong: TIR0517


@triton.jit
def reads_empty(x, y, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(y + i, v + 1)  # wrong: TIR0505


@triton.jit
def divides_by_zero(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(y + i, 7 // v)  # wrong: TIR0550


@triton.jit
def loop_carried_pointer(x, y, n, B: tl.constexpr):
    p = x + tl.arange(0, B)
    a = tl.zeros((B,), tl.float32)
    for _ in range(0, n + 1, B):
        a += tl.load(p)  # wrong: TIR0501
        p += B
    tl.store(y + tl.arange(0, B), a)


@triton.jit
def cas_and_store(lock, y):
    while tl.atomic_cas(lock, 0, 1) == 1:  # wrong: TIR0517
        pass
    tl.store(y, tl.load(y) + 1)
    tl.store(lock, 0)


@triton.jit
def dtype_of_the_wrong_size(x, y, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x.to(tl.pointer_type(tl.float64)) + i)  # wrong: TIR0501
    tl.store(y + i, v.to(tl.float32))


@triton.jit
def gather_with_a_bad_index(x, k, y, B: tl.constexpr):
    i = tl.arange(0, B)
    j = tl.load(k + i)
    tl.store(y + i, tl.load(x + j))  # wrong: TIR0501


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
    lambda: off_by_one_mask[(4,)](ones, many, 60, B=16),
    lambda: missing_mask_on_the_store[(4,)](ones, torch.zeros(60), 60, B=16),
    lambda: double_store[(1,)](torch.arange(16.0), many, 60, B=16),
    lambda: no_barrier_between_programs[(3,)](torch.zeros(48), many, torch.zeros(48), B=16),
    lambda: atomics_and_plain_reads[(3,)](
        torch.zeros(1, dtype=torch.int32), torch.zeros(3, dtype=torch.int32)
    ),
    lambda: negative_index[(1,)](ones, many, B=16),
    lambda: int32_overflow[(1,)](torch.zeros(100), many, 40000, B=16),
    lambda: unmasked_reduction[(1,)](ones, many, 60, B=64),
    lambda: in_a_helper[(1,)](ones, many, B=32),
    lambda: block_pointer_without_check[(4,)](ones, many, 60, B=16),
    lambda: grid_too_large[(5,)](ones, B=16),
    lambda: wrong_stride[(4,)](many, torch.zeros(100), 4, 12, B=16),
    lambda: reads_empty[(1,)](torch.empty(64), many, B=64),
    lambda: divides_by_zero[(1,)](torch.zeros(16, dtype=torch.int32), many, 4, B=16),
    lambda: loop_carried_pointer[(1,)](torch.ones(64), many, 64, B=16),
    lambda: cas_and_store[(3,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1)),
    lambda: dtype_of_the_wrong_size[(1,)](torch.zeros(16), many, B=16),
    lambda: gather_with_a_bad_index[(1,)](torch.zeros(16), torch.full((16,), -3), many, B=16),
    lambda: right[(2,)](ones, many[20:80], 60, B=32),
    lambda: right[(2,)](torch.ones(64), torch.empty(64), 60, B=32),
    lambda: right[(2,)](torch.empty(64)[4:].fill_(1), many, 60, B=32),
    lambda: right_with_atomics[(2,)](ones, torch.zeros(1), 60, B=32),
):
    try:
        launch()
    except Exception as error:
        print(type(error).__name__)
