"""Kernels of Triton on the CPU: their modules, their arguments and their launches."""
