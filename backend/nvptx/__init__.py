"""Generation of code for NVIDIA GPUs: LLVM IR text of one thread, and its compilation to PTX."""
