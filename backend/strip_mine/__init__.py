"""Tiles larger than the registers as loops over pieces."""
