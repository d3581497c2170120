"""A launcher in machine code, as LLVM IR.

`%State`, `%Entry` and `%Arg` are `structures`, whose fields the text names.
`@@NAME@@` stands for the address of a symbol of Python's C API or of an object.
"""
