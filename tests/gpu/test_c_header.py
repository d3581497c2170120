"""A C++ program launches a kernel with tensor maps by the functions of its header."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from tests.runtime.test_launch_matmul import build
from tileir.backend.executors import gpu_target

pytestmark = pytest.mark.gpu


def driver_library():
    """The path of the loaded CUDA driver, which has no name that linkers find by `-lcuda`."""
    ctypes.CDLL("libcuda.so.1")
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split(maxsplit=5)[5] for line in lines if "libcuda.so" in line)


@pytest.mark.parametrize(
    "options", [{}, {"persistent": False}], ids=["persistent", "one block each"]
)
def test_a_program_multiplies_with_tensor_maps(tmp_path, options):
    if gpu_target() != "sm_90a":
        pytest.skip("needs a GPU of compute capability 9.0")
    program = tmp_path / "launch_matmul"
    build(tmp_path, options, driver_library(), "-Wl,--allow-shlib-undefined", "-o", program)

    def run(*sizes):
        words = [str(program), *map(str, sizes)]
        return subprocess.run(words, check=False, capture_output=True, text=True)

    for m, n, k, instances in ((4096, 2304, 64, 288), (1000, 1000, 520, 32), (128, 256, 64, 1)):
        done = run(m, n, k)
        assert done.stdout == f"{instances} instances, 0 of {m * n} elements differ\n", done.stderr
        assert done.returncode == 0
    refused = run(128, 256, 63)  # rows of 126 bytes
    assert refused.returncode == 1 and "(801)" in refused.stderr
