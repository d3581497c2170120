"""A model of torch as a package that a program without Python runs: AOTInductor, kernels by tileir.

    python examples/torch_package.py [FOLDER] [--device cuda]

needs torch with Triton, a C++ compiler and an NVIDIA GPU. FOLDER gets `model.pt2` (the package: a
shared library and the machine code of the kernels), `tensors.pt` (inputs, and what torch computes
from them without compilation) and `torch_package`, the program of `torch_package.cpp`. It is linked
to the libraries of torch and to no library of Python.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().with_suffix(".cpp")


def write_package(module: Any, inputs: list[Any], folder: Path) -> Path:
    """Export a `torch.nn.Module`, compile it into `folder`/model.pt2, and write inputs and results
    into `folder`/tensors.pt. Its kernels are compiled by whatever compiles for Triton."""
    import torch

    package = folder / "model.pt2"
    with torch.no_grad():
        results = module(*inputs)
        results = [results] if isinstance(results, torch.Tensor) else list(results)
        torch.save((inputs, results), folder / "tensors.pt")
        program = torch.export.export(module, tuple(inputs))
        # one package is compiled faster without a header that many would share
        settings = {"aot_inductor.precompile_headers": False}
        torch._inductor.aoti_compile_and_package(
            program, package_path=str(package), inductor_configs=settings
        )
    return package


def build_program(folder: Path, device: str = "cuda") -> Path:
    """Compile `torch_package.cpp` with `$CXX` or g++, and link it to the installed torch.

    Raises `FileNotFoundError` if there is no C++ compiler, `subprocess.CalledProcessError` if it
    reports an error.
    """
    import torch

    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise FileNotFoundError("no C++ compiler")
    root, program = Path(torch.__file__).parent, folder / "torch_package"
    libraries = ["torch", "torch_cpu", "c10"]
    libraries += ["torch_cuda", "c10_cuda"] if device == "cuda" else []
    command = [
        compiler, "-std=c++20", "-I", str(root / "include"), str(SOURCE), "-o", str(program),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        "-L", str(root / "lib"), f"-Wl,-rpath,{root / 'lib'}",
        "-Wl,--no-as-needed",  # the library for the GPU registers itself as it is loaded
        "-Wl,--allow-shlib-undefined",  # libraries of CUDA are found as the program starts
        *(f"-l{name}" for name in libraries),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return program


def run_program(program: Path, folder: Path) -> str:
    """What the program prints. It gets the folders of libraries as its only variable, so that it
    finds the driver, and no Python.

    Raises `subprocess.CalledProcessError` if it ends with another status than 0.
    """
    command = [str(program), str(folder / "model.pt2"), str(folder / "tensors.pt")]
    variables = {k: v for k, v in os.environ.items() if k == "LD_LIBRARY_PATH"}
    return subprocess.run(
        command, check=True, env=variables, stdout=subprocess.PIPE, text=True, timeout=120
    ).stdout


def network(device: str) -> tuple[Any, list[Any]]:
    """A block of a transformer without attention, and its input."""
    import torch

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(256)
            self.up, self.down = torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 256)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            hidden = torch.nn.functional.gelu(self.up(self.norm(x)))
            y = x + self.down(hidden)
            return y, torch.softmax(y, -1)

    torch.manual_seed(0)
    return Block().to(device).eval(), [torch.randn(64, 256, device=device)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options = parser.parse_args()
    import tileir.frontends.triton_backend as backend

    if options.device == "cuda":
        backend.install("strict")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        package = write_package(*network(options.device), folder)
        print(f"{package.name}: {package.stat().st_size} bytes")
        print(backend.report())
        program = build_program(folder, options.device)
        print(run_program(program, folder), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
