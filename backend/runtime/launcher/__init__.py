"""A launcher in machine code, as LLVM IR.

`%State`, `%Entry` and `%Arg` are defined in `structures`; the text accesses their fields by name.
`@@NAME@@` stands for the address of a symbol of Python's C API or of an object.
"""
