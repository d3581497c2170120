"""Passes that know neither layouts nor roles, and what they share."""
