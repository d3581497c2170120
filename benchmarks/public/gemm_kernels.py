"""Matmuls as users of Triton write them: quantised operands with scales, stream-K, groups,
descriptors, block pointers, gathered rows, fused epilogues."""
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from matmul_kernels import block_of


@triton.jit
def scaled_by_blocks(
    a, b, c, a_scale, b_scale, m, n, k, b_k, b_n,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, Q: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """A has a scale for Q elements of a row, B for Q x Q elements."""
    row, column = block_of(tl.program_id(0), m, n, M, N, G)
    i = (row * M + tl.arange(0, M)) % m
    j = (column * N + tl.arange(0, N)) % n
    along = tl.arange(0, K)
    left = a + i[:, None] * k + along[None, :]
    right = b + along[:, None] * b_k + j[None, :] * b_n
    of_a = a_scale + i * tl.cdiv(k, Q)
    of_b = b_scale + (j // Q) * tl.cdiv(k, Q)
    total = tl.zeros((M, N), tl.float32)
    for start in range(tl.cdiv(k, K)):
        x = tl.load(left, mask=along[None, :] < k - start * K, other=0.0)
        y = tl.load(right, mask=along[:, None] < k - start * K, other=0.0)
        group = start * K // Q
        total += tl.dot(x, y) * tl.load(of_a + group)[:, None] * tl.load(of_b + group)[None, :]
        left += K
        right += K * b_k
    i, j = row * M + tl.arange(0, M), column * N + tl.arange(0, N)
    at = c + i[:, None] * n + j[None, :]
    tl.store(at, total.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def scaled_by_rows(
    a, b, c, a_scale, b_scale, m, n, k, b_k, b_n,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr, IMPRECISE: tl.constexpr,
):  # fmt: skip
    """A has a scale for a row, B for a column: of integers or of f8."""
    row, column = block_of(tl.program_id(0), m, n, M, N, G)
    i = row * M + tl.arange(0, M)
    j = column * N + tl.arange(0, N)
    along = tl.arange(0, K)
    left = a + i[:, None] * k + along[None, :]
    right = b + along[:, None] * b_k + j[None, :] * b_n
    kind: tl.constexpr = tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32
    total = tl.zeros((M, N), kind)
    for start in range(0, k, K):
        x = tl.load(left, mask=(i[:, None] < m) & (along[None, :] < k - start), other=0.0)
        y = tl.load(right, mask=(along[:, None] < k - start) & (j[None, :] < n), other=0.0)
        total = tl.dot(x, y, total, out_dtype=kind, max_num_imprecise_acc=IMPRECISE)
        left += K
        right += K * b_k
    of_a = tl.load(a_scale + i, i < m, 0.0)
    of_b = tl.load(b_scale + j, j < n, 0.0)
    result = total.to(tl.float32) * of_a[:, None] * of_b[None, :]
    at = c + i[:, None] * n + j[None, :]
    tl.store(at, result.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def of_packed_words(
    a, b, c, scales, zeros, m, n, k, group,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """B has 8 integers of 4 bits in a word, along K, with a scale and a zero for `group` of them.
    The zeros are packed along N."""
    row, column = block_of(tl.program_id(0), m, n, M, N, G)
    i = row * M + tl.arange(0, M)
    j = column * N + tl.arange(0, N)
    along = tl.arange(0, K)
    left = a + i[:, None] * k + along[None, :]
    right = b + (along[:, None] // 8) * n + j[None, :]
    shift, shift_of_zero = (along % 8) * 4, (j % 8) * 4
    total = tl.zeros((M, N), tl.float32)
    for start in range(tl.cdiv(k, K)):
        x = tl.load(left, mask=i[:, None] < m, other=0.0)
        g = (start * K + along) // group
        scale = tl.load(scales + g[:, None] * n + j[None, :])
        zero = tl.load(zeros + g[:, None] * (n // 8) + j[None, :] // 8)
        zero = (zero >> shift_of_zero[None, :]) & 15
        y = (tl.load(right) >> shift[:, None]) & 15
        y = ((y - zero - 1) * scale).to(a.dtype.element_ty)
        total = tl.dot(x, y, total)
        left += K
        right += (K // 8) * n
    at = c + i[:, None] * n + j[None, :]
    tl.store(at, total.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def of_packed_bytes(
    a, b, c, scales, m, n, k,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, Q: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """B, transposed in memory, has two integers of 4 bits in a byte, with a scale for Q of them."""
    row, column = block_of(tl.program_id(0), m, n, M, N, G)
    i = row * M + tl.arange(0, M)
    j = column * N + tl.arange(0, N)
    along, pairs = tl.arange(0, K), tl.arange(0, K // 2)
    left = a + i[:, None] * k + along[None, :]
    right = b + j[:, None] * (k // 2) + pairs[None, :]
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        x = tl.load(left, mask=i[:, None] < m, other=0.0)
        bytes = tl.load(right)
        low = ((bytes << 4).to(tl.int8) >> 4).to(a.dtype.element_ty)
        high = (bytes.to(tl.int8) >> 4).to(a.dtype.element_ty)
        scale = tl.load(scales + j * (k // Q) + start // Q)
        y = tl.interleave(low, high) * scale[:, None]
        total = tl.dot(x, y.T, total)
        left += K
        right += K // 2
    at = c + i[:, None] * n + j[None, :]
    tl.store(at, total.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def of_narrow_weights(
    a, b, c, scales, m, n, k, b_k, b_n,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """B is of 8 bits and converted to the type of A, with a scale for a column."""
    row, column = block_of(tl.program_id(0), m, n, M, N, G)
    i = (row * M + tl.arange(0, M)) % m
    j = (column * N + tl.arange(0, N)) % n
    along = tl.arange(0, K)
    left = a + i[:, None] * k + along[None, :]
    right = b + along[:, None] * b_k + j[None, :] * b_n
    total = tl.zeros((M, N), tl.float32)
    for start in range(tl.cdiv(k, K)):
        x = tl.load(left, mask=along[None, :] < k - start * K, other=0.0)
        y = tl.load(right, mask=along[:, None] < k - start * K, other=0.0)
        total += tl.dot(x, y.to(x.dtype))
        left += K
        right += K * b_k
    i, j = row * M + tl.arange(0, M), column * N + tl.arange(0, N)
    total *= tl.load(scales + j, j < n, 0.0).to(tl.float32)[None, :]
    at = c + i[:, None] * n + j[None, :]
    tl.store(at, total.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def block_scaled(
    a, b, c, a_scale, b_scale, m, n, k,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr,
    A_KIND: tl.constexpr, B_KIND: tl.constexpr,
):  # fmt: skip
    """Formats with a scale for 32 elements along K; B is transposed in memory."""
    row, column = block_of(tl.program_id(0), m, n, M, N, G)
    i = row * M + tl.arange(0, M)
    j = column * N + tl.arange(0, N)
    A_IN: tl.constexpr = 2 if A_KIND == "e2m1" else 1
    B_IN: tl.constexpr = 2 if B_KIND == "e2m1" else 1
    of_a, of_b, of_scale = tl.arange(0, K // A_IN), tl.arange(0, K // B_IN), tl.arange(0, K // 32)
    left = a + i[:, None] * (k // A_IN) + of_a[None, :]
    right = b + of_b[:, None] + j[None, :] * (k // B_IN)
    right_scale = b_scale + j[:, None] * (k // 32) + of_scale[None, :]
    left_scale = a_scale + i[:, None] * (k // 32) + of_scale[None, :]
    total = tl.zeros((M, N), tl.float32)
    for _ in range(0, k, K):
        x, y, t = tl.load(left), tl.load(right), tl.load(right_scale)
        if A_KIND == "bf16":
            total = tl.dot_scaled(x, None, A_KIND, y, t, B_KIND, total)
        else:
            s = tl.load(left_scale)
            total = tl.dot_scaled(x, s, A_KIND, y, t, B_KIND, total)
        left += K // A_IN
        right += K // B_IN
        left_scale += K // 32
        right_scale += K // 32
    at = c + i[:, None] * n + j[None, :]
    tl.store(at, total.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def stream_k(
    a, b, c, m, n, k, share,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """A program computes `share` steps of K, of one block after the other, and adds them to C."""
    steps = tl.cdiv(k, K)
    first = tl.program_id(0) * share
    last = min(first + share, steps * tl.cdiv(m, M) * tl.cdiv(n, N))
    along = tl.arange(0, K)
    while first < last:
        begin = first % steps
        end = min(steps, begin + last - first)
        row, column = block_of(first // steps, m, n, M, N, G)
        i = row * M + tl.arange(0, M)
        j = column * N + tl.arange(0, N)
        left = a + (i % m)[:, None] * k + begin * K + along[None, :]
        right = b + (begin * K + along)[:, None] * n + (j % n)[None, :]
        total = tl.zeros((M, N), tl.float32)
        for _ in range(begin, end):
            total = tl.dot(tl.load(left), tl.load(right), total)
            left += K
            right += K * n
        at = c + i[:, None] * n + j[None, :]
        inside = (i[:, None] < m) & (j[None, :] < n)
        if end - begin == steps:
            tl.store(at, total, mask=inside)
        else:
            tl.atomic_add(at, total, mask=inside, sem="relaxed")
        first += end - begin


@triton.jit
def matmul_groups(
    a_addresses, b_addresses, c_addresses, sizes, count,
    PROGRAMS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Matmuls of several sizes, whose addresses and sizes are in memory."""
    tile, end = tl.program_id(0), 0
    for g in range(count):
        m, n, k = tl.load(sizes + 3 * g), tl.load(sizes + 3 * g + 1), tl.load(sizes + 3 * g + 2)
        columns = tl.cdiv(n, N)
        tiles = tl.cdiv(m, M) * columns
        while tile >= end and tile < end + tiles:
            a = tl.load(a_addresses + g).to(tl.pointer_type(T))
            b = tl.load(b_addresses + g).to(tl.pointer_type(T))
            c = tl.load(c_addresses + g).to(tl.pointer_type(T))
            i = (tile - end) // columns * M + tl.arange(0, M)
            j = (tile - end) % columns * N + tl.arange(0, N)
            along = tl.arange(0, K)
            left = a + i[:, None] * k + along[None, :]
            right = b + along[:, None] * n + j[None, :]
            total = tl.zeros((M, N), tl.float32)
            for _ in range(tl.cdiv(k, K)):
                tl.multiple_of(left, [16, 16])
                tl.multiple_of(right, [16, 16])
                total += tl.dot(tl.load(left), tl.load(right))
                left += K
                right += K * n
            tl.store(c + i[:, None] * n + j[None, :], total.to(T))
            tile += PROGRAMS
        end += tiles


@triton.jit
def grouped_rows(
    a, b, c, ends, count, n, k,
    PROGRAMS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Consecutive rows of A belong to groups, each with its own B (transposed in memory)."""
    tile, before, begin = tl.program_id(0), 0, 0
    for g in range(count):
        end = tl.load(ends + g)
        down, columns = tl.cdiv(end - begin, M), tl.cdiv(n, N)
        while tile < before + down * columns:
            i = begin + (tile - before) % down * M + tl.arange(0, M)
            j = (tile - before) // down * N + tl.arange(0, N)
            along = tl.arange(0, K)
            total = tl.zeros((M, N), tl.float32)
            for start in range(0, k, K):
                x = tl.load(a + i[:, None] * k + start + along[None, :], i[:, None] < end, 0.0)
                weights = b + g.to(tl.int64) * n * k + j[:, None] * k + start + along[None, :]
                y = tl.load(weights, j[:, None] < n, 0.0)
                total = tl.dot(x, y.T, total)
            at = c + i[:, None] * n + j[None, :]
            inside = (i[:, None] < end) & (j[None, :] < n)
            tl.store(at, total.to(c.dtype.element_ty), inside)
            tile += PROGRAMS
        before += down * columns
        begin = end


@triton.jit
def of_descriptors(
    a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr,
    TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """The host has made the descriptors; B is (n, k) where it is transposed."""
    row, column = block_of(tl.program_id(0), m, n, M, N, G)
    total = tl.zeros((M, N), tl.float32)
    for start in range(tl.cdiv(k, K)):
        x = a.load([row * M, start * K])
        if TRANSPOSED:
            y = b.load([column * N, start * K]).T
        else:
            y = b.load([start * K, column * N])
        total = tl.dot(x, y, total)
    c.store([row * M, column * N], total.to(c.dtype))


@triton.jit
def persistent_of_descriptors(
    a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr,
    PROGRAMS: tl.constexpr, FLATTEN: tl.constexpr, HALVES: tl.constexpr, ON_DEVICE: tl.constexpr,
):  # fmt: skip
    """B is (n, k). The result is stored in two halves where HALVES."""
    if ON_DEVICE:
        a = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
        b = tl.make_tensor_descriptor(b, [n, k], [k, 1], [N, K])
        c = tl.make_tensor_descriptor(c, [m, n], [n, 1], [M, N // 2 if HALVES else N])
    tiles = tl.cdiv(m, M) * tl.cdiv(n, N)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=FLATTEN):
        row, column = block_of(tile, m, n, M, N, G)
        total = tl.zeros((M, N), tl.float32)
        for start in range(tl.cdiv(k, K)):
            x = a.load([row * M, start * K])
            y = b.load([column * N, start * K])
            total = tl.dot(x, y.T, total)
        if HALVES:
            low, high = tl.split(tl.permute(tl.reshape(total, (M, 2, N // 2)), (0, 2, 1)))
            c.store([row * M, column * N], low.to(c.dtype))
            c.store([row * M, column * N + N // 2], high.to(c.dtype))
        else:
            c.store([row * M, column * N], total.to(c.dtype))


@triton.jit
def of_block_pointers(
    a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr
):
    row, column = block_of(tl.program_id(0), m, n, M, N, G)
    left = tl.make_block_ptr(a, (m, k), (k, 1), (row * M, 0), (M, K), (1, 0))
    right = tl.make_block_ptr(b, (k, n), (n, 1), (0, column * N), (K, N), (1, 0))
    total = tl.zeros((M, N), tl.float32)
    for _ in range(0, k, K):
        x = tl.load(left, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(right, boundary_check=(0, 1), padding_option="zero")
        total = tl.dot(x, y, total)
        left = tl.advance(left, (0, K))
        right = tl.advance(right, (K, 0))
    at = tl.make_block_ptr(c, (m, n), (n, 1), (row * M, column * N), (M, N), (1, 0))
    tl.store(at, total.to(c.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def of_batches(
    a, b, c, m, n, k, a_b, a_m, a_k, b_b, b_k, b_n, c_b,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Any strides; the batch is the last dimension of the grid."""
    i = tl.program_id(0) * M + tl.arange(0, M)
    j = tl.program_id(1) * N + tl.arange(0, N)
    batch, along = tl.program_id(2), tl.arange(0, K)
    left = a + batch * a_b + i[:, None] * a_m + along[None, :] * a_k
    right = b + batch * b_b + along[:, None] * b_k + j[None, :] * b_n
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        x = tl.load(left, (i[:, None] < m) & (along[None, :] < k - start), 0.0)
        y = tl.load(right, (along[:, None] < k - start) & (j[None, :] < n), 0.0)
        total += tl.dot(x, y)
        left += K * a_k
        right += K * b_k
    at = c + batch * c_b + i[:, None] * n + j[None, :]
    tl.store(at, total.to(c.dtype.element_ty), (i[:, None] < m) & (j[None, :] < n))


@triton.jit
def with_epilogue(
    a, b, c, bias, more, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    G: tl.constexpr, EPILOGUE: tl.constexpr,
):  # fmt: skip
    row, column = block_of(tl.program_id(0), m, n, M, N, G)
    i = row * M + tl.arange(0, M)
    j = column * N + tl.arange(0, N)
    along = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        x = tl.load(a + i[:, None] * k + start + along[None, :], i[:, None] < m, 0.0)
        y = tl.load(b + j[None, :] * k + start + along[:, None], j[None, :] < n, 0.0)
        total = tl.dot(x, y, total)
    total += tl.load(bias + j, j < n, 0.0).to(tl.float32)[None, :]
    at = i[:, None] * n + j[None, :]
    inside = (i[:, None] < m) & (j[None, :] < n)
    if EPILOGUE == "gelu":
        total = 0.5 * total * (1 + tl.erf(total * 0.7071067811865476))
    if EPILOGUE == "gelu_tanh":
        inner = 0.7978845608028654 * (total + 0.044715 * total * total * total)
        total = total * tl.sigmoid(2 * inner)
    if EPILOGUE == "gelu_kept":
        tl.store(more + at, total.to(c.dtype.element_ty), inside)
        total = 0.5 * total * (1 + tl.erf(total * 0.7071067811865476))
    if EPILOGUE == "residual":
        total += tl.load(more + at, inside, 0.0).to(tl.float32)
    if EPILOGUE == "silu_times":
        total = total * tl.sigmoid(total) * tl.load(more + at, inside, 0.0).to(tl.float32)
    tl.store(c + at, total.to(c.dtype.element_ty), inside)


@triton.jit
def with_layer_norm(
    a, b, c, bias, gain, m, k, eps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """A block has whole rows of the result."""
    i = tl.program_id(0) * M + tl.arange(0, M)
    j, along = tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        x = tl.load(a + i[:, None] * k + start + along[None, :], i[:, None] < m, 0.0)
        y = tl.load(b + (start + along)[:, None] * N + j[None, :])
        total = tl.dot(x, y, total)
    total += tl.load(bias + j).to(tl.float32)[None, :]
    centered = total - (tl.sum(total, 1) / N)[:, None]
    variance = tl.sum(centered * centered, 1) / N
    result = centered * tl.rsqrt(variance + eps)[:, None] * tl.load(gain + j).to(tl.float32)[None]
    tl.store(c + i[:, None] * N + j[None, :], result.to(c.dtype.element_ty), i[:, None] < m)


@triton.jit
def gate_and_up(
    a, gate, up, c, m, n, k,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """silu(A gate) * (A up): two matmuls of one A."""
    row, column = block_of(tl.program_id(0), m, n, M, N, G)
    i = (row * M + tl.arange(0, M)) % m
    j = (column * N + tl.arange(0, N)) % n
    along = tl.arange(0, K)
    left = a + i[:, None] * k + along[None, :]
    at = along[:, None] * n + j[None, :]
    one, two = tl.zeros((M, N), tl.float32), tl.zeros((M, N), tl.float32)
    for start in range(tl.cdiv(k, K)):
        x = tl.load(left, along[None, :] < k - start * K, 0.0)
        one = tl.dot(x, tl.load(gate + at, along[:, None] < k - start * K, 0.0), one)
        two = tl.dot(x, tl.load(up + at, along[:, None] < k - start * K, 0.0), two)
        left += K
        at += K * n
    i, j = row * M + tl.arange(0, M), column * N + tl.arange(0, N)
    result = (one * tl.sigmoid(one) * two).to(c.dtype.element_ty)
    tl.store(c + i[:, None] * n + j[None, :], result, (i[:, None] < m) & (j[None, :] < n))


@triton.jit
def low_rank_added(
    a, b, c, down, up, m, n, k, scale,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, R: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """A B + scale (A down) up, with R columns of `down`."""
    row, column = block_of(tl.program_id(0), m, n, M, N, G)
    i = row * M + tl.arange(0, M)
    j = column * N + tl.arange(0, N)
    along, r = tl.arange(0, K), tl.arange(0, R)
    total, small = tl.zeros((M, N), tl.float32), tl.zeros((M, R), tl.float32)
    for start in range(0, k, K):
        kk = start + along
        x = tl.load(a + i[:, None] * k + kk[None, :], i[:, None] < m, 0.0)
        y = tl.load(b + kk[:, None] + j[None, :] * k, j[None, :] < n, 0.0)
        z = tl.load(down + kk[:, None] * R + r[None, :])
        total = tl.dot(x, y, total)
        small = tl.dot(x, z, small)
    w = tl.load(up + r[:, None] * n + j[None, :], j[None, :] < n, 0.0)
    total += tl.dot((small * scale).to(w.dtype), w)
    at = c + i[:, None] * n + j[None, :]
    tl.store(at, total.to(c.dtype.element_ty), (i[:, None] < m) & (j[None, :] < n))


@triton.jit
def of_experts(
    a, b, c, a_scale, b_scale, weights, rows, experts, n, k, count, choices,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr, Q: tl.constexpr,
    WEIGHTED: tl.constexpr,
):  # fmt: skip
    """A mixture of experts: `rows` are those of C by expert, padded to M with `count`; row r of C
    is of row r // choices of A. With scales for Q elements where there is a Q."""
    row, column = block_of(tl.program_id(0), tl.num_programs(0) // tl.cdiv(n, N) * M, n, M, N, G)
    i = tl.load(rows + row * M + tl.arange(0, M))
    keep = i < count
    expert = tl.load(experts + row).to(tl.int64)
    j = (column * N + tl.arange(0, N)) % n
    along = tl.arange(0, K)
    left = a + (i // choices)[:, None] * k + along[None, :]
    right = b + expert * n * k + along[:, None] + j[None, :] * k
    total = tl.zeros((M, N), tl.float32)
    for start in range(tl.cdiv(k, K)):
        x = tl.load(left, keep[:, None] & (along[None, :] < k - start * K), 0.0)
        y = tl.load(right, along[:, None] < k - start * K, 0.0)
        if Q:
            at = start * K // Q
            s = tl.load(a_scale + (i // choices) * (k // Q) + at, keep, 0.0)
            t = tl.load(b_scale + expert * (n // Q) * (k // Q) + (j // Q) * (k // Q) + at)
            total += tl.dot(x, y) * s[:, None] * t[None, :]
        else:
            total += tl.dot(x, y)
        left += K
        right += K
    if WEIGHTED:
        total *= tl.load(weights + i, keep, 0.0)[:, None]
    j = column * N + tl.arange(0, N)
    at = c + i[:, None] * n + j[None, :]
    tl.store(at, total.to(c.dtype.element_ty), keep[:, None] & (j[None, :] < n))


@triton.jit
def of_gathered_rows(a, b, c, index, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.program_id(0) * M + tl.arange(0, M)
    j = tl.program_id(1) * N + tl.arange(0, N)
    along = tl.arange(0, K)
    source = tl.load(index + i, i < m, 0)
    left = a + source[:, None] * k + along[None, :]
    right = b + along[:, None] * n + j[None, :]
    total = tl.zeros((M, N), tl.float32)
    for _ in range(0, k, K):
        total = tl.dot(tl.load(left), tl.load(right, j[None, :] < n, 0.0), total)
        left += K
        right += K * n
    at = c + i[:, None] * n + j[None, :]
    tl.store(at, total.to(c.dtype.element_ty), (i[:, None] < m) & (j[None, :] < n))


@triton.jit
def of_sparse_blocks(
    a, b, c, begins, columns, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """A has blocks of M x K, those of a row of blocks one after the other, and their columns."""
    row, j = tl.program_id(0), tl.program_id(1) * N + tl.arange(0, N)
    i, along = tl.arange(0, M), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for s in range(tl.load(begins + row), tl.load(begins + row + 1)):
        x = tl.load(a + s * M * K + i[:, None] * K + along[None, :])
        y = tl.load(b + (tl.load(columns + s) * K + along)[:, None] * n + j[None, :])
        total = tl.dot(x, y, total)
    at = c + (row * M + i)[:, None] * n + j[None, :]
    tl.store(at, total.to(c.dtype.element_ty))


@triton.jit
def times_transpose(x, c, n, k, M: tl.constexpr, K: tl.constexpr, G: tl.constexpr):
    """X X^T: blocks below the diagonal are stored to both places, those above are not computed."""
    row, column = block_of(tl.program_id(0), n, n, M, M, G)
    if row < column:
        return
    i, j, along = row * M + tl.arange(0, M), column * M + tl.arange(0, M), tl.arange(0, K)
    total = tl.zeros((M, M), tl.float32)
    for start in range(0, k, K):
        kk = start + along
        left = tl.load(x + i[:, None] * k + kk[None, :], (i < n)[:, None] & (kk < k)[None, :], 0.0)
        right = tl.load(x + j[:, None] * k + kk[None, :], (j < n)[:, None] & (kk < k)[None, :], 0.0)
        total = tl.dot(left, right.T, total)
    result, inside = total.to(c.dtype.element_ty), (i < n)[:, None] & (j < n)[None, :]
    tl.store(c + i[:, None] * n + j[None, :], result, inside)
    if row > column:
        tl.store(c + j[:, None] * n + i[None, :], result.T, inside.T)


@triton.jit
def two_layers(
    x, first, second, c, m, M: tl.constexpr, H: tl.constexpr, S: tl.constexpr, D: tl.constexpr
):
    """relu(X first) second: H columns of the hidden layer in steps of S."""
    i, d, s = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D), tl.arange(0, S)
    left = tl.load(x + i[:, None] * D + d[None, :], i[:, None] < m, 0.0)
    total = tl.zeros((M, D), tl.float32)
    for start in range(0, H, S):
        hidden = tl.dot(left, tl.load(first + d[:, None] * H + start + s[None, :]))
        hidden = tl.maximum(hidden, 0.0).to(left.dtype)
        total = tl.dot(hidden, tl.load(second + (start + s)[:, None] * D + d[None, :]), total)
    tl.store(c + i[:, None] * D + d[None, :], total.to(c.dtype.element_ty), i[:, None] < m)
