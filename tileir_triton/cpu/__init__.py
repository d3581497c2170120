"""The entry point `cpu`: kernels of Triton on the CPU."""
