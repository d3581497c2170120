"""Ordinary programs of pointers, masks, loops and dots, by what they compute: tests and benchmarks
share them."""
