"""PTX to cubin through NVIDIA's `ptxas`, if it is installed.

nvJitLink compiles every input as one of several to be linked (`ptxas -c`). It then ignores
`setmaxnreg` and the limits of registers, serializes wgmma in functions that might call others (a
division is a call), and schedules for fewer resident warps: 85 registers in place of 32 for a
SwiGLU of 512 threads. `ptxas` compiles a whole program.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from functools import cache
from io import FileIO
from pathlib import Path

from tileir.backend.target import Target
from tileir.errors import CompileError, Diagnostic

_LARGE_PAGES = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=33554432"
"""Tunables of the C library (GNU C Library, "Memory Allocation Tunables"): heaps use large pages if
the system has them, and grow by 32 MiB, of which only touched pages are allocated. `ptxas`
allocates much memory and exits; without these, a tenth of its time is page faults."""


@cache
def ptxas() -> str | None:
    """The path of `ptxas`: from PATH, from the PyPI package nvidia-cuda-nvcc, or from Triton; None
    if there is none."""
    import shutil

    path = shutil.which("ptxas")
    if path is not None:
        return path
    for package, pattern in (("nvidia", "**/bin/ptxas"), ("triton", "**/bin/ptxas")):
        spec = importlib.util.find_spec(package)
        for root in spec.submodule_search_locations or () if spec else ():
            for path in sorted(Path(root).glob(pattern)):
                return str(path)
    return None


def is_too_old(error: CompileError) -> bool:
    """Whether the error states that `ptxas` does not know the processor or the PTX version."""
    text = error.diagnostics[0].message
    return "Unsupported .version" in text or "is not defined for option 'gpu-name'" in text


def assemble_with_ptxas(
    tool: str, ptx: str, target: Target, options: Sequence[str]
) -> tuple[bytes, str]:
    """Assemble `ptx`; return the cubin and the messages of `tool`. Raises `CompileError`: TIR0708
    if a thread may have too few registers, else TIR0705."""
    import subprocess

    # With a folder of files, this call takes twice the processor time.
    with _file_in_memory("kernel.ptx") as source, _file_in_memory("kernel.cubin") as result:
        source.write(ptx.encode())
        files = source.fileno(), result.fileno()
        read, written = (f"/proc/self/fd/{file}" for file in files)
        command = [tool, f"-arch={target.name}", "-v", *options, read, "-o", written]
        # Variables that the user has set are not changed.
        environment = {"GLIBC_TUNABLES": _LARGE_PAGES, **os.environ}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            env=environment, pass_fds=files,
        )  # fmt: skip
        if done.returncode:
            code = "TIR0708" if "Insufficient registers" in done.stdout else "TIR0705"
            raise CompileError(Diagnostic(code, f"ptxas fails: {done.stdout.strip()}"))
        return result.read(), done.stdout


def _file_in_memory(name: str) -> FileIO:
    """A file that exists in memory while it is open (Linux, for which `ptxas` exists)."""
    return FileIO(os.memfd_create(name), "r+")
