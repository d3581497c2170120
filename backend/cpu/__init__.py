"""Kernels as native code of this machine's CPU: the 32 lanes of one warp are LLVM vectors."""
