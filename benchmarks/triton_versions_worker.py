"""A process of `triton_versions.py`: it runs one release of Triton in one way.

triton_versions_worker.py sm_90a|cuda|native|interpreter RESULTS [KERNELS]

`cuda` runs the kernels on a GPU, compiled only by tileir, with tensors in host memory that the GPU
can access. It needs torch.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import triton  # type: ignore[import-not-found]
from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found]
from triton.compiler import ASTSource  # type: ignore[import-not-found]

import tileir.frontends.triton_backend as backend

backend.register()

import triton_versions_kernels as kernels  # type: ignore[import-not-found]  # noqa: E402
from triton_versions_kernels import (  # type: ignore[import-not-found]  # noqa: E402
    CASES,
    HostTensor,
    Launch,
)

_TYPES = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8e4nv",
    "int32": "i32", "int64": "i64", "uint8": "u8",
}  # fmt: skip
"""Triton's names of dtypes."""


def main() -> int:
    way, path, only = sys.argv[1], Path(sys.argv[2]), (sys.argv[3:] or [""])[0]
    if way in ("sm_90a", "cuda"):
        backend.install("strict")
    if way == "cuda":
        kernels.allocate = allocate_pinned
    results: dict[str, str] = {}
    for name, make in CASES.items():
        if only and name not in only.split(","):
            continue
        try:
            case = make()
            for launch in case.launches:
                {"sm_90a": compile_for_gpu, "cuda": run_on_gpu}.get(way, run_on_cpu)(launch)
            if way != "sm_90a":
                case.check()
            results[name] = "right"
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            results[name] = without_places(f"{type(error).__name__}: {' '.join(lines[:3])}")[:300]
        path.write_text(json.dumps(results))
    return 0


def without_places(message: str) -> str:
    """An error without folders and addresses, which differ from machine to machine."""
    return re.sub(r"0x[0-9a-f]{8,}", "0x...", re.sub(r"/\S*/", "", message))


def run_on_cpu(launch: Launch) -> None:
    """Run the kernel on the CPU."""
    launch.kernel[launch.grid](**launch.arguments, **launch.options)


def run_on_gpu(launch: Launch) -> None:
    """Run the kernel on the GPU. Raises RuntimeError if tileir did not compile it."""
    import torch  # type: ignore[import-not-found]

    kernel = launch.kernel[launch.grid](**launch.arguments, **launch.options)
    torch.cuda.synchronize()
    _check_compiler(kernel)


def allocate_pinned(count: int) -> Any:
    """Zeroed host memory that the GPU can access at the same address, as an array of bytes."""
    import torch  # type: ignore[import-not-found]

    return torch.zeros(count, dtype=torch.uint8, pin_memory=True).numpy()


def _check_compiler(kernel: Any) -> None:
    if not str(getattr(kernel.metadata, "compiled_by", "")).startswith("tileir"):
        raise RuntimeError("compiled by Triton")


def compile_for_gpu(launch: Launch) -> None:
    """Compile the kernel for sm_90a. Raises RuntimeError if tileir did not compile it."""
    signature: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    attributes: dict[tuple[int], Any] = {}
    for place, parameter in enumerate(launch.kernel.params):
        argument = launch.arguments[parameter.name]
        kind = "constexpr" if parameter.is_constexpr else _kind(argument)
        signature[parameter.name] = kind
        if kind == "constexpr":
            constants[place,] = argument
        elif kind.startswith("*") or (kind == "i32" and argument % 16 == 0):
            attributes[place,] = [["tt.divisibility", 16]]
    source = ASTSource(launch.kernel, signature, constants, attributes)
    options = {"num_warps": 4, **launch.options}
    kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    _check_compiler(kernel)
    ptx = kernel.asm["ptx"]
    if f".entry {kernel.metadata.name}" not in ptx or ".target sm_90a" not in ptx:
        raise RuntimeError("the PTX has no entry of the kernel for sm_90a")
    if kernel.asm["cubin"][:4] != b"\x7fELF":
        raise RuntimeError("the cubin is none")


def _kind(argument: Any) -> str:
    if isinstance(argument, HostTensor):
        return "*" + _TYPES[argument.dtype.removeprefix("torch.")]
    return "fp32" if isinstance(argument, float) else "i32"


if __name__ == "__main__":
    sys.exit(main())
