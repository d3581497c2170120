"""The targets of code generation, as data."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.backend.processors import MAX_REGISTERS, faults
from tileir.errors import CompileError, Diagnostic, UnsupportedError
from tileir.types import BF16, F16, F32, Element

VECTOR_BYTES = 16
"""The widest access of one thread that every target has (PTX ISA, ld: .v4.b32)."""

# The same for every target (CUDA C++ Programming Guide, "Technical Specifications").

LINE_BYTES = 128
"""A line of the first cache."""
LOCAL_BYTES = 512 << 10
"""Memory of one thread."""
MAX_WARPS = 32
"""Warps of one block."""
REGISTER_GRAIN = 8
"""Registers of a thread are allocated in multiples of this number."""
REGISTERS_PER_PROCESSOR = 65536
"""Registers of 32 bits of a multiprocessor."""
STATIC_SHARED_BYTES = 48 << 10
"""Shared memory that a block may have without a request at launch."""
FEW_WARPS = 12
"""Fewer resident warps of a multiprocessor than these are limited by shared memory, not by
registers: each thread of 12 warps may have 168."""
_SYSTEM_BYTES = 1024
"""Shared memory that the system takes of every block."""


@attrs.frozen(eq=False, repr=False)
class Target:
    """A GPU architecture: its features and limits, and the PTX version of the code for it.

    `ptx` is the oldest PTX ISA version with all features that the target uses, so that old drivers
    load the code (PTX ISA, "Release Notes"). Sizes are in bytes. Limits are those of the CUDA C++
    Programming Guide, "Compute Capabilities". The constructor raises `UnsupportedError` (TIR0718)
    for a combination for which LLVM cannot generate code.
    """

    name: str
    ptx: int
    shared_bytes: int
    """Shared memory one block may have, with the opt-in above 48 KiB."""
    shared_per_processor: int
    threads_per_processor: int
    blocks_per_processor: int
    max_threads: int = 1024
    """Threads of one block."""
    max_registers: int = MAX_REGISTERS
    """Registers of 32 bits of one thread."""
    registers_per_processor: int = REGISTERS_PER_PROCESSOR
    lanes: int = 32
    mma: frozenset[str] = frozenset({"f16", "bf16", "tf32", "f64", "i8"})
    """Operand types of `mma.sync` (PTX ISA, "Warp Level Matrix Instructions"), without `i4`, which
    newer targets emulate."""
    ldmatrix: bool = True
    stmatrix: bool = False
    cp_async: bool = True
    redux: bool = True
    """`redux.sync` of integers."""
    bf16_arithmetic: bool = True
    """add, sub, mul on bf16 (PTX ISA: sm_90 and up; fma from sm_80)."""
    f8_conversion: bool = True
    """cvt to and from e4m3x2 and e5m2x2 (sm_89 and up)."""
    bf16_atomics: bool = False
    """`atom.add.noftz.bf16` and its pairs."""
    vector_atomics: bool = False
    """`atom.add` of vectors (PTX ISA 8.1, sm_90 and up)."""
    clusters: bool = False
    wgmma: bool = False
    """wgmma and setmaxnreg."""
    tma: bool = False
    """cp.async.bulk, tensor maps and mbarriers with transaction counts."""

    def __attrs_post_init__(self) -> None:
        diagnostics = [
            Diagnostic("TIR0718", f"target {self.name}: {text}") for text in faults(self)
        ]
        if diagnostics:
            raise UnsupportedError(*diagnostics)

    @property
    def parameter_bytes(self) -> int:
        """The maximum size of kernel parameters in bytes: 32,764 for sm_70 or later with PTX 8.1 or
        later, else 4,352 (PTX ISA, "Kernel Function Parameters")."""
        return 32764 if self.ptx >= 81 else 4352

    @property
    def constant_bytes(self) -> int:
        """The maximum size of constant memory of a module in bytes (CUDA C++ Programming Guide,
        "Technical Specifications")."""
        return 64 << 10

    @property
    def processor(self) -> str:
        """The name of the processor in LLVM."""
        return self.name

    @property
    def features(self) -> str:
        """The feature string of LLVM, which fixes the PTX version."""
        return f"+ptx{self.ptx}"

    @property
    def max_warps(self) -> int:
        """The maximum number of warps per block."""
        return self.max_threads // self.lanes

    def register_words(self, warps: int, registers: int) -> int:
        """Return the number of registers that a block of `warps` warps allocates if each thread has
        `registers`."""
        return -(-max(registers, 1) // REGISTER_GRAIN) * REGISTER_GRAIN * warps * self.lanes

    def available_registers(self, threads: int) -> int:
        """The most registers of a thread in a block of `threads` threads."""
        return min(self.max_registers, self.registers_per_processor // threads)

    def resident_blocks(self, warps: int, words: int, shared: int) -> int:
        """Return the number of blocks that are resident on a multiprocessor at once, for blocks of
        `warps` warps, `words` registers and `shared` bytes (CUDA C++ Programming Guide, "Technical
        Specifications")."""
        return min(
            self.blocks_per_processor,
            self.threads_per_processor // (warps * self.lanes),
            self.registers_per_processor // words,
            self.shared_per_processor // (shared + _SYSTEM_BYTES),
        )

    def shared_of_residents(self, warps: int, shared: int) -> int:
        """Return the most bytes of shared memory per block with which as many blocks of `warps`
        warps are resident as with `shared` bytes, or, if that is fewer, as many blocks as have
        `FEW_WARPS` warps."""
        blocks = self.resident_blocks(warps, self.register_words(warps, 1), shared)
        blocks = min(blocks, -(-FEW_WARPS // warps))
        return self.shared_per_processor // max(blocks, 1) - _SYSTEM_BYTES

    def atomic_width(self, element: Element) -> int:
        """Return the number of neighbouring elements that one atomic addition updates."""
        if element is F32:
            return 4 if self.vector_atomics else 1
        if element is F16 or (element is BF16 and self.bf16_atomics):
            return 8 if self.vector_atomics else 2
        return 1


_AMPERE = Target("sm_80", 80, 166912, 167936, 2048, 32, bf16_arithmetic=False, f8_conversion=False)
_HOPPER = Target(
    "sm_90", 81, 232448, 233472, 2048, 32, stmatrix=True, bf16_atomics=True,
    mma=_AMPERE.mma | {"f8"}, vector_atomics=True, clusters=True, tma=True,
)  # fmt: skip

TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        _AMPERE,
        attrs.evolve(
            _AMPERE, name="sm_86", shared_bytes=101376, shared_per_processor=102400,
            threads_per_processor=1536, blocks_per_processor=16,
        ),
        attrs.evolve(
            _AMPERE, name="sm_89", ptx=81, shared_bytes=101376, shared_per_processor=102400,
            threads_per_processor=1536, blocks_per_processor=24, f8_conversion=True,
            mma=_HOPPER.mma,
        ),
        _HOPPER,
        attrs.evolve(_HOPPER, name="sm_90a", ptx=84, wgmma=True),
        attrs.evolve(_HOPPER, name="sm_100", ptx=86),
        attrs.evolve(
            _HOPPER, name="sm_120", ptx=87, shared_bytes=101376, shared_per_processor=102400,
            threads_per_processor=1536, blocks_per_processor=24,
        ),
    )
}  # fmt: skip
"""Every supported target by name."""


def target(name: str) -> Target:
    """Return the target called `name`. Raises `CompileError` (TIR0702).

    Other distributions add targets as entry points of the group `tileir.targets`.
    """
    built_in = TARGETS.get(name)
    if built_in is None:
        # a slow import, needed only for unknown targets
        from importlib.metadata import entry_points

        for point in entry_points(group="tileir.targets", name=name):
            return _load(name, point)
        names = ", ".join(TARGETS)
        raise CompileError(Diagnostic("TIR0702", f"no target {name}; the targets are {names}"))
    return built_in


def _load(name: str, point: Any) -> Target:
    """The target that an entry point refers to. Raises `CompileError` (TIR0718) if it is not a
    target."""
    try:
        loaded = point.load()
    except (ImportError, AttributeError) as error:
        message = f"target {name} of another distribution does not load: {error}"
        raise CompileError(Diagnostic("TIR0718", message)) from error
    if not isinstance(loaded, Target):
        raise CompileError(Diagnostic("TIR0718", f"target {name} is not a Target: {loaded!r}"))
    return loaded
