"""Matmuls in more forms than `cases_matmuls.py`, with the kernels of `gemm_kernels.py`."""
# ruff: noqa: ANN001, ANN002, ANN003, ANN202

from __future__ import annotations

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from cases import BF16, F16, F64, Step, add
from cases_matmuls import F8

F8_WIDE = torch.float8_e5m2
PROGRAMS = 66 + 66  # one per multiprocessor; tests use smaller numbers


def _n(device, *shape, dtype=BF16, scale=1.0):
    if dtype is torch.int8:
        return torch.randint(-128, 128, shape, device=device, dtype=dtype)
    return (torch.randn(*shape, device=device) * scale).to(dtype)


def _scales(device, *shape):
    return torch.rand(*shape, device=device) + 0.5


def _tiles(m, n, block):
    return -(-m // block[0]) * -(-n // block[1])


def _add(name, build):
    add(f"gemms/{name}", build)


def _launch(kernel, grid, *arguments, out, warps, stages, **named):
    """A function that launches a kernel and returns `out`."""
    import gemm_kernels

    def run():
        getattr(gemm_kernels, kernel)[grid](*arguments, num_warps=warps, num_stages=stages, **named)
        return [out]

    return run


def _spread(scales, down, right):
    """Scales, each repeated for `down` x `right` elements."""
    return scales.to(F64).repeat_interleave(down, 0).repeat_interleave(right, 1)


# Quantised operands -------------------------------------------------------------------------------
def _block_scaled(name, size, block, warps, stages, dtype=F8, layout="t"):
    def build(device):
        m, n, k = size
        a, b = _n(device, m, k, dtype=dtype), _n(device, *((n, k) if layout == "t" else (k, n)))
        b = b.to(dtype).t() if layout == "t" else b.to(dtype)
        s, t = _scales(device, m, k // 128), _scales(device, n // 128, k // 128)
        c = torch.empty(m, n, device=device, dtype=BF16)
        run = _launch(
            "scaled_by_blocks", (_tiles(m, n, block),), a, b, c, s, t, m, n, k, *b.stride(),
            *block, 128, 8, out=c, warps=warps, stages=stages,
        )  # fmt: skip

        def exact():
            left = a.to(F64) * _spread(s, 1, 128)
            return [left @ (b.to(F64) * _spread(t, 128, 128).t())]

        return Step(run, exact)

    _add(name, build)


def _row_scaled(name, size, block, warps, stages, dtype, layout="t", imprecise=None):
    def build(device):
        m, n, k = size
        a = _n(device, m, k, dtype=dtype)
        b = _n(device, *((n, k) if layout == "t" else (k, n)), dtype=dtype)
        b = b.t() if layout == "t" else b
        s, t = _scales(device, m), _scales(device, n)
        c = torch.empty(m, n, device=device, dtype=BF16)
        run = _launch(
            "scaled_by_rows", (_tiles(m, n, block),), a, b, c, s, t, m, n, k, *b.stride(),
            *block, 8, imprecise, out=c, warps=warps, stages=stages,
        )  # fmt: skip
        return Step(run, lambda: [a.to(F64) @ b.to(F64) * s.to(F64)[:, None] * t.to(F64)])

    _add(name, build)


def _packed_words(name, size, block, warps, stages, group=128):
    def build(device):
        m, n, k = size
        a = _n(device, m, k, dtype=F16)
        words = [
            torch.randint(-(2**31), 2**31 - 1, s, device=device, dtype=torch.int32)
            for s in ((k // 8, n), (k // group, n // 8))
        ]
        scales = _scales(device, k // group, n).mul(0.01).to(F16)
        c = torch.empty(m, n, device=device, dtype=F16)
        run = _launch(
            "of_packed_words", (_tiles(m, n, block),), a, words[0], c, scales, words[1], m, n, k,
            group, *block, 8, out=c, warps=warps, stages=stages,
        )  # fmt: skip

        def exact():
            shifts = torch.arange(8, device=device, dtype=torch.int32) * 4
            b = (words[0][:, None, :] >> shifts[:, None] & 15).reshape(k, n)
            zeros = (words[1][:, :, None] >> shifts & 15).reshape(k // group, n)
            zeros = zeros.repeat_interleave(group, 0)
            return [a.to(F64) @ ((b - zeros - 1) * scales.to(F64).repeat_interleave(group, 0))]

        return Step(run, exact)

    _add(name, build)


def _packed_bytes(name, size, block, warps, stages, group=128):
    def build(device):
        m, n, k = size
        a = _n(device, m, k)
        b = torch.randint(0, 128, (n, k // 2), device=device, dtype=torch.uint8)
        scales = _scales(device, n, k // group).to(BF16)
        c = torch.empty(m, n, device=device, dtype=BF16)
        run = _launch(
            "of_packed_bytes", (_tiles(m, n, block),), a, b, c, scales, m, n, k,
            *block, group, 8, out=c, warps=warps, stages=stages,
        )  # fmt: skip

        def exact():
            signed = [(v ^ 8).to(F64) - 8 for v in (b & 15, b >> 4)]
            right = torch.stack(signed, 2).reshape(n, k) * _spread(scales, 1, group)
            return [a.to(F64) @ right.t()]

        return Step(run, exact)

    _add(name, build)


def _narrow(name, size, block, warps, stages, dtype, layout="n"):
    def build(device):
        m, n, k = size
        a = _n(device, m, k)
        b = _n(device, *((n, k) if layout == "t" else (k, n)), dtype=dtype)
        b = b.t() if layout == "t" else b
        scales, c = _scales(device, n), torch.empty(m, n, device=device, dtype=BF16)
        run = _launch(
            "of_narrow_weights", (_tiles(m, n, block),), a, b, c, scales, m, n, k, *b.stride(),
            *block, 8, out=c, warps=warps, stages=stages,
        )  # fmt: skip
        return Step(run, lambda: [a.to(F64) @ b.to(F64) * scales.to(F64)])

    _add(name, build)


FOUR_BITS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _microscales(name, size, block, warps, stages, kinds):
    def build(device):
        m, n, k = size

        def operand(rows, kind):
            if kind == "e2m1":
                return torch.randint(0, 128, (rows, k // 2), device=device, dtype=torch.uint8)
            return _n(device, rows, k, dtype=BF16 if kind == "bf16" else F8)

        def value(x, kind):
            if kind != "e2m1":
                return x.to(F64)
            codes = torch.stack((x & 15, x >> 4), 2).reshape(x.shape[0], k).long()
            table = torch.tensor(FOUR_BITS, device=device, dtype=F64)
            return table[codes & 7] * (1 - 2 * (codes >> 3))

        a, b = operand(m, kinds[0]), operand(n, kinds[1])
        s, t = (
            torch.randint(124, 128, (rows, k // 32), device=device, dtype=torch.uint8)
            for rows in (m, n)
        )
        c = torch.empty(m, n, device=device, dtype=BF16)
        run = _launch(
            "block_scaled", (_tiles(m, n, block),), a, b, c, s, t, m, n, k, *block, 8, *kinds,
            out=c, warps=warps, stages=stages,
        )  # fmt: skip

        def exact():
            left, right = value(a, kinds[0]), value(b, kinds[1])
            if kinds[0] != "bf16":
                left = left * _spread(2.0 ** (s.to(F64) - 127), 1, 32)
            return [left @ (right * _spread(2.0 ** (t.to(F64) - 127), 1, 32)).t()]

        return Step(run, exact)

    _add(name, build)


# Programs of blocks -------------------------------------------------------------------------------
def _stream(name, size, block, warps, stages):
    def build(device):
        m, n, k = size
        a, b = _n(device, m, k, dtype=F16), _n(device, k, n, dtype=F16)
        c = torch.zeros(m, n, device=device)
        steps = _tiles(m, n, block) * (k // block[2])
        kernel = _launch(
            "stream_k", (PROGRAMS,), a, b, c, m, n, k, -(-steps // PROGRAMS), *block, 8,
            out=c, warps=warps, stages=stages,
        )  # fmt: skip

        def run():
            c.zero_()
            return kernel()

        return Step(run, lambda: [a.to(F64) @ b.to(F64)])

    _add(name, build)


def _groups(name, sizes, block, warps, stages):
    def build(device):
        import gemm_kernels
        import triton.language as tl  # type: ignore[import-not-found]

        a, b = (
            [_n(device, *((m, k) if left else (k, n)), dtype=F16) for m, n, k in sizes]
            for left in (True, False)
        )
        c = [torch.empty(m, n, device=device, dtype=F16) for m, n, _ in sizes]
        addresses = [
            torch.tensor([t.data_ptr() for t in ts], device=device, dtype=torch.int64)
            for ts in (a, b, c)
        ]
        shapes = torch.tensor([v for s in sizes for v in s], device=device, dtype=torch.int32)

        def run():
            gemm_kernels.matmul_groups[(PROGRAMS,)](
                *addresses, shapes, len(sizes), PROGRAMS, *block, tl.float16,
                num_warps=warps, num_stages=stages,
            )  # fmt: skip
            return c

        return Step(run, lambda: [x.to(F64) @ y.to(F64) for x, y in zip(a, b, strict=True)])

    _add(name, build)


def _grouped_rows(name, counts, size, block, warps, stages):
    def build(device):
        n, k = size
        ends = [sum(counts[: i + 1]) for i in range(len(counts))]
        a, b = _n(device, ends[-1], k), _n(device, len(counts), n, k)
        c = torch.empty(ends[-1], n, device=device, dtype=BF16)
        last = torch.tensor(ends, device=device, dtype=torch.int32)
        run = _launch(
            "grouped_rows", (PROGRAMS,), a, b, c, last, len(counts), n, k, PROGRAMS, *block,
            out=c, warps=warps, stages=stages,
        )  # fmt: skip

        def exact():
            parts = [
                a[end - count : end].to(F64) @ b[g].to(F64).t()
                for g, (end, count) in enumerate(zip(ends, counts, strict=True))
            ]
            return [torch.cat(parts)]

        return Step(run, exact)

    _add(name, build)


def _descriptors(name, size, block, warps, stages, dtype=F16, layout="n"):
    def build(device):
        from triton.tools.tensor_descriptor import (  # type: ignore[import-not-found]
            TensorDescriptor,
        )

        m, n, k = size
        a = _n(device, m, k, dtype=dtype)
        b = _n(device, *((n, k) if layout == "t" else (k, n)), dtype=dtype)
        c = torch.empty(m, n, device=device, dtype=F16 if dtype is F8 else dtype)
        rows, columns, depth = block
        of_b = [columns, depth] if layout == "t" else [depth, columns]
        x, y, z = (
            TensorDescriptor.from_tensor(t, list(s))
            for t, s in ((a, (rows, depth)), (b, of_b), (c, (rows, columns)))
        )
        run = _launch(
            "of_descriptors", (_tiles(m, n, block),), x, y, z, m, n, k, *block, 8, layout == "t",
            out=c, warps=warps, stages=stages,
        )  # fmt: skip
        return Step(run, lambda: [a.to(F64) @ (b.t() if layout == "t" else b).to(F64)])

    _add(name, build)


def _persistent(name, size, block, warps, stages, dtype=F16, device_made=False, halves=False):
    def build(device):
        import triton  # type: ignore[import-not-found]
        from triton.tools.tensor_descriptor import (  # type: ignore[import-not-found]
            TensorDescriptor,
        )

        m, n, k = size
        a, b = _n(device, m, k, dtype=dtype), _n(device, n, k, dtype=dtype)
        c = torch.empty(m, n, device=device, dtype=F16 if dtype is F8 else dtype)
        rows, columns, depth = block
        wide = columns // 2 if halves else columns
        arguments = [a, b, c]
        if not device_made:
            shapes = ([rows, depth], [columns, depth], [rows, wide])
            pairs = zip(arguments, shapes, strict=True)
            arguments = [TensorDescriptor.from_tensor(t, s) for t, s in pairs]
        kernel = _launch(
            "persistent_of_descriptors", (min(PROGRAMS, _tiles(m, n, block)),), *arguments,
            m, n, k, *block, 8, PROGRAMS, True, halves, device_made,
            out=c, warps=warps, stages=stages,
        )  # fmt: skip

        def run():
            triton.set_allocator(
                lambda size, _alignment, _stream: torch.empty(size, device=device, dtype=torch.int8)
            )
            return kernel()

        return Step(run, lambda: [a.to(F64) @ b.to(F64).t()])

    _add(name, build)


def _block_pointers(name, size, block, warps, stages):
    def build(device):
        m, n, k = size
        a, b = _n(device, m, k, dtype=F16), _n(device, k, n, dtype=F16)
        c = torch.empty(m, n, device=device, dtype=F16)
        run = _launch(
            "of_block_pointers", (_tiles(m, n, block),), a, b, c, m, n, k, *block, 8,
            out=c, warps=warps, stages=stages,
        )  # fmt: skip
        return Step(run, lambda: [a.to(F64) @ b.to(F64)])

    _add(name, build)


def _batches(name, batches, size, block, warps, stages, layout="nn", shared=False):
    def build(device):
        m, n, k = size
        a = _n(device, batches, *((k, m) if layout[0] == "t" else (m, k)))
        lead = () if shared else (batches,)
        b = _n(device, *lead, *((n, k) if layout[1] == "t" else (k, n)))
        a, b = a.mT if layout[0] == "t" else a, b.mT if layout[1] == "t" else b
        c = torch.empty(batches, m, n, device=device, dtype=BF16)
        of_b = (0, *b.stride()) if shared else b.stride()
        grid = -(-m // block[0]), -(-n // block[1]), batches
        run = _launch(
            "of_batches", grid, a, b, c, m, n, k, *a.stride(), *of_b, m * n, *block,
            out=c, warps=warps, stages=stages,
        )  # fmt: skip
        return Step(run, lambda: [a.to(F64) @ b.to(F64)])

    _add(name, build)


# Fused operations ---------------------------------------------------------------------------------
def _epilogue(name, size, block, warps, stages, epilogue):
    def build(device):
        m, n, k = size
        a, b = _n(device, m, k), _n(device, n, k, scale=k**-0.5)
        c, bias = torch.empty(m, n, device=device, dtype=BF16), _n(device, n)
        more = _n(device, m, n)
        kernel = _launch(
            "with_epilogue", (_tiles(m, n, block),), a, b, c, bias, more, m, n, k, *block, 8,
            epilogue, out=c, warps=warps, stages=stages,
        )  # fmt: skip

        def run():
            return [*kernel(), *([more] if epilogue == "gelu_kept" else [])]

        def exact():
            total = a.to(F64) @ b.to(F64).t() + bias.to(F64)
            if epilogue == "residual":
                return [total + more.to(F64)]
            if epilogue == "silu_times":
                return [F.silu(total) * more.to(F64)]
            approximate = "tanh" if epilogue == "gelu_tanh" else "none"
            result = F.gelu(total, approximate=approximate)
            return [result, total] if epilogue == "gelu_kept" else [result]

        return Step(run, exact)

    _add(name, build)


def _layer_norm(name, size, block, warps, stages):
    def build(device):
        m, n, k = size
        a, b = _n(device, m, k), _n(device, k, n, scale=k**-0.5)
        c, bias, gain = torch.empty(m, n, device=device, dtype=BF16), _n(device, n), _n(device, n)
        run = _launch(
            "with_layer_norm", (-(-m // block[0]),), a, b, c, bias, gain, m, k, 1e-5,
            *block, out=c, warps=warps, stages=stages,
        )  # fmt: skip

        def exact():
            total = a.to(F64) @ b.to(F64) + bias.to(F64)
            return [F.layer_norm(total, (n,), gain.to(F64))]

        return Step(run, exact)

    _add(name, build)


def _gate(name, size, block, warps, stages):
    def build(device):
        m, n, k = size
        a, gate, up = _n(device, m, k), *(_n(device, k, n, scale=k**-0.5) for _ in range(2))
        c = torch.empty(m, n, device=device, dtype=BF16)
        run = _launch(
            "gate_and_up", (_tiles(m, n, block),), a, gate, up, c, m, n, k, *block, 8,
            out=c, warps=warps, stages=stages,
        )  # fmt: skip

        def exact():
            return [F.silu(a.to(F64) @ gate.to(F64)) * (a.to(F64) @ up.to(F64))]

        return Step(run, exact)

    _add(name, build)


def _low_rank(name, size, block, rank, warps, stages):
    def build(device):
        m, n, k = size
        a, b, down = _n(device, m, k), _n(device, n, k), _n(device, k, rank, scale=k**-0.5)
        up, c = _n(device, rank, n), torch.empty(m, n, device=device, dtype=BF16)
        run = _launch(
            "low_rank_added", (_tiles(m, n, block),), a, b, c, down, up, m, n, k, 0.5, *block,
            rank, 8, out=c, warps=warps, stages=stages,
        )  # fmt: skip

        def exact():
            x = a.to(F64)
            return [x @ b.to(F64).t() + 0.5 * (x @ down.to(F64)) @ up.to(F64)]

        return Step(run, exact)

    _add(name, build)


def _experts(name, tokens, count, size, block, warps, stages, dtype=BF16, weighted=False):
    """Register a case in which each token uses two of `count` experts."""

    def build(device):
        n, k = size
        group = 128 if dtype is F8 else 0
        total = 2 * tokens
        a, b = _n(device, tokens, k, dtype=dtype), _n(device, count, n, k, dtype=dtype)
        s, t = _scales(device, tokens, k // 128), _scales(device, count, n // 128, k // 128)
        weights = torch.rand(total, device=device)
        c = torch.empty(total, n, device=device, dtype=BF16)
        each = [list(range(e, total, count)) for e in range(count)]
        each = [rows + [total] * (-len(rows) % block[0]) for rows in each]
        rows = torch.tensor([r for one in each for r in one], device=device, dtype=torch.int32)
        experts = [e for e, one in enumerate(each) for _ in range(len(one) // block[0])]
        of_blocks = torch.tensor(experts, device=device, dtype=torch.int32)
        run = _launch(
            "of_experts", (len(experts) * -(-n // block[1]),), a, b, c, s, t, weights, rows,
            of_blocks, n, k, total, 2, *block, 8, group, weighted,
            out=c, warps=warps, stages=stages,
        )  # fmt: skip

        def exact():
            left = a.to(F64) * (_spread(s, 1, 128) if group else 1)
            left = left.repeat_interleave(2, 0)
            result = torch.zeros(c.shape, dtype=F64, device=device)
            for e in range(count):
                right = b[e].to(F64) * (_spread(t[e], 128, 128) if group else 1)
                result[e::count] = left[e::count] @ right.t()
            return [result * weights.to(F64)[:, None] if weighted else result]

        return Step(run, exact)

    _add(name, build)


def _gather(name, rows, size, block, warps, stages):
    def build(device):
        m, n, k = size
        a, b = _n(device, rows, k), _n(device, k, n)
        index = torch.randint(0, rows, (m,), device=device)
        c = torch.empty(m, n, device=device, dtype=BF16)
        grid = -(-m // block[0]), -(-n // block[1])
        run = _launch(
            "of_gathered_rows", grid, a, b, c, index, m, n, k, *block,
            out=c, warps=warps, stages=stages,
        )  # fmt: skip
        return Step(run, lambda: [a.to(F64)[index] @ b.to(F64)])

    _add(name, build)


def _sparse(name, size, block, warps, stages, kept=4):
    """Register a case in which every `kept`-th block of A exists."""

    def build(device):
        m, n, k = size
        down, right = m // block[0], k // block[2]
        places = [[c for c in range(right) if (c + 3 * r) % kept == 0] for r in range(down)]
        begins = [sum(map(len, places[:r])) for r in range(down + 1)]
        a, b = _n(device, begins[-1], block[0], block[2]), _n(device, k, n)
        first = torch.tensor(begins, device=device, dtype=torch.int32)
        columns = torch.tensor([c for p in places for c in p], device=device, dtype=torch.int32)
        c = torch.empty(m, n, device=device, dtype=BF16)
        run = _launch(
            "of_sparse_blocks", (down, -(-n // block[1])), a, b, c, first, columns, n, k, *block,
            out=c, warps=warps, stages=stages,
        )  # fmt: skip

        def exact():
            dense = torch.zeros(down, right, block[0], block[2], device=device, dtype=F64)
            row = [r for r, p in enumerate(places) for _ in p]
            dense[torch.tensor(row, device=device), columns.long()] = a.to(F64)
            return [dense.transpose(1, 2).reshape(m, k) @ b.to(F64)]

        return Step(run, exact)

    _add(name, build)


def _own_transpose(name, size, block, warps, stages):
    def build(device):
        n, k = size
        x, c = _n(device, n, k), torch.empty(n, n, device=device, dtype=BF16)
        side = -(-n // block[0])
        run = _launch(
            "times_transpose", (side * side,), x, c, n, k, *block, 8,
            out=c, warps=warps, stages=stages,
        )  # fmt: skip
        return Step(run, lambda: [x.to(F64) @ x.to(F64).t()])

    _add(name, build)


def _two_layers(name, m, hidden, step, width, rows, warps, stages):
    def build(device):
        x, first = _n(device, m, width), _n(device, width, hidden, scale=width**-0.5)
        second = _n(device, hidden, width, scale=hidden**-0.5)
        c = torch.empty(m, width, device=device, dtype=BF16)
        run = _launch(
            "two_layers", (-(-m // rows),), x, first, second, c, m, rows, hidden, step, width,
            out=c, warps=warps, stages=stages,
        )  # fmt: skip
        exact = lambda: [(x.to(F64) @ first.to(F64)).relu() @ second.to(F64)]  # noqa: E731
        return Step(run, exact)

    _add(name, build)


LARGE, MIDDLE = (4096, 4096, 4096), (2048, 2048, 4096)
_block_scaled("f8_blocks", LARGE, (128, 128, 128), 8, 3)
_block_scaled("f8_blocks_4_warps", MIDDLE, (64, 128, 128), 4, 4)
_block_scaled("f8_wide_blocks", MIDDLE, (128, 128, 128), 4, 3, F8_WIDE)
_block_scaled("f8_blocks_few_rows", (16, 4096, 4096), (16, 64, 128), 4, 4)
_block_scaled("f8_blocks_along_n", MIDDLE, (128, 128, 128), 8, 3, layout="n")
_row_scaled("f8_rows", LARGE, (128, 256, 128), 8, 3, F8)
_row_scaled("f8_rows_imprecise", LARGE, (128, 128, 128), 4, 4, F8, imprecise=64)
_row_scaled("f8_rows_few", (32, 4096, 4096), (32, 64, 256), 4, 3, F8)
_row_scaled("int8_rows", LARGE, (128, 256, 128), 8, 3, torch.int8)
_row_scaled("int8_rows_4_warps", MIDDLE, (64, 128, 128), 4, 4, torch.int8)
_row_scaled("int8_rows_along_n", MIDDLE, (128, 128, 64), 4, 3, torch.int8, "n")
_row_scaled("int8_rows_few", (16, 4096, 4096), (16, 128, 128), 4, 4, torch.int8)
_packed_words("int4_words", MIDDLE, (64, 128, 64), 4, 3)
_packed_words("int4_words_few_rows", (16, 4096, 4096), (16, 64, 128), 4, 3)
_packed_bytes("int4_bytes", MIDDLE, (128, 128, 64), 8, 3)
_packed_bytes("int4_bytes_few_rows", (16, 4096, 4096), (16, 64, 128), 4, 3)
_narrow("int8_weights", MIDDLE, (128, 128, 64), 8, 3, torch.int8)
_narrow("int8_weights_transposed", MIDDLE, (128, 128, 64), 4, 3, torch.int8, "t")
_narrow("f8_weights", MIDDLE, (128, 128, 64), 4, 4, F8, "t")
_narrow("f8_weights_few_rows", (16, 4096, 4096), (16, 128, 128), 4, 3, F8, "t")
_microscales("bf16_times_mxfp4", MIDDLE, (128, 128, 64), 8, 3, ("bf16", "e2m1"))
_microscales("mxfp8", MIDDLE, (128, 128, 128), 8, 3, ("e4m3", "e4m3"))
_microscales("mxfp8_times_mxfp4", MIDDLE, (128, 128, 128), 8, 3, ("e4m3", "e2m1"))
_stream("stream_k", (2304, 2304, 4096), (128, 128, 32), 8, 3)
_stream("stream_k_64", (1536, 1536, 8192), (64, 128, 64), 4, 4)
_groups("grouped", [(1024 * i, 1024, 1024 * i) for i in (1, 2, 3, 4)], (128, 128, 32), 4, 3)
_groups("grouped_64", [(512 * i, 1024, 512) for i in (1, 2, 3, 4)], (128, 64, 64), 4, 4)
_grouped_rows("grouped_rows", [700, 1300, 900, 1196] * 2, (2048, 2048), (128, 128, 64), 8, 3)
_grouped_rows("grouped_rows_4_warps", [300, 212] * 16, (1024, 2048), (64, 128, 64), 4, 4)
_descriptors("descriptors", LARGE, (128, 128, 64), 8, 3)
_descriptors("descriptors_transposed", LARGE, (128, 256, 64), 8, 3, layout="t")
_descriptors("descriptors_4_warps", LARGE, (128, 128, 64), 4, 4, BF16)
_descriptors("descriptors_f8", LARGE, (128, 128, 128), 8, 3, F8, "t")
_persistent("persistent_descriptors", LARGE, (128, 128, 64), 8, 3)
_persistent("persistent_descriptors_wide", LARGE, (128, 256, 64), 8, 3, halves=True)
_persistent("persistent_descriptors_4_warps", LARGE, (128, 128, 64), 4, 4, BF16)
_persistent("persistent_device_descriptors", LARGE, (128, 128, 64), 8, 3, device_made=True)
_persistent("persistent_device_halves", LARGE, (128, 256, 64), 8, 3, device_made=True, halves=True)
_persistent("persistent_device_f8", LARGE, (128, 128, 128), 8, 3, F8, device_made=True)
_block_pointers("block_pointers", LARGE, (128, 128, 64), 8, 3)
_block_pointers("block_pointers_small", MIDDLE, (64, 64, 64), 4, 4)
_block_pointers("block_pointers_odd", (2000, 2024, 2008), (128, 64, 32), 4, 3)
_batches("bmm_nt", 64, (512, 512, 256), (128, 128, 64), 8, 3, "nt")
_batches("bmm_tn", 64, (512, 512, 256), (128, 128, 32), 4, 3, "tn")
_batches("bmm_small", 1024, (64, 64, 64), (64, 64, 32), 4, 2)
_batches("bmm_one_b", 32, (512, 1024, 512), (64, 256, 32), 4, 4, shared=True)
for _name in ("gelu", "gelu_tanh", "gelu_kept", "residual", "silu_times"):
    _epilogue(f"with_{_name}", (4096, 4096, 2048), (128, 128, 64), 8, 3, _name)
_epilogue("with_gelu_4_warps", MIDDLE, (64, 128, 64), 4, 4, "gelu")
_layer_norm("with_layer_norm", (16384, 256, 1024), (64, 256, 64), 8, 3)
_layer_norm("with_layer_norm_narrow", (32768, 128, 512), (128, 128, 32), 4, 3)
_gate("gated", (4096, 4096, 2048), (128, 128, 64), 8, 3)
_gate("gated_4_warps", MIDDLE, (64, 64, 64), 4, 4)
_low_rank("low_rank", MIDDLE, (128, 128, 64), 16, 8, 3)
_low_rank("low_rank_64", MIDDLE, (64, 128, 32), 64, 4, 4)
_experts("experts", 4096, 8, (2048, 2048), (128, 128, 64), 8, 3)
_experts("experts_weighted", 1024, 16, (1024, 2048), (64, 128, 64), 4, 3, weighted=True)
_experts("experts_few", 64, 8, (2048, 2048), (16, 128, 128), 4, 3)
_experts("experts_f8", 2048, 8, (2048, 2048), (128, 128, 128), 8, 3, F8)
_experts("experts_f8_few", 64, 8, (2048, 2048), (16, 64, 128), 4, 4, F8)
_gather("gathered", 8192, (4096, 2048, 2048), (128, 128, 64), 8, 3)
_gather("gathered_64", 8192, (4096, 1024, 1024), (64, 64, 64), 4, 4)
_sparse("sparse_blocks", LARGE, (128, 128, 64), 8, 3)
_sparse("sparse_small_blocks", LARGE, (64, 64, 64), 4, 3)
_own_transpose("own_transpose", (4096, 4096), (128, 64), 8, 3)
_own_transpose("own_transpose_64", (2048, 4096), (64, 64), 4, 4)
_two_layers("two_layers", 16384, 1024, 64, 128, 128, 8, 3)
_two_layers("two_layers_4_warps", 16384, 1024, 32, 128, 64, 4, 3)
