"""Legality of a module for its target: its ops have lowering rules, and the bytes of parameters,
the globals, their initial values and alignments are within limits. Above these limits, LLVM and the
assembler end the process or emit hundreds of megabytes."""

from __future__ import annotations

from tileir import limits
from tileir.backend.stage import has_op
from tileir.backend.target import Target
from tileir.errors import Diagnostic, InfeasibleError
from tileir.ir import Function, Global, Module
from tileir.op import Op
from tileir.types import Descriptor, Tile, element_of

_MAP_BYTES = 128
"""Bytes of a tensor map, which is aligned to 64 (CUDA Driver API, CUtensorMap)."""

EXPANDED_OPS = frozenset(
    {"make_descriptor", "descriptor_load", "descriptor_store", "descriptor_reduce",
     "descriptor_gather", "descriptor_scatter", "dot_scaled"}
)  # fmt: skip
"""Ops that are always decomposed; `scan` is decomposed only if it is predicated."""

_FOREIGN_CODE = frozenset({"inline_asm", "extern_elementwise"})


def may_be_expanded(mnemonic: str) -> bool:
    """Whether an op called `mnemonic` may be decomposed before it is lowered."""
    return mnemonic in EXPANDED_OPS or mnemonic == "scan"


def needs_legalization(module: Module, kernel: str) -> bool:
    """Whether legalization (`tileir.backend.legalize`) may change `module`: it contains more than
    the kernel, or an op of the kernel is a call, is decomposed or has a predicate."""
    function = module.functions[kernel]
    return (
        len(module.functions) > 1
        or function.is_declaration
        or any(isinstance(p.type, Descriptor) for p in function.parameters)
        or has_op(function, "call", "gpu.role", "psi")
        or any(op.predicate is not None or may_be_expanded(op.mnemonic) for op in function.ops)
    )


def brings_code(op: Op) -> bool:
    """Whether `op` may contain foreign code."""
    return op.mnemonic in _FOREIGN_CODE


def has_tiles(function: Function) -> bool:
    """Whether a parameter or a result of an op is a tile."""
    results = (v.type for op in function.ops for v in op.results)
    return any(isinstance(t, Tile) for t in (*(p.type for p in function.parameters), *results))


def check_legal(reached: Module, kernel: str, machine: Target) -> None:
    """Check the part of a module that `kernel` reaches (`within`). Raises `InfeasibleError` if it
    exceeds the resources of `machine` (TIR0708) or a limit (TIR1601)."""
    check_globals(reached)
    check_constants(reached, machine)
    check_parameters(reached.functions[kernel], machine)


def within(module: Module, kernel: str) -> Module:
    """`module` with only the functions that `kernel` reaches by calls, combiners and roles, and the
    globals that they name."""
    if len(module.functions) == 1:
        return module if not module.globals else module.evolve(globals=limits.used_globals(module))
    from tileir.verify.symbols import called_functions  # many modules contain only the kernel

    seen, waiting = {kernel: module.functions[kernel]}, [kernel]
    while waiting:
        for op in seen[waiting.pop()].ops:
            for name in called_functions(op):
                if name not in seen and name in module.functions:
                    seen[name] = module.functions[name]
                    waiting.append(name)
    result = module.with_functions({n: f for n, f in module.functions.items() if n in seen})
    return result if not result.globals else result.evolve(globals=limits.used_globals(result))


def check_globals(module: Module) -> None:
    """Raise `InfeasibleError` (TIR1601) at a used global of `module` that exceeds a limit."""
    used, limit = limits.used_globals(module), limits.current()
    for variable in used.values():
        if variable.alignment > limit.alignment:
            what = f"@{variable.name} is aligned to {variable.alignment} bytes"
            raise InfeasibleError(limits.limit_diagnostic("alignment", what, variable.location))
    limits.check_globals(used, InfeasibleError)
    for variable in used.values():
        if variable.count > limit.initial_elements and not is_zero(variable):
            what = f"@{variable.name} has {variable.count} elements with initial values"
            raise InfeasibleError(
                limits.limit_diagnostic("initial_elements", what, variable.location)
            )


def check_constants(module: Module, machine: Target) -> None:
    """Raise `InfeasibleError` (TIR0708) if the used constant globals take more bytes than the
    constant memory of `machine` has."""
    most = limits.current().constant_bytes or machine.constant_bytes
    total = 0
    for variable in limits.used_globals(module).values():
        if variable.constant and not variable.external:
            total += limits.size_of(variable)
            if total > most:
                message = (
                    f"@{variable.name}, with the constants before it, takes {total} bytes, and "
                    f"{machine.name} has {most} (limit constant_bytes): use a global that is not "
                    "constant"
                )
                raise InfeasibleError(Diagnostic("TIR0708", message, variable.location))


def check_parameters(function: Function, machine: Target) -> None:
    """Raise `InfeasibleError` (TIR0708) at the first parameter of kernel `function` that does not
    fit into the parameter space of `machine`."""
    most = limits.current().parameter_bytes or machine.parameter_bytes
    total = 0
    for parameter in function.parameters:
        size = getattr(element_of(parameter.type), "bytes", 8)
        total = -(-total // size) * size + size
        if total > most:
            raise _too_many(function, total, most, machine, parameter.location)
    maps = sum(op.mnemonic == "gpu.tensor_map" for op in function.ops)
    if maps and (total := -(-total // 64) * 64 + maps * _MAP_BYTES) > most:
        raise _too_many(function, total, most, machine, None)


def _too_many(
    function: Function, total: int, most: int, machine: Target, where: object
) -> InfeasibleError:
    message = (
        f"the parameters of @{function.name} take {total} bytes, and {machine.name} passes {most} "
        "(limit parameter_bytes): pass some of them in an array"
    )
    location = where or function.location
    return InfeasibleError(Diagnostic("TIR0708", message, location))  # type: ignore[arg-type]


def is_zero(variable: Global) -> bool:
    """Whether the initial values of the global are all zero or undefined."""
    return variable.initial is None or not any(constant.bits for constant in variable.initial)
