"""The kernels that Pham 2025 (Decoupled Triton, MSc thesis, 2025) prints whole: hand-written and
generated ones, in its order, with names of their own.

Repaired: in `relu_grouped` the two lines of `x_pid` are joined in parentheses; the document breaks
the line in the middle of the expression.
"""
# fmt: off

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl


@triton.jit
def add(
    # *Pointer* to first input vector.
    x_ptr,
    # *Pointer* to second input vector.
    y_ptr,
    # *Pointer* to output vector.
    output_ptr,
    # Size of the vector.
    n_elements,
    # Number of elements each program should process.
    BLOCK_SIZE: tl.constexpr,
    # NOTE: 'constexpr' so it can be used as a shape value.
    ):
    # There are multiple 'programs' processing different data.
    # We identify which program we are here:
    pid = tl.program_id(axis=0) # We use a 1D launch grid so axis is 0.
    # This program will process inputs that are offset from the initial data.
    # For instance, if you had a vector of length 256 and block_size of 64,
    # the programs would each access the elements
    # [0:64, 64:128, 128:192, 192:256].
    # Note that offsets is a list of pointers:
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    # Create a mask to guard memory operations against out-of-bounds
    # accesses.
    mask = offsets < n_elements
    # Load x and y from DRAM, masking out any extra elements in case the
    # input is not a multiple of the block size.
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    output = x + y
    # Write x + y back to DRAM.
    tl.store(output_ptr + offsets, output, mask=mask)


@triton.jit
def axpy_like(
    A_ptr,
    A_x_stride: tl.constexpr, A_y_stride: tl.constexpr,
    B_ptr,
    B_x_stride: tl.constexpr, B_y_stride: tl.constexpr,
    alpha,
    add_out_ptr,
    add_out_x_stride: tl.constexpr, add_out_y_stride: tl.constexpr,
    y_SIZE: tl.constexpr, x_SIZE: tl.constexpr):
    y_BLOCK_COUNT = y_SIZE // 256
    x_BLOCK_COUNT = x_SIZE // 1
    y_pid = tl.program_id(0).to(tl.int64) // x_BLOCK_COUNT % y_BLOCK_COUNT
    x_pid = tl.program_id(0).to(tl.int64) % x_BLOCK_COUNT
    y_block_start = y_pid * 256
    x_block_start = x_pid * 1
    y_arange = tl.arange(0, 64)
    for y_iter in range(0, 256, 64):
        A = tl.load(A_ptr + x_block_start * A_x_stride +
                    (y_block_start + y_iter + y_arange) * A_y_stride)
        B = tl.load(B_ptr + x_block_start * B_x_stride +
                    (y_block_start + y_iter + y_arange) * B_y_stride)
        add_out = alpha * (A + B)
        tl.store(add_out_ptr + x_block_start * add_out_x_stride +
                (y_block_start + y_iter + y_arange) * add_out_y_stride,
                add_out)


@triton.jit
def relu_scalar(
    A_ptr,
    A_x_stride: tl.constexpr, A_y_stride: tl.constexpr,
    relu_out_ptr,
    relu_out_x_stride: tl.constexpr, relu_out_y_stride: tl.constexpr,
    y_SIZE: tl.constexpr, x_SIZE: tl.constexpr):
    for x_iter in range(0, x_SIZE, 1):
        for y_iter in range(0, y_SIZE, 1):
            A = tl.load(A_ptr + x_iter * A_x_stride + y_iter * A_y_stride)
            relu_out = tl.maximum(0, A)
            tl.store(relu_out_ptr + x_iter * relu_out_x_stride +
                    y_iter * relu_out_y_stride, relu_out)


