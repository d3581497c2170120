"""Code for tiles: conversions, reductions, scans, and accesses of shared memory."""
