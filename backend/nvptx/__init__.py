"""Code for one thread as LLVM IR text, and its way to PTX."""
