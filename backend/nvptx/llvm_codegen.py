"""LLVM IR text to optimized PTX, through llvmlite."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from tileir.backend.options import CodeVariant
from tileir.backend.target import Target
from tileir.errors import CompileError, Diagnostic
from tileir.process import LockLevel, hold_at_fork, keep_freed_memory

_LARGE = 1 << 20
"""Length of the text in characters above which passes of more than linear time are omitted, and
module passes after function passes, which then have no effect."""

_LONG = 1 << 17
"""Characters of PTX below which no kernel has entrances
(`tileir.backend.nvptx.ptxas_entry_points`)."""

_WGMMA, _REGISTER_OPERAND = "wgmma.mma_async", ".reg .b32 f<"
"""Assembly text of wgmma, and of wgmma with operand A in registers
(`tileir.backend.nvptx.hopper`)."""

_THREAD_WORK = ("ld.global", "st.global", "red.global", "nvvm.cluster_dim")
"""Text that appears where threads do more than start copies for wgmma: accesses of tensors by
threads, and work shared with other blocks."""

_JOINS = (" = phi ", " = alloca ")
"""The beginnings of values that several blocks pass or a loop carries, and of memory of a
thread."""

_UNROLLED = "llvm.loop.unroll.count"
"""The name of the metadata of loops of which several iterations run together."""

_SELECTION = 2
"""Highest level of the code generator. Level 3 numbers values once more, which finds nothing
after the pipeline before it and takes a tenth of the time."""

FORWARDED_LOADS = "enable-gvn-memdep"
"""The option of LLVM by which `gvn` replaces a load with the value that an earlier load or store
of the address has, also where several blocks have it. In kernels for GPUs it finds nothing that
`cse` and LLVM's `early-cse` leave: the PTX of 206 kernels of public libraries is the same without,
and LLVM's passes take 9 % less time."""

_ready, _generating = threading.Lock(), threading.Lock()
_initialised: list[bool] = []
_options: dict[str, bool] = {}
"""LLVM's options that were set in this process by `llvm_options`."""


def to_ptx(
    text: str, target: Target, opt_level: int = 3, libraries: tuple[str, ...] = (),
    variant: CodeVariant = CodeVariant.DEPTH_FIRST,
) -> str:  # fmt: skip
    """Compile the module `text` to PTX, together with the functions that it calls in `libraries`,
    which are texts of LLVM IR. `variant` states the settings of the code generator.

    Raises `CompileError`: TIR0703 if LLVM rejects the text, which is a defect of the lowering rules
    (the message quotes LLVM's error); TIR0719 if it rejects a library.
    """
    arguments = text, target, opt_level, libraries
    module, machine = _kept.take(arguments) or _optimized_module(*arguments)
    if variant is CodeVariant.UNREDUCED:  # `SCHEDULED` is likely to follow
        _kept.put(arguments, (module, machine))
        module = module.clone()
    with code_generator(llvm_binding(), variant):
        ptx = machine.emit_assembly(module)
    ptx = with_roundings_in_words(with_wide_multiply_adds(negations_kept(ptx)))
    return _with_ptxas_entries(with_upper_halves_masked(ptx))


def optimized_ir(
    text: str, target: Target, opt_level: int = 3, libraries: tuple[str, ...] = ()
) -> str:
    """The optimized LLVM IR from which `to_ptx` generates code. Raises `CompileError` as it
    does."""
    return str(_optimized_module(text, target, opt_level, libraries)[0])


def _optimized_module(
    text: str, target: Target, opt_level: int, libraries: tuple[str, ...]
) -> tuple[Any, Any]:
    """The module `text` with its libraries, optimized, and the target machine that generates its
    code."""
    llvm = llvm_binding()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        message = f"LLVM rejects the code generated for this module: {error}"
        raise CompileError(Diagnostic("TIR0703", message)) from error
    level = level_of(text, opt_level)
    machine = _machines.of(llvm, target, min(level, _SELECTION))
    optimize = _pipeline_for(text, level)
    if libraries:
        from tileir.backend.nvptx.libraries import link_libraries  # few kernels call libraries

        link_libraries(llvm, module, libraries)
        optimize = _optimize
    with llvm_options(llvm, {FORWARDED_LOADS: False}):
        optimize(llvm, module, machine, level)
    return module, machine


