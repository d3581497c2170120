"""Legalization: linking, inlining and decomposition of ops without lowering rules."""