@triton.jit
def relu_blocks(
    A_ptr,
    A_x_stride: tl.constexpr, A_y_stride: tl.constexpr,
    relu_out_ptr,
    relu_out_x_stride: tl.constexpr, relu_out_y_stride: tl.constexpr,
    y_SIZE: tl.constexpr, x_SIZE: tl.constexpr):
    y_BLOCK_COUNT = y_SIZE // 64
    x_BLOCK_COUNT = x_SIZE // 16
    y_pid = tl.program_id(0).to(tl.int64) // x_BLOCK_COUNT % y_BLOCK_COUNT
    x_pid = tl.program_id(0).to(tl.int64) % x_BLOCK_COUNT
    y_block_start = y_pid * 64
    x_block_start = x_pid * 16
    for x_iter in range(0, 16, 1):
        for y_iter in range(0, 64, 1):
            A = tl.load(A_ptr + (x_block_start + x_iter) * A_x_stride +
                        (y_block_start + y_iter) * A_y_stride)
            relu_out = tl.maximum(0, A)
            tl.store(relu_out_ptr + (x_block_start + x_iter) * relu_out_x_stride +
                    (y_block_start + y_iter) * relu_out_y_stride, relu_out)


@triton.jit
def relu_rows(
    A_ptr,
    A_x_stride: tl.constexpr, A_y_stride: tl.constexpr,
    relu_out_ptr,
    relu_out_x_stride: tl.constexpr, relu_out_y_stride: tl.constexpr,
    y_SIZE: tl.constexpr, x_SIZE: tl.constexpr,
    y_NEXT_POWER_OF_TWO: tl.constexpr):
    y_arange = tl.arange(0, y_NEXT_POWER_OF_TWO)
    x_arange = tl.arange(0, 64)
    for x_iter in range(0, x_SIZE, 64):
        A = tl.load(A_ptr + (x_iter + x_arange[:, None]) * A_x_stride +
                   y_arange[None, :] * A_y_stride)
        relu_out = tl.maximum(0, A)
        tl.store(relu_out_ptr + (x_iter + x_arange[:, None]) *
               relu_out_x_stride + y_arange[None, :] * relu_out_y_stride,
               relu_out)


@triton.jit
def relu_tiles(
    A_ptr,
    A_x_stride: tl.constexpr, A_y_stride: tl.constexpr,
    relu_out_ptr,
    relu_out_x_stride: tl.constexpr, relu_out_y_stride: tl.constexpr,
    y_SIZE: tl.constexpr, x_SIZE: tl.constexpr):
    y_BLOCK_COUNT = y_SIZE // 128
    x_BLOCK_COUNT = x_SIZE // 4
    y_pid = tl.program_id(0).to(tl.int64) // x_BLOCK_COUNT % y_BLOCK_COUNT
    x_pid = tl.program_id(0).to(tl.int64) % x_BLOCK_COUNT
    y_block_start = y_pid * 128
    x_block_start = x_pid * 4
    y_arange = tl.arange(0, 16)
    x_arange = tl.arange(0, 4)
    for y_iter in range(0, 128, 16):
        A = tl.load(A_ptr + (x_block_start + x_arange[:, None]) * A_x_stride +
                   (y_block_start + y_iter + y_arange[None, :]) * A_y_stride)
        relu_out = tl.maximum(0, A)
        tl.store(relu_out_ptr + (x_block_start + x_arange[:, None]) *
                relu_out_x_stride + (y_block_start + y_iter +
                y_arange[None, :]) * relu_out_y_stride, relu_out)


