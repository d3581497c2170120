"""The kernels of seeds 001, 002 and 004 as their documents print them (their import line changed).

OpenAI, "Introducing Triton" (2021), and Lamont et al., "An Analysis of Triton VS Cuda", lost their
indentation; it is restored. In 001's matmul `**META` carries the block sizes, as in Triton 1.0.
"""

# ruff: noqa: B007

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tileir.frontends.triton import jit
from tileir.frontends.triton.language import arange, load, program_id, store


@jit
def add(X, Y, Z, N):
    pid = program_id(0)
    idx = pid * 512 + arange(512)
    mask = idx < N
    x = load(X + idx, mask=mask)
    y = load(Y + idx, mask=mask)
    store(Z + idx, x + y, mask=mask)


@triton.jit
def softmax(Y, stride_ym, stride_yn, X, stride_xm, stride_xn, M, N):
    # row index
    m = tl.program_id(0)
    # col indices
    # this specific kernel only works for matrices that
    # have less than BLOCK_SIZE columns
    BLOCK_SIZE = 1024
    n = tl.arange(0, BLOCK_SIZE)
    # the memory address of all the elements
    # that we want to load can be computed as follows
    X = X + m * stride_xm + n * stride_xn
    # load input data; pad out-of-bounds elements with 0
    x = tl.load(X, mask=n < N, other=-float("inf"))
    # compute numerically-stable softmax
    z = x - tl.max(x, axis=0)
    num = tl.exp(z)
    denom = tl.sum(num, axis=0)
    y = num / denom
    # write back to Y
    Y = Y + m * stride_ym + n * stride_yn
    tl.store(Y, y, mask=n < N)


@triton.jit
def matmul(A, B, C, M, N, K, stride_am, stride_ak,
           stride_bk, stride_bn, stride_cm, stride_cn,
           **META):  # fmt: skip
    # extract metaparameters
    BLOCK_M, GROUP_M = META["BLOCK_M"], META["GROUP_M"]
    BLOCK_N = META["BLOCK_N"]
    BLOCK_K = META["BLOCK_K"]
    # programs are grouped together to improve L2 hit rate
    _pid_m = tl.program_id(0)
    _pid_n = tl.program_id(1)
    pid_m = _pid_m // GROUP_M
    pid_n = (_pid_n * GROUP_M) + (_pid_m % GROUP_M)
    # rm (resp. rn) denotes a range of indices
    # for rows (resp. col) of C
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    # rk denotes a range of indices for columns
    # (resp. rows) of A (resp. B)
    rk = tl.arange(0, BLOCK_K)
    # the memory addresses of elements in the first block of
    # A and B can be computed using numpy-style broadcasting
    A = A + (rm[:, None] * stride_am + rk[None, :] * stride_ak)
    B = B + (rk[:, None] * stride_bk + rn[None, :] * stride_bn)
    # initialize and iteratively update accumulator
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(K, 0, -BLOCK_K):
        a = tl.load(A)
        b = tl.load(B)
        # block level matrix multiplication
        acc += tl.dot(a, b)
        # increment pointers so that the next blocks of A and B
        # are loaded during the next iteration
        A += BLOCK_K * stride_ak
        B += BLOCK_K * stride_bk
    # fuse leaky ReLU if desired
    # acc = tl.where(acc >= 0, acc, alpha * acc)
    # write back result
    C = C + (rm[:, None] * stride_cm + rn[None, :] * stride_cn)
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(C, acc, mask=mask)


@triton.jit
def kernel_230423_01(
    x_ptr,
    y_ptr,
    n,
    BLOCK_SIZE_N: tl.constexpr,
):
    idx = tl.program_id(0)
    offsets = idx * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, x, mask=mask)


@triton.jit
def kernel_230423_03a(  # same as kernel_230423_01
    x_ptr,
    y_ptr,
    n,
    BLOCK_SIZE_N: tl.constexpr,
):
    idx = tl.program_id(0)
    offsets = idx * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, x, mask=mask)


