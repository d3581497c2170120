"""Settings from the environment: TILEIR_IN_TRITON, TILEIR_IN_TRITON_REPORT, TILEIR_TRITON_CPU."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase

_ON = frozenset({"1", "on", "true", "yes"})
_OFF = frozenset({"", "0", "off", "false", "no"})

CPU_MODES = ("native", "interpreter", "simt")
"""The ways in which kernels run on the CPU."""


class Settings:
    """The kernels that tileir compiles for a GPU, and the treatment of those that it cannot
    compile.

    `patterns` are globs of kernel names; none selects all kernels. With `strict`, a kernel that
    tileir cannot compile is an error; otherwise Triton compiles it. With `maps`, tileir launches
    the kernels that have a version with tensor maps; otherwise Triton launches all kernels.
    """

    __slots__ = ("enabled", "maps", "patterns", "strict")

    def __init__(
        self, enabled: bool, strict: bool = False, patterns: tuple[str, ...] = (),
        maps: bool = True,
    ) -> None:  # fmt: skip
        self.enabled, self.strict, self.patterns, self.maps = enabled, strict, patterns, maps

    @staticmethod
    def of(text: str) -> Settings:
        """The settings written as `text`: words with commas between them. `1` is on, `0` and ''
        are off; `strict`; `no-maps`; any other word is a glob of names (`pattern:` is optional)."""
        words = [word.strip() for word in text.split(",")]
        if all(word.lower() in _OFF for word in words):
            return Settings(False)
        switches = {word.lower() for word in words}
        words_of_switches = (*_ON, *_OFF, "strict", "no-maps")
        patterns = tuple(
            w.removeprefix("pattern:") for w in words if w.lower() not in words_of_switches
        )
        return Settings(True, "strict" in switches, patterns, "no-maps" not in switches)

    def covers(self, kernel: str) -> bool:
        """Whether tileir compiles the kernel of that name."""
        return not self.patterns or any(fnmatchcase(kernel, p) for p in self.patterns)

    def __str__(self) -> str:
        """The settings as `of` reads them."""
        switches = ["strict"] * self.strict + ["no-maps"] * (not self.maps)
        words = switches + [f"pattern:{p}" for p in self.patterns]
        return ",".join(words or ["1"]) if self.enabled else "0"


def settings_from_environment() -> Settings:
    """The settings of TILEIR_IN_TRITON."""
    return Settings.of(os.environ.get("TILEIR_IN_TRITON", ""))


def cpu_mode() -> str:
    """The value of TILEIR_TRITON_CPU: one of `CPU_MODES`, `off`, or '' if it is not set. The first
    launch rejects any other value."""
    return os.environ.get("TILEIR_TRITON_CPU", "").strip().lower()
