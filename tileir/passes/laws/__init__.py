"""Algebra as data: equations between terms of ops, matched, applied and tested as written."""
