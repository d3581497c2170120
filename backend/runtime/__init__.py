"""Launching: compiled kernels as bytes, the cache, launchers."""
