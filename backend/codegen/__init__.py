"""From tiles to threads: walking a function, conversions, reductions and scans."""
