"""Measuring candidates: what a meter does, what became of a candidate, and where that is kept."""
