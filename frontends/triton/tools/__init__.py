"""`triton.tools`: what hosts make for kernels."""

from tileir.frontends.triton.tools import tensor_descriptor

__all__ = ["tensor_descriptor"]
