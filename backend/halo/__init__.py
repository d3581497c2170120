"""Overlapping windows of global memory, staged once in shared memory with their halo."""