@triton.jit
def kernel_230423_03b(  # same as kernel_230423_01
    x_ptr,
    y_ptr,
    n,
    BLOCK_SIZE_N: tl.constexpr,
):
    idx = tl.program_id(0)
    offsets = idx * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, x, mask=mask)


@triton.jit
def kernel_230424_01(
    x_ptr,
    y_ptr,
    N: tl.constexpr,  # static shape
    BLOCK_SIZE_N: tl.constexpr,
):
    tiles = (N + BLOCK_SIZE_N - 1) // BLOCK_SIZE_N
    for i in range(tiles):
        offsets = i * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
        mask = offsets < N
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(y_ptr + offsets, x, mask=mask)


@triton.jit
def kernel_230424_02(
    x_ptr,
    y_ptr,
    M: tl.constexpr,  # static shape
    N: tl.constexpr,  # static shape
    BLOCK_SIZE_M: tl.constexpr,
):
    rows = tl.arange(0, BLOCK_SIZE_M)
    cols = tl.arange(0, N)
    tiles = (M + BLOCK_SIZE_M - 1) // BLOCK_SIZE_M
    for i in range(tiles):
        # 2D tile, mask
        offsets = i * BLOCK_SIZE_M * N + N * rows[:, None] + cols[None, :]
        mask = (i * BLOCK_SIZE_M + rows < M)[:, None]
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(y_ptr + offsets, x, mask=mask)


@triton.jit
def kernel_230423_04(
    x_ptr,
    y_ptr,
    N: tl.constexpr,  # static shape
    BLOCK_SIZE_N: tl.constexpr,
):
    idx = tl.program_id(0)
    offsets = idx * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    mask = offsets < N
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, x, mask=mask)


@triton.jit
def kernel_230423_05(
    x_ptr,
    y_ptr,
    n,
    BLOCK_SIZE_N: tl.constexpr,
):
    tiles = (n + BLOCK_SIZE_N - 1) // BLOCK_SIZE_N
    for i in range(tiles):
        offsets = i * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(y_ptr + offsets, x, mask=mask)


@triton.jit
def kernel_230423_06(  # same as kernel_230423_05
    x_ptr,
    y_ptr,
    n,
    BLOCK_SIZE_N: tl.constexpr,
):
    tiles = (n + BLOCK_SIZE_N - 1) // BLOCK_SIZE_N
    for i in range(tiles):
        offsets = i * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(y_ptr + offsets, x, mask=mask)


@triton.jit
def kernel_230423_07(
    x_ptr,
    y_ptr,
    n,
    BLOCK_SIZE_N: tl.constexpr,
):
    tiles = (n + BLOCK_SIZE_N - 1) // BLOCK_SIZE_N
    # We know for sure tiles except for the last tile won't out-of-bounds.
    # Drop mask so that Triton can vectorize it, i.e. use ldg.128.
    for i in range(tiles - 1):
        offsets = i * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
        x = tl.load(x_ptr + offsets)
        tl.store(y_ptr + offsets, x)
    # Last tile, aware of mask, no vectorization.
    offsets = (tiles - 1) * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, x, mask=mask)


@triton.jit
def kernel_230424_03(
    x_ptr,
    y_ptr,
    N: tl.constexpr,  # static shape
):
    cols = tl.arange(0, N)
    mask = cols < N
    x = tl.load(x_ptr + cols, mask=mask, other=0.0)
    total = tl.sum(x, axis=0)
    tl.store(y_ptr, total)


@triton.jit
def kernel_230424_04(
    x_ptr,
    y_ptr,
    N: tl.constexpr,  # static shape
    BLOCK_SIZE_N: tl.constexpr,
):
    pid = tl.program_id(0)
    cols = pid * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    mask = cols < N
    x = tl.load(x_ptr + cols, mask=mask, other=0.0)
    total = tl.sum(x, axis=0)
    tl.atomic_add(y_ptr, total)


