"""Kernels that JAX launches within functions that it compiles: the examples on a GPU."""

import pytest

from tests.examples.test_jax_kernels import run_example

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("name", "limit"), [("jax_operator", 1e-5), ("jax_triton_kernels", 2e-3)]
)  # f32; f16
def test_the_results_are_those_of_jax(name, limit):
    text = run_example(name, XLA_PYTHON_CLIENT_PREALLOCATE="false")
    assert text.startswith("largest difference: ")
    assert float(text.split()[2]) < limit
    if name == "jax_triton_kernels":
        assert "kernels: 2, by tileir: 2" in text
