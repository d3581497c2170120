"""Layouts: which thread owns which element, for memory accesses, dots and everything between."""
