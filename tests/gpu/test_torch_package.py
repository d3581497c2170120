"""A package of AOTInductor, whose kernels tileir compiled, runs in a program without Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.gpu

CXX = shutil.which(os.environ.get("CXX", "g++"))
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "torch_package.py"


@pytest.mark.skipif(CXX is None, reason="no C++ compiler on this machine")
def test_a_program_without_python_runs_a_package(tmp_path):
    records = tmp_path / "kernels"
    environment = {
        **os.environ, "TILEIR_IN_TRITON_REPORT": str(records),
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
