"""`examples/launch_matmul.cpp` compiles with the real `cuda.h`, where there is one."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.builder.test_examples import example
from tileir.backend import compile  # noqa: A004
from tileir.backend.runtime.c_header import header

SOURCE = Path(__file__).resolve().parents[2] / "examples" / "launch_matmul.cpp"
CXX = shutil.which(os.environ.get("CXX", "g++"))


def cuda_include():
    """A folder with `cuda.h`: of the toolkit, or of a package of Python; None without any."""
    nvcc = shutil.which("nvcc")
    folders = [
        Path(os.environ[v]) / "include" for v in ("CUDA_HOME", "CUDA_PATH") if v in os.environ
    ]
    folders += [Path(nvcc).resolve().parents[1] / "include"] if nvcc else []
    folders += [Path("/usr/local/cuda/include"), *Path("/usr/local").glob("cuda-*/include")]
    for package, inner in (("nvidia", "*/include"), ("triton", "backends/nvidia/include")):
        spec = importlib.util.find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            folders += Path(place).glob(inner)
    return next((folder for folder in folders if (folder / "cuda.h").exists()), None)


def build(folder, options, *flags):
    """Compile the kernel and the program into `folder`; skipped without a compiler or `cuda.h`."""
    include = cuda_include()
    if CXX is None or include is None:
        pytest.skip("no C++ compiler" if CXX is None else "no cuda.h on this machine")
    module = example("matmul_builder").matmul(128, 256, 64)
    compiled = compile(module, "sm_90a", options={"warp_specialize": True, **options})
    (folder / "matmul.sm_90a.h").write_text(header(compiled))
    words = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O2", "-I", folder, "-isystem", include]
    subprocess.run([CXX, *words, SOURCE, *flags], check=True)
    return compiled


@pytest.mark.parametrize("options", [{}, {"persistent": False}])
def test_it_compiles(tmp_path, options):
    compiled = build(tmp_path, options, "-c", "-o", tmp_path / "launch_matmul.o")
    assert compiled.host.maps and bool(compiled.host.persistent) is not bool(options)
