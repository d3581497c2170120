"""The CPU target: kernels as native code of this machine's CPU. An LLVM vector contains the values
of the 32 lanes of one warp."""