class _KeptModule(threading.local):
    """The module that this thread optimized last, if another variant is likely to be generated from
    it: optimizing takes almost half of LLVM's time. The code generator changes a module, so the
    first variant gets a copy. `SCHEDULED` gets the module itself: of 15 kernels, four are scheduled
    differently from a copy, whose uses have another order."""

    def __init__(self) -> None:
        self.kept: tuple[tuple[Any, ...], tuple[Any, Any]] | None = None

    def put(self, arguments: tuple[Any, ...], optimized: tuple[Any, Any]) -> None:
        """Keep the result of `_optimized_module` for `arguments`."""
        self.kept = arguments, optimized

    def take(self, arguments: tuple[Any, ...]) -> tuple[Any, Any] | None:
        """Return the kept module and its machine if they are for `arguments`. Keep nothing."""
        kept, self.kept = self.kept, None
        return kept[1] if kept is not None and kept[0] == arguments else None


_kept = _KeptModule()


def level_of(text: str, opt_level: int) -> int:
    """The optimization level that is used for `text` if `opt_level` is requested."""
    return opt_level if len(text) < _LARGE else min(opt_level, 1)


@contextmanager
def code_generator(llvm: Any, variant: CodeVariant) -> Generator[None]:
    """A context in which LLVM generates code with the settings of `variant`: with its machine
    scheduler for `SCHEDULED`, without loop strength reduction for `UNREDUCED`. No variant schedules
    after register allocation: that takes a time quadratic in the length of a basic block, and CPUs
    that reorder instructions do without. `llvm` is llvmlite's binding."""
    options = {
        "enable-misched": variant is CodeVariant.SCHEDULED,
        "disable-lsr": variant is CodeVariant.UNREDUCED,
        "post-RA-scheduler": False,
    }
    with llvm_options(llvm, options):
        yield


@contextmanager
def llvm_options(llvm: Any, options: Mapping[str, bool]) -> Generator[None]:
    """A context in which LLVM has these options. Options are global to LLVM, so no other thread is
    in such a context meanwhile. `llvm` is llvmlite's binding."""
    with _generating:
        for name, value in options.items():
            if value is not _options.get(name):
                llvm.set_option("tileir", f"-{name}={str(value).lower()}")
                _options[name] = value
        yield


def _with_ptxas_entries(ptx: str) -> str:
    """`ptx`, in which long kernels have additional entry points for ptxas."""
    if len(ptx) < _LONG:
        return ptx
    from tileir.backend.nvptx.ptxas_entry_points import (
        break_dominator_chains,  # few kernels are long
    )

    return break_dominator_chains(ptx)


def with_upper_halves_masked(ptx: str) -> str:
    """`ptx`, in which conversions of the upper half of a word from bf16 mask the word. Kernels with
    dots stay as they are: the word is then alive for longer, and of 17 such kernels that spill five
    spill more."""
    if "cvt.f32.bf16" not in ptx or any(word in ptx for word in (_WGMMA, "mma.sync")):
        return ptx
    from tileir.backend.nvptx.upper_halves import upper_halves_masked  # few kernels need it

    return upper_halves_masked(ptx)


def with_roundings_in_words(ptx: str) -> str:
    """`ptx`, in which numbers that are rounded to bf16 and used as f32 are rounded to words."""
    if "cvt.rn.bf16.f32" not in ptx or "cvt.f32.bf16" not in ptx:
        return ptx
    from tileir.backend.nvptx.roundings import rounded_in_words  # few kernels need it

    return rounded_in_words(ptx)


def negations_kept(ptx: str) -> str:
    """`ptx` with negations rewritten that ptxas would drop from a minimum or maximum of signed
    words.

    ptxas 13.0 combines two of these into one instruction, VIMNMX3, for sm_90 and sm_100, and loses
    the minus sign of its second operand. It keeps ~x + 1.
    """
    if "neg.s32" not in ptx or not re.search(r"\b(?:min|max)\.s32\b", ptx):
        return ptx
    complement = r"not.b32\g<1>\2, \3;\n\tadd.s32\g<1>\2, \2, 1;"
    return re.sub(r"neg\.s32( *\t?)(%r\d+), (%r\d+);", complement, ptx)


