"""Passes that need neither layouts nor roles, and helpers that they share."""
