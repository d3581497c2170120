"""Compiles kernels for sm_90 through Triton, without a GPU, and says by what."""

import json

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import tileir.frontends.triton_backend as backend


@triton.jit
def add(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def softmax(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + tl.program_id(0) * n + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def matmul(a, b, c, n, B: tl.constexpr):
    i, k = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for start in range(0, n, B):
        x = tl.load(a + i[:, None] * n + (start + k)[None, :])
        acc = tl.dot(x, tl.load(b + (start + k)[:, None] * n + k[None, :]), acc)
    tl.store(c + i[:, None] * n + k[None, :], acc.to(tl.float16))


KERNELS = [
    (add, {"x": "*fp32", "y": "*fp32", "n": "i32"}, 1024, 1),
    (softmax, {"x": "*fp32", "y": "*fp32", "n": "i32"}, 1024, 1),
    (matmul, {"a": "*fp16", "b": "*fp16", "c": "*fp16", "n": "i32"}, 64, 1),
    (matmul, {"a": "*fp16", "b": "*fp16", "c": "*fp16", "n": "i32"}, 64, 2),
]


def compiled(kernel, signature, block, num_ctas):
    attributes = {(i,): [["tt.divisibility", 16]] for i in range(len(signature))}
    place = (kernel.arg_names.index("B"),)
    source = ASTSource(kernel, {**signature, "B": "constexpr"}, {place: block}, attributes)
    options = {"num_warps": 4, "num_ctas": num_ctas}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


found = [compiled(*each) for each in KERNELS]
print(
    json.dumps(
        {
            "kernels": [
                {
                    "compiled_by": getattr(k.metadata, "compiled_by", ""),
                    "elf": k.asm["cubin"][:4] == b"\x7fELF",
                    "packed": k.packed_metadata[:2],
                    "entry": f".entry {k.metadata.name}" in k.asm["ptx"],
                }
                for k in found
            ],
            "report": [r._asdict() for r in backend.report()],
        }
    )
)