@triton.jit
def relu_grouped(
    A_ptr,
    A_x_stride: tl.constexpr, A_y_stride: tl.constexpr,
    relu_out_ptr,
    relu_out_x_stride: tl.constexpr, relu_out_y_stride: tl.constexpr,
    y_SIZE: tl.constexpr, x_SIZE: tl.constexpr):
    y_BLOCK_COUNT = y_SIZE // 16
    x_BLOCK_COUNT = x_SIZE // 8
    x_pid = (tl.program_id(0).to(tl.int64) // (y_BLOCK_COUNT * 4) %
            (x_BLOCK_COUNT // 4))
    y_pid = tl.program_id(0).to(tl.int64) // 4 % y_BLOCK_COUNT
    xi_pid = tl.program_id(0).to(tl.int64) % 4
    x_pid_ = x_pid * 4 + xi_pid
    y_block_start = y_pid * 16
    x_block_start = x_pid_ * 8
    for x_iter in range(0, 8, 1):
        for y_iter in range(0, 16, 1):
            A = tl.load(A_ptr + (x_block_start + x_iter) * A_x_stride +
                        (y_block_start + y_iter) * A_y_stride)
            relu_out = tl.maximum(0, A)
            tl.store(relu_out_ptr + (x_block_start + x_iter) * relu_out_x_stride +
                    (y_block_start + y_iter) * relu_out_y_stride, relu_out)


@triton.jit
def swish_scalar(
    A_ptr,
    A_x_stride: tl.constexpr, A_y_stride: tl.constexpr,
    beta,
    swish_out_ptr,
    swish_out_x_stride: tl.constexpr, swish_out_y_stride: tl.constexpr,
    y_SIZE: tl.constexpr, x_SIZE: tl.constexpr):
    for x_iter in range(0, x_SIZE, 1):
        for y_iter in range(0, y_SIZE, 1):
            A = tl.load(A_ptr + x_iter * A_x_stride + y_iter * A_y_stride)
            tmp = tl.sigmoid(beta * A)
            swish_out = A * tmp
            tl.store(swish_out_ptr + x_iter * swish_out_x_stride +
                    y_iter * swish_out_y_stride, swish_out)


@triton.jit
def swish_stored(
    A_ptr,
    A_x_stride: tl.constexpr, A_y_stride: tl.constexpr,
    beta,
    tmp_fuse_ptr,
    tmp_fuse_x_stride: tl.constexpr, tmp_fuse_y_stride: tl.constexpr,
    swish_out_ptr,
    swish_out_x_stride: tl.constexpr, swish_out_y_stride: tl.constexpr,
    y_SIZE: tl.constexpr, x_SIZE: tl.constexpr):
    for x_iter in range(0, x_SIZE, 1):
        for y_iter in range(0, y_SIZE, 1):
            A = tl.load(A_ptr + x_iter * A_x_stride + y_iter * A_y_stride)
            tmp = tl.sigmoid(beta * A)
            tl.store(tmp_fuse_ptr + x_iter * tmp_fuse_x_stride +
                   y_iter * tmp_fuse_y_stride, tmp)
        for y_iter in range(0, y_SIZE, 1):
            A = tl.load(A_ptr + x_iter * A_x_stride + y_iter * A_y_stride)
            tmp = tl.load(tmp_fuse_ptr + x_iter * tmp_fuse_x_stride +
                         y_iter * tmp_fuse_y_stride)
            swish_out = A * tmp
            tl.store(swish_out_ptr + x_iter * swish_out_x_stride +
                   y_iter * swish_out_y_stride, swish_out)


@triton.jit
def swish_rows(
    A_ptr,
    A_x_stride: tl.constexpr, A_y_stride: tl.constexpr,
    beta,
    swish_out_ptr,
    swish_out_x_stride: tl.constexpr, swish_out_y_stride: tl.constexpr,
    y_SIZE: tl.constexpr, x_SIZE: tl.constexpr,
    y_NEXT_POWER_OF_TWO: tl.constexpr):
    y_arange = tl.arange(0, y_NEXT_POWER_OF_TWO)
    for x_iter in range(0, x_SIZE, 1):
        A = tl.load(A_ptr + x_iter * A_x_stride + y_arange * A_y_stride)
        tmp = tl.sigmoid(beta * A)
        swish_out = A * tmp
        tl.store(swish_out_ptr + x_iter * swish_out_x_stride +
                y_arange * swish_out_y_stride, swish_out)


@triton.jit
def relu_warps(
    A_ptr,
    A_x_stride: tl.constexpr, A_y_stride: tl.constexpr,
    relu_out_ptr,
    relu_out_x_stride: tl.constexpr, relu_out_y_stride: tl.constexpr,
    y_SIZE: tl.constexpr, x_SIZE: tl.constexpr):
    for x_iter in range(0, x_SIZE, 1):
        for y_iter in range(0, y_SIZE, 1):
            A = tl.load(A_ptr + x_iter * A_x_stride + y_iter * A_y_stride)
            relu_out = tl.maximum(0, A)
            tl.store(relu_out_ptr + x_iter * relu_out_x_stride +
                    y_iter * relu_out_y_stride, relu_out)


@triton.jit
def sum_scalar(
    A_ptr,
    A_x_stride: tl.constexpr, A_k_stride: tl.constexpr,
    sum_out_ptr,
    sum_out_x_stride: tl.constexpr,
    x_SIZE: tl.constexpr, k_SIZE: tl.constexpr):
    for x_iter in range(0, x_SIZE, 1):
        k_accumulator = 0.000000
        for k_iter in range(0, k_SIZE, 1):
            A = tl.load(A_ptr + x_iter * A_x_stride + k_iter * A_k_stride)
            k_accumulator = k_accumulator + A
            k_reduction_result = k_accumulator
            sum_out = k_reduction_result
            tl.store(sum_out_ptr + x_iter * sum_out_x_stride, sum_out)


@triton.jit
def sum_vector(
    A_ptr,
    A_x_stride: tl.constexpr, A_k_stride: tl.constexpr,
    sum_out_ptr,
    sum_out_x_stride: tl.constexpr,
    x_SIZE: tl.constexpr, k_SIZE: tl.constexpr):
    k_arange = tl.arange(0, 16)
    for x_iter in range(0, x_SIZE, 1):
        k_accumulator = tl.zeros((16,), tl.float32)
        for k_iter in range(0, k_SIZE, 16):
            A = tl.load(A_ptr + x_iter * A_x_stride +
                       (k_iter + k_arange) * A_k_stride)
            k_accumulator = k_accumulator + A
        k_reduction_result = tl.sum(k_accumulator, 0)
        sum_out = k_reduction_result
        tl.store(sum_out_ptr + x_iter * sum_out_x_stride, sum_out)


@triton.jit
def split_k(
    A_ptr,
    A_x_stride: tl.constexpr, A_k_stride: tl.constexpr,
    split_k_ptr,
    split_k_x_stride: tl.constexpr, split_k_k_stride: tl.constexpr,
    x_SIZE: tl.constexpr, k_SIZE: tl.constexpr):
    k_BLOCK_COUNT = k_SIZE // 32
    k_pid = tl.program_id(0).to(tl.int64) % k_BLOCK_COUNT
    k_block_start = k_pid * 32
    for x_iter in range(0, x_SIZE, 1):
        k_accumulator = 0.000000
        for k_iter in range(0, 32, 1):
            A = tl.load(A_ptr + x_iter * A_x_stride +
                       (k_block_start + k_iter) * A_k_stride)
            k_accumulator = k_accumulator + A
        k_reduction_result = k_accumulator
        tl.store(split_k_ptr + x_iter * split_k_x_stride +
                k_pid * split_k_k_stride, k_reduction_result)


@triton.jit
def sum_of_split(
    A_ptr,
    A_x_stride: tl.constexpr, A_k_stride: tl.constexpr,
    split_k_ptr,
    split_k_x_stride: tl.constexpr, split_k_k_stride: tl.constexpr,
    sum_out_ptr,
    sum_out_x_stride: tl.constexpr,
    x_SIZE: tl.constexpr, k_SIZE: tl.constexpr):
    for x_iter in range(0, x_SIZE, 1):
        k_accumulator = 0.000000
        for k_iter in range(0, k_SIZE // 32, 1):
            k_reduction_intermediate = tl.load(split_k_ptr + x_iter *
                                               split_k_x_stride + k_iter *
                                               split_k_k_stride)
            k_accumulator = k_accumulator + k_reduction_intermediate
        k_reduction_result = k_accumulator
        sum_out = k_reduction_result
        tl.store(sum_out_ptr + x_iter * sum_out_x_stride, sum_out)
