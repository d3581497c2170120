"""Copies by tensor maps: which accesses can be, and what the host computes for them."""
