"""Compiles kernels for sm_90 through Triton, without a GPU, and says by what."""

import json
import re

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


@triton.jit
def copy(a, b, B: tl.constexpr):
    b.store([0, 0], a.load([0, 0]))


KERNELS = [
    (add, {"x": "*fp32", "y": "*fp32", "n": "i32"}, 1024, 1),
    (softmax, {"x": "*fp32", "y": "*fp32", "n": "i32"}, 1024, 1),
    (matmul, {"a": "*fp16", "b": "*fp16", "c": "*fp16", "n": "i32"}, 64, 1),
    (matmul, {"a": "*fp16", "b": "*fp16", "c": "*fp16", "n": "i32"}, 64, 2),
]
if hasattr(tl, "make_tensor_descriptor"):  # the host makes descriptors since Triton 3.4
    described = {"a": "tensordesc<fp16[16, 64]>", "b": "tensordesc<fp16[16, 64]>"}
    KERNELS += [(copy, described, 16, num_ctas) for num_ctas in (1, 2)]


def compile_kernel(kernel, signature, block, num_ctas):
    kinds = enumerate(signature.values())
    attributes = {(i,): [["tt.divisibility", 16]] for i, k in kinds if k[:6] != "tensor"}
    place = (kernel.arg_names.index("B"),)
    source = ASTSource(kernel, {**signature, "B": "constexpr"}, {place: block}, attributes)
    options = {"num_warps": 4, "num_ctas": num_ctas}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def passed_for_a_descriptor():
    """Bytes of each value that Triton's launcher passes for one of two dimensions."""
    from triton.backends.nvidia import driver

    signature = {0: "tensordesc<fp16[16, 64]>"}
    if hasattr(driver, "expand_signature"):  # since 3.7
        words = driver.expand_signature(signature.values(), [], *["nvTmaDesc"] * (_release() > 7))
        sizes = {"*fp16": 8, "i64": 8, "i1": 1, "i32": 4}
    else:
        source = driver.make_launcher({}, signature, None)
        words = re.search(r"_launch\(.*?scratch, ((?:\w+ arg\d+(?:, )?)+)\)", source)[1].split()[
            ::2
        ]
        sizes = {"CUdeviceptr": 8, "int64_t": 8, "int8_t": 1, "int32_t": 4}
    return [sizes[word] for word in words]


def _release():
    return int(triton.__version__.split(".")[1])


def parameter_bytes(kernel):
    """Bytes of each parameter of a kernel."""
    head = kernel.asm["ptx"].partition(".entry")[2].partition("{")[0]
    return [int(bits) // 8 for bits in re.findall(r"\.param \.[ub](\d+) ", head)]


compiled_kernels = [compile_kernel(*each) for each in KERNELS]
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
                for k in compiled_kernels
            ],
            "descriptor": passed_for_a_descriptor() if len(KERNELS) > 4 else [],
            "taken": parameter_bytes(compiled_kernels[-1]),
            "report": [r._asdict() for r in backend.report()],
        }
    )
)
