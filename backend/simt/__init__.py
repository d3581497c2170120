"""The SIMT simulator: lowering rules executed in numpy, every thread of a block at once."""
