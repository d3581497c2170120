"""Shared memory: allocation, swizzles without bank conflicts, and barriers."""
