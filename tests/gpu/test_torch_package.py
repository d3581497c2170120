"""A package of AOTInductor, whose kernels tileir compiled, runs in a program without Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.gpu

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "torch_package.py"


def test_a_program_without_python_runs_a_package(benchmarks, tmp_path):
    compiler = benchmarks("cpp_compilers").compiler_with_shared_library()
    if compiler is None:
        pytest.skip("no C++ compiler links the shared library of C++")
    records = tmp_path / "kernels"
    environment = {
        **os.environ, "TILEIR_IN_TRITON_REPORT": str(records), "CXX": compiler,
        "TORCHINDUCTOR_VEC_ISA_OK": "0",  # it needs no instructions of the host's vectors
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "package")], check=False, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("on cuda:0: [64, 256], largest difference") == 2
    compilers = {line.split("\t")[1] for line in records.read_text().splitlines()}
    assert compilers == {"tileir"}
    assert "libpython" not in subprocess.run(
        ["ldd", str(tmp_path / "package" / "torch_package")], check=True,
        capture_output=True, text=True,
    ).stdout  # fmt: skip
