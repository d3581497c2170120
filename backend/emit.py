"""A module of LLVM IR for one kernel and the scalar functions it calls."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.backend.contiguity import Contiguity
from tileir.backend.llvm_text import literal, llvm_type, memory_type
from tileir.backend.llvm_thread import LlvmThread
from tileir.backend.lowering import Lowering
from tileir.backend.rules import rules
from tileir.backend.scratch import Plan
from tileir.backend.target import Target
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Global, Module, Parameter
from tileir.types import Pointer, Scalar, Tile
from tileir.values import Constant

_ATTRIBUTES = """attributes #0 = {{ nounwind "nvvm.reqntid"="{threads}" }}
attributes #1 = {{ nounwind }}
attributes #2 = {{ nounwind memory(none) }}
attributes #3 = {{ nounwind alwaysinline }}
attributes #4 = {{ convergent nounwind }}
attributes #5 = {{ convergent nounwind memory(none) }}"""


def emit(module: Module, kernel: str, target: Target, memory: Plan, num_warps: int) -> str:
    """LLVM IR text of `kernel`. Raises `CompileError` (TIR0706) at the op that has no lowering."""
    function = module.functions[kernel]
    reached = list(_reached(module, function))
    bodies: list[str] = []
    declarations: dict[str, None] = {}
    for found in (function, *reached):
        thread = LlvmThread()
        offsets = memory.offsets if found is function else {}
        contiguity = Contiguity.of(found)
        lowering = Lowering(module, found, target, thread, contiguity, offsets, rules(), num_warps)
        bodies.append(_function(lowering))
        declarations.update(thread.declarations)
    return "\n".join(
        (
            'target triple = "nvptx64-nvidia-cuda"',
            *_shared(memory),
            *(_global(g) for g in module.globals.values()),
            *declarations,
            *bodies,
            _ATTRIBUTES.format(threads=num_warps * target.lanes),
            "",
        )
    )


def _function(lowering: Lowering) -> str:
    function, thread = lowering.function, lowering.thread
    header = [_parameter(lowering, i, p) for i, p in enumerate(function.parameters)]
    lowering.body()
    kinds = [llvm_type(t) for t in function.results]
    result = "void" if not kinds else kinds[0] if len(kinds) == 1 else f"{{{', '.join(kinds)}}}"
    kernel = function.kernel
    convention = "ptx_kernel " if kernel else "internal "
    name = function.name if kernel else f"f.{function.name}"
    if kernel:
        head = f"define ptx_kernel void @{name}({', '.join(header)}) #0 {{"
    else:
        head = f"define {convention}{result} @{name}({', '.join(header)}) #3 {{"
    entry = ["entry:", *thread.at_entry, "  br label %bb0"]
    return "\n".join((head, *entry, *(x for x in thread.lines if x), "}"))


def _parameter(lowering: Lowering, index: int, parameter: Parameter) -> str:
    """The declaration of a parameter, its value noted."""
    kind, name = parameter.type, f"%a{index}"
    if not isinstance(kind, (Scalar, Pointer)):
        message = f"parameter {parameter.name or index} has type {kind}: only scalars and pointers"
        raise CompileError(Diagnostic("TIR0706", message, parameter.location))
    if llvm_type(kind) == "i1":
        thread = lowering.thread
        lowering.values[parameter.value] = (
            [thread.once(name, lambda: thread.emit(f"trunc i8 {name} to i1"))]
            if lowering.function.kernel
            else [name]
        )
        return f"{'i8' if lowering.function.kernel else 'i1'} {name}"
    lowering.values[parameter.value] = [name]
    promises = parameter.attributes
    words = [llvm_type(kind)]
    if isinstance(kind, Pointer):
        words += ["noalias"] * promises.noalias + ["readonly"] * promises.readonly
        words += ["writeonly"] * promises.writeonly
        if promises.aligned and promises.aligned & (promises.aligned - 1) == 0:
            words.append(f"align {promises.aligned}")
    return " ".join((*words, name))


def _shared(memory: Plan) -> Iterator[str]:
    if memory.dynamic:
        yield "@shared = external addrspace(3) global [0 x i8], align 16"
    elif memory.size:
        yield f"@shared = internal addrspace(3) global [{memory.size} x i8] undef, align 16"


def _global(found: Global) -> str:
    element = found.element
    assert isinstance(element, (Scalar, Pointer))
    kind, space = memory_type(element), int(found.space)
    if found.external:
        return f"@g.{found.name} = external addrspace({space}) global [{found.count} x {kind}]"
    word = "constant" if found.constant else "global"
    align = found.alignment or element.bytes
    values = _initial(found, kind)
    array = f"[{found.count} x {kind}] {values}, align {align}"
    return f"@g.{found.name} = addrspace({space}) {word} {array}"


def _initial(found: Global, kind: str) -> str:
    if found.initial is None:
        return "zeroinitializer"
    values: list[Constant] = list(found.initial)
    if len(values) == 1:
        values *= found.count
    texts = (f"{kind} {_in_memory(kind, v)}" for v in values)
    return f"[{', '.join(texts)}]"


def _in_memory(kind: str, value: Constant) -> str:
    if kind == "i8":
        return str(value.bits)
    assert isinstance(value.type, (Scalar, Pointer))
    return literal(value.type, value.bits)


def _reached(module: Module, kernel: Function) -> Iterator[Function]:
    """The scalar functions that `kernel` reaches by calls and combiners, each once."""
    seen, waiting = {kernel.name}, [kernel]
    while waiting:
        for op in waiting.pop().ops:
            for name in (getattr(op, "callee", None), getattr(op, "combiner", None)):
                callee = module.functions.get(name) if isinstance(name, str) else None
                if callee is None or callee.name in seen:
                    continue
                if callee.is_declaration or _touches_tiles(callee):
                    message = f"@{callee.name} cannot be compiled: it has no body, or has tiles"
                    raise CompileError(Diagnostic("TIR0706", message, op.location))
                seen.add(callee.name)
                waiting.append(callee)
                yield callee


def _touches_tiles(function: Function) -> bool:
    results = (v.type for op in function.ops for v in op.results)
    return any(isinstance(t, Tile) for t in (*(p.type for p in function.parameters), *results))
