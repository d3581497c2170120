"""Loads ahead of the loops that need them."""
