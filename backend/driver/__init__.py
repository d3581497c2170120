"""The CUDA driver: memory, loading and launching."""