@triton.jit
def kernel_230424_05(
    x_ptr,
    y_ptr,
    N: tl.constexpr,  # static shape
):
    off = tl.arange(0, N)
    x_ptrs = x_ptr + off[:, None] * N + off[None, :]
    y_ptrs = y_ptr + off[None, :] * N + off[:, None]
    x = tl.load(x_ptrs)
    tl.store(y_ptrs, x)


@triton.jit
def kernel_230424_06(
    x_ptr,
    y_ptr,
    N: tl.constexpr,  # static shape
):
    off = tl.arange(0, N)
    x = tl.load(x_ptr + off)
    x = tl.sigmoid(x)
    tl.store(y_ptr + off, x)


@triton.jit
def kernel_230429_01(
    a_ptr,
    b_ptr,
    d_ptr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    offs_m = tl.arange(0, M)
    offs_n = tl.arange(0, N)
    offs_k = tl.arange(0, K)
    a_ptrs = a_ptr + (offs_m[:, None] * K + offs_k[None, :])
    b_ptrs = b_ptr + (offs_k[:, None] * N + offs_n[None, :])
    d_ptrs = d_ptr + (offs_m[:, None] * N + offs_n[None, :])
    a = tl.load(a_ptrs)
    b = tl.load(b_ptrs)
    d = tl.dot(a, b)
    tl.store(d_ptrs, d)


@triton.jit
def conv2d(
    input_ptr, kernel_ptr, output_ptr, H, W,
    KH: tl.constexpr, KW: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr,
):  # fmt: skip
    """Lamont et al.: the document prints the body in two parts, without its header."""
    # Calculate the output coordinates for this block
    bh = tl.program_id(0) * BLOCK_H
    bw = tl.program_id(1) * BLOCK_W

    # Create a range for the block
    h_idx = bh + tl.arange(0, BLOCK_H)
    w_idx = bw + tl.arange(0, BLOCK_W)

    # Mask to ensure we don't go out of bounds for the output
    h_output_mask = h_idx < (H - KH + 1)
    w_output_mask = w_idx < (W - KW + 1)

    # Initialize the output block
    out = tl.zeros((BLOCK_H, BLOCK_W), dtype=tl.float32)

    # Iterate over each element in the kernel
    for khw in range(KH * KW, num_stages=3):
        kh = khw // KW
        kw = khw % KW

        # Calculate the pointers for the input
        h_in = h_idx + kh
        w_in = w_idx + kw

        # Mask to ensure valid input indices
        valid_h = h_in < H
        valid_w = w_in < W

        # we want to make sure that we are producing a necessary output,
        # and that we are not out of bounds for the input
        # mask is of shape (BLOCK_H, BLOCK_W)
        # we want to broadcast everything to be of shape
        # (1, BLOCK_W) or (BLOCK_H, 1)
        mask = h_output_mask[:, None] & w_output_mask[None, :] & \
            valid_h[:, None] & valid_w[None, :]  # fmt: skip

        # Load input and kernel values
        input_val = tl.load(input_ptr + h_in[:, None] * W + w_in[None, :], \
            mask=mask)  # fmt: skip
        kernel_val = tl.load(kernel_ptr + kh * KW + kw)

        # Accumulate convolution result (here its a tensor * a scalar)
        out += input_val * kernel_val

    # Write the output block
    tl.store(output_ptr + h_idx[:, None] * (W - KW + 1) + w_idx[None, :], \
        out, mask=h_output_mask[:, None] & w_output_mask[None, :])  # fmt: skip


@triton.jit
def masked_matmul(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
):  # fmt: skip
    """Lamont et al. print the loads and the matmul; what is around them is made up."""
    columns = tl.cdiv(N, BLOCK_SIZE_N)
    offs_m = tl.program_id(0) // columns * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_n = tl.program_id(0) % columns * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_m % M)[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * N + (offs_n % N)[None, :]
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):  # noqa: PIE808
        # If it is out of bounds, set it to 0.
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        # We accumulate along the K dimension.
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_SIZE_K
        b_ptrs += BLOCK_SIZE_K * N
    inside = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(c_ptrs, accumulator.to(tl.float16), mask=inside)
