"""Shared memory: where tiles lie in it, without bank conflicts, and barriers between its uses."""