_WIDE = re.compile(r"\tmul\.wide\.([su]32) \t(%rd\d+), (%r\d+), (\S+);")
_ADD = re.compile(r"\tadd\.s64 \t(%rd\d+), (%rd\d+), (%rd\d+);")
_ONE = re.compile(r"\t[\w.]+ +\t(%\w+)[^;]*;$")
_REGISTER = re.compile(r"%[a-z]+\d+\b")
_WIDE_REGISTER = re.compile(r"%rd\d+\b")


def with_wide_multiply_adds(ptx: str) -> str:
    """`ptx` in which a 64-bit multiplication and the only addition that reads it become one
    `mad.wide`.

    LLVM 20 does not generate this instruction. From two instructions, ptxas 13.0 computes the
    address of a row in each thread, although uniform registers would do, and it may wait for one
    load before it computes the address of the next. Kernels with dots stay as they are: their rows
    differ by thread, so `mad.wide` gains nothing and takes registers. With it, latent attention
    spilled and took 126 us on an H200 instead of 82.
    """
    if "mul.wide" not in ptx or any(word in ptx for word in (_WGMMA, "mma.sync")):
        return ptx
    mentions = Counter(_WIDE_REGISTER.findall(ptx))
    lines: list[str | None] = list(ptx.split("\n"))
    wide: dict[str, tuple[int, str, str, str]] = {}
    for number, line in enumerate(ptx.split("\n")):
        if line[:1] != "\t":  # usually a label
            wide.clear()
            continue
        if wide and (addition := _ADD.match(line)):
            result, first, second = addition.groups()
            for base, multiplied in ((first, second), (second, first)):
                if multiplied in wide:
                    place, kind, a, b = wide.pop(multiplied)
                    lines[place] = None
                    lines[number] = f"\tmad.wide.{kind} \t{result}, {a}, {b}, {base};"
                    break
        if wide:
            one = _ONE.match(line)
            written = {one[1]} if one else set(_REGISTER.findall(line))
            wide = {x: y for x, y in wide.items() if written.isdisjoint((x, *y[2:]))}
        if line.startswith("\tmul.wide") and (multiplication := _WIDE.match(line)):
            kind, result, a, b = multiplication.groups()
            if mentions[result] == 2:
                wide[result] = number, kind, a, b
    return "\n".join(line for line in lines if line is not None)


_Pipeline: TypeAlias = Callable[[Any, Any, Any, int], None]


def _pipeline_for(text: str, level: int) -> _Pipeline:
    """The cheapest pipeline that generates code for `text` as good as LLVM's whole pipeline does,
    judged by the number of machine instructions, those in loops, and registers
    (docs/reference/performance.md)."""
    if not level:
        return _optimize
    if not any(word in text for word in (*_JOINS, _WGMMA, "mma.sync")):
        return _optimize_straight
    functions = _optimize_and_unroll if _UNROLLED in text else _optimize_functions
    if len(text) >= _LARGE:
        return functions
    if "mma.sync" in text or _REGISTER_OPERAND in text:
        return _optimize
    if _WGMMA in text:
        return functions if any(word in text for word in _THREAD_WORK) else _combine
    return functions


def _optimize(llvm: Any, module: Any, machine: Any, level: int) -> None:
    """LLVM's standard pipeline without the passes that enlarge the code or change choices of this
    compiler: only loops of few iterations are unrolled, and vectors are those of the layouts."""
    builder = llvm.create_pass_builder(machine, _tuning(llvm, level))
    builder.getModulePassManager().run(module, builder)


def _optimize_functions(
    llvm: Any, module: Any, machine: Any, level: int, unrolls: bool = False
) -> None:
    """Optimize as `_optimize` does, but visit each function once. A module pipeline visits it again
    after vectorization and unrolling.
    """
    tuning = _tuning(llvm, 0)
    builder = _inline_functions(llvm, module, machine, tuning)
    tuning.speed_level = level
    _each_function(module, builder.getFunctionPassManager(), builder)
    if unrolls and _UNROLLED in str(module):  # some such loops may have become straight-line code
        _unroll(llvm, module, builder)


def _optimize_and_unroll(llvm: Any, module: Any, machine: Any, level: int) -> None:
    """Optimize as `_optimize_functions` does, and unroll the loops whose metadata request it."""
    _optimize_functions(llvm, module, machine, level, unrolls=True)


