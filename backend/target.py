"""The machines code is made for, as data."""

from __future__ import annotations

import attrs

from tileir.errors import CompileError, Diagnostic


@attrs.frozen
class Target:
    """One GPU architecture: what it can do, and the PTX version its code is written in.

    `ptx` is the oldest PTX ISA version that has everything the target is used for, so that old
    drivers load the code (PTX ISA, "Release Notes"). Sizes are in bytes.
    """

    name: str
    ptx: int
    shared_bytes: int
    """Shared memory one block may have, with the opt-in above 48 KiB."""
    max_threads: int = 1024
    lanes: int = 32
    bf16_arithmetic: bool = True
    """add, sub, mul on bf16 (PTX ISA: sm_90 and up; fma from sm_80)."""
    f8_conversion: bool = True
    """cvt to and from e4m3x2 and e5m2x2 (sm_89 and up)."""
    wgmma: bool = False
    tma: bool = False

    @property
    def processor(self) -> str:
        """LLVM's name of the processor."""
        return self.name

    @property
    def features(self) -> str:
        """LLVM's feature string, which pins the PTX version."""
        return f"+ptx{self.ptx}"


TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        Target("sm_80", 80, 166912, bf16_arithmetic=False, f8_conversion=False),
        Target("sm_86", 80, 101376, bf16_arithmetic=False, f8_conversion=False),
        Target("sm_89", 81, 101376, bf16_arithmetic=False),
        Target("sm_90", 80, 232448, tma=True),
        Target("sm_90a", 80, 232448, tma=True, wgmma=True),
        Target("sm_100", 86, 232448, tma=True),
        Target("sm_120", 87, 101376, tma=True),
    )
}
"""Every supported target by name."""


def target(name: str) -> Target:
    """The target called `name`; other distributions add targets as entry points of the group
    `tileir.targets`. Raises `CompileError` (TIR0702)."""
    found = TARGETS.get(name)
    if found is None:
        from importlib.metadata import entry_points  # slow, and needed for unknown targets only

        for point in entry_points(group="tileir.targets", name=name):
            return point.load()
        known = ", ".join(TARGETS)
        raise CompileError(Diagnostic("TIR0702", f"no target {name}; the targets are {known}"))
    return found
