"""."""

RULES = {}