def _unroll(llvm: Any, module: Any, builder: Any) -> None:
    """Unroll the loops whose metadata request it, as LLVM's module pipeline does at its end."""
    passes = llvm.create_new_function_pass_manager()
    passes.add_loop_unroll_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    _each_function(module, passes, builder)


def _optimize_straight(llvm: Any, module: Any, machine: Any, level: int) -> None:
    """Optimize as `_combine` does, and reassociate additions and multiplications so that addresses
    share subexpressions.

    Code without phis needs no other pass: the code generator removes common subexpressions itself.
    """
    _combine(llvm, module, machine, level, reordered=True)


def _combine(llvm: Any, module: Any, machine: Any, level: int, reordered: bool = False) -> None:
    """Simplify control flow and instructions once. Roles compute loop invariants at their entry
    (`tileir.backend.nvptx.role_branches`), loops keep the form of the program, and everything else
    is left to ptxas."""
    builder = _inline_functions(llvm, module, machine, _tuning(llvm, 0))
    passes = llvm.create_new_function_pass_manager()
    passes.add_simplify_cfg_pass()
    if reordered:
        passes.add_reassociate_pass()
    passes.add_instruction_combine_pass()
    _each_function(module, passes, builder)


def _inline_functions(llvm: Any, module: Any, machine: Any, tuning: Any) -> Any:
    """Inline the functions of `module` and attach ranges to its thread ids. The result is a pass
    builder for the module."""
    builder = llvm.create_pass_builder(machine, tuning)
    always = builder.getModulePassManager()
    always.add_post_order_function_attributes_pass()
    always.run(module, builder)
    return builder


def _each_function(module: Any, passes: Any, builder: Any) -> None:
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


def _tuning(llvm: Any, level: int) -> Any:
    """The options of a pipeline of `level`, which disable vectorization and interleaving of
    loops."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.slp_vectorization = tuning.loop_vectorization = False
    tuning.loop_interleaving = False
    return tuning


class _Machines(threading.local):
    """LLVM's target machines. Each thread has its own, because threads may not share them."""

    def __init__(self) -> None:
        self.machines: dict[tuple[str, str, int], Any] = {}

    def of(self, llvm: Any, target: Target, level: int) -> Any:
        """The target machine of this thread for `target` that generates code at `level`."""
        key = (target.processor, target.features, level)
        if key not in self.machines:
            triple = llvm.Target.from_triple("nvptx64-nvidia-cuda")
            self.machines[key] = triple.create_target_machine(
                cpu=target.processor, features=target.features, opt=level
            )
        return self.machines[key]


_machines = _Machines()


_OPTIONS = (
    "-nvptx-short-ptr", "-unroll-full-max-count=4", "-unroll-allow-partial=false",
    "-unroll-runtime=false", "-unroll-allow-peeling=false",
)  # fmt: skip
"""Addresses of shared memory have 32 bits. Loops of at most 4 iterations are unrolled completely,
so that their loads are in flight together. Other loops are unrolled if they request it
(`tileir.backend.codegen.rules.control`), since more copies take registers and instructions."""


def llvm_binding() -> Any:
    """llvmlite's binding, with its targets initialized. Raises `CompileError` (TIR0704) if llvmlite
    is not installed."""
    try:
        from llvmlite import binding
    except ImportError as error:
        message = "compiling needs llvmlite: pip install 'tileir[cu13]' or llvmlite"
        raise CompileError(Diagnostic("TIR0704", message)) from error
    with _ready:
        if not _initialised:
            keep_freed_memory()
            binding.initialize_all_targets()
            binding.initialize_all_asmprinters()
            for option in _OPTIONS:
                binding.set_option("tileir", option)
            _lock_at_forks(binding)
            _initialised.append(True)
    return binding


def _lock_at_forks(binding: Any) -> None:
    """Prevent a fork while another thread is in LLVM: LLVM's lock would stay locked in the child.
    llvmlite has no public name for the lock."""
    lock = getattr(getattr(binding.ffi.lib, "_lock", None), "_lock", None)
    if lock is not None:
        hold_at_fork(lock, LockLevel.LLVM)
    hold_at_fork(_ready, LockLevel.LOAD)
    hold_at_fork(_generating, LockLevel.LOAD)
