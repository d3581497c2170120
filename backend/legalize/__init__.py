"""Ops that are others in disguise."""
