"""Ordinary programs of pointers, masks, loops and dots, one file per workload. Tests and benchmarks
share them."""
