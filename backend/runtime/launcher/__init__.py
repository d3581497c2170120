"""A launcher in machine code, as LLVM IR.

`%State`, `%Entry` and `%Arg` are the structures of `tileir.backend.runtime.native_launcher`.
`@@NAME@@` stands for the address of a symbol of Python's C API or of an object.
"""
