"""From a module to a kernel that runs: compiled kernels as bytes, the cache, launchers."""
