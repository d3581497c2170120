"""Measurement of candidates: the interface of meters, outcomes, and their database."""
