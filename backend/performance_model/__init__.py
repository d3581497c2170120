"""Estimates of the time of kernels, without running them."""
