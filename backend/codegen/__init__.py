"""Code generation from tiles to threads: lowering of functions, conversions, reductions and
scans."""
