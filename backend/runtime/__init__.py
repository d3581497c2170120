"""Launching of compiled kernels: their byte format, the cache, and launchers."""
