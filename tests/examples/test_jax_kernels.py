"""Examples that launch kernels from JAX: without a GPU, the modules that JAX makes."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NEEDED = {
    "jax_operator": ("jax", "jax_cuda13_plugin"),
    "jax_triton_kernels": ("jax", "jax_cuda13_plugin", "jax_triton", "triton"),
}


def run_example(name, *words, **variables):
    """What an example prints. Skipped where a package that it needs is missing."""
    missing = [module for module in NEEDED[name] if importlib.util.find_spec(module) is None]
    if missing:
        pytest.skip(f"there is no {missing[0]}")
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *words]
    return subprocess.run(
        command, check=True, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True
    ).stdout


@pytest.mark.parametrize("name", NEEDED)
def test_jax_makes_a_module_with_the_kernels(name):
    text = run_example(name, "--lower", JAX_PLATFORMS="cpu")
    if name == "jax_operator":
        assert "custom_call @triton_kernel_call_ffi" in text
    else:
        assert text.startswith("custom calls: 2\nkernels: 2, by tileir: 2\n")
