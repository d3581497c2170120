"""Options of the compiler."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from enum import Enum
from numbers import Integral
from typing import Any, cast

import attrs

from tileir.errors import CompileError, Diagnostic
from tileir.limits import Limits


def _limits(spec: Any) -> tuple[tuple[str, int], ...]:
    """Limits as sorted pairs, from a mapping, from pairs, or from words `name=value`. Raises
    `CompileError` (TIR1602)."""
    if isinstance(spec, Limits):
        spec = attrs.asdict(spec)
    try:
        items = spec.items() if isinstance(spec, Mapping) else map(_pair, spec)
        pairs = {str(name): value for name, value in items}
    except (TypeError, ValueError):
        raise _mistake(f"limits is a mapping of names to numbers, not {spec!r}") from None
    Limits.of(pairs)
    return tuple(sorted(pairs.items()))


def _pair(item: Any) -> tuple[str, int]:
    """A pair from the word `name=value`, or from a name and a value."""
    if isinstance(item, str):
        item = item.partition("=")[::2]
    name, value = item
    return name, int(value) if isinstance(value, str) else value


class CodeVariant(Enum):
    """A way to generate the code of a kernel. Variants differ in the number of registers.

    - `DEPTH_FIRST`: LLVM gets the instructions of a basic block before their first use, if clearly
      fewer values are alive then (`depth_first`).
    - `PROGRAM_ORDER`: LLVM gets them in the order in which lowering rules emit them.
    - `ALTERNATING`: as `DEPTH_FIRST`, and stores that follow each other alternate. Fewer values
      are alive then, and fewer loads are in flight.
    - `SCHEDULED`: ptxas gets those of `DEPTH_FIRST` in the order of LLVM's machine scheduler.
    - `UNREDUCED`: as `DEPTH_FIRST`, without LLVM's strength reduction of loops, which keeps a
      register for each address that changes with the iteration.
    - `PREFETCHED`: as `DEPTH_FIRST`, with loads of loops one iteration ahead (`prefetch-loads`).
    - `RECOMPUTED`: as `DEPTH_FIRST`, with indices and addresses that loops of dots by `mma` compute
      in each iteration (`rematerialize`).
    - `OVERLAPPED`: as `DEPTH_FIRST`; outside of loops, loads between dots are issued before the
      first dot waits for its operands, and independent dots of warpgroups start together.
    """

    DEPTH_FIRST = "depth first"
    PROGRAM_ORDER = "program order"
    ALTERNATING = "alternating"
    SCHEDULED = "scheduled"
    UNREDUCED = "unreduced"
    PREFETCHED = "prefetched"
    RECOMPUTED = "recomputed"
    OVERLAPPED = "overlapped"


@attrs.frozen
class Options:
    """Options of the compiler. None leaves the choice to the kernel attribute of the same name, if
    there is one, or to the compiler.

    - `num_warps`: warps per block; consumer warps of a warp-specialized kernel.
    - `opt_level`: the optimization level of LLVM, 0 to 3.
    - `num_stages`: stages of pipelined loops without the attribute `stages`, and of the rings of a
      warp-specialized kernel; 1 disables pipelining.
    - `ring_stages`: the most stages of the rings of a warp-specialized kernel, in place of
      `num_stages`, which its fallback without tensor maps keeps.
    - `prefetch_operands`: whether the fragments of a dot are read from shared memory one step of K
      ahead.
    - `max_registers`: the maximum number of registers per thread. If this and `prefetch_operands`
      are None, the compiler tries the limit at which one more block is resident on a
      multiprocessor. It uses that limit if nothing is spilled. Otherwise it prefetches operands
      without a limit.
    - `stage_halo`: whether overlapping windows of a buffer are loaded once into shared memory.
    - `warp_specialize`: whether kernels with dots are warp-specialized, on targets with tensor maps
      and `wgmma`. None: yes, unless the attribute is false.
    - `persistent`: whether blocks of a warp-specialized kernel loop over program instances. None:
      yes, unless the attribute is false.
    - `pingpong`: whether two consumer warpgroups alternate instances, so that one stores its result
      while the other multiplies. None: the attribute decides.
    - `ordered_softmax`: whether consumer warpgroups alternate in issuing chained matmuls, as in
      attention. None: yes.
    - `non_tma_alignments`: for each parameter, after the expansion of descriptors, 0, or the
      alignment in bytes of the rows of a tensor that no tensor map can describe, which threads then
      load and store. The launcher sets it from the arguments.
    - `non_tma_variants`: whether a variant is compiled for a launch with a tensor that no map can
      describe. If not, the launch takes the fallback without tensor maps.
    - `split_k`: the number of blocks of a cluster that split K, if the loop only accumulates. 1: no
      split; 0: the launcher chooses by the sizes; None: the attribute decides.
    - `multicast`: the number of blocks of a cluster that load common operands by TMA multicast, in
      persistent kernels. 1: no multicast; None: the attribute decides.
    - `wait_timeout`: whether a wait for an mbarrier that takes longer than 1.5 s traps.
    - `line_info`: whether the machine code has line tables, for profilers and sanitizers.
    - `limits`: limits by name, in place of the current ones (`tileir.limits`,
      docs/reference/limits.md).
    - `permit`: permissions for foreign code: `inline_asm`, and `extern` for functions of
      `libraries`.
    - `libraries`: texts of PTX or LLVM IR with functions that the kernel calls; functions in LLVM
      IR are inlined.

    The constructor raises `CompileError` (TIR0716) for an invalid value.
    """

    num_warps: int | None = None
    opt_level: int = 3
    num_stages: int | None = None
    ring_stages: int | None = None
    prefetch_operands: bool | None = None
    stage_halo: bool = True
    max_registers: int | None = None
    warp_specialize: bool | None = None
    persistent: bool | None = None
    pingpong: bool | None = None
    ordered_softmax: bool | None = None
    non_tma_alignments: tuple[int, ...] = ()
    non_tma_variants: bool = True
    split_k: int | None = None
    multicast: int | None = None
    wait_timeout: bool = False
    line_info: bool = False
    permit: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    limits: tuple[tuple[str, int], ...] = attrs.field(default=(), converter=_limits)

    def __attrs_post_init__(self) -> None:
        for names, fits, what in _KINDS:
            for name in names:
                value = getattr(self, name)
                if not fits(value) and not (value is None and name in _CHOSEN):
                    raise _mistake(f"{name} is {what}, not {value!r}")

    @staticmethod
    def of(options: Options | Mapping[str, Any] | None) -> Options:
        """Return options from a mapping or from `Options`. Raises `CompileError` (TIR0716) for an
        unknown name or an invalid value."""
        if isinstance(options, Options):
            return options
        if not isinstance(options, Mapping | None):
            raise _mistake(f"options are Options or a mapping, not {options!r}")
        names = {field.name for field in attrs.fields(Options)}
        for name in options or ():
            if name not in names:
                message = f"no option {name}; there are {', '.join(sorted(names))}"
                raise _mistake(message)
        return Options(**{k: _plain(v) for k, v in (options or {}).items()})

    def __repr__(self) -> str:
        stated = ((f.name, getattr(self, f.name), f.default) for f in attrs.fields(Options))
        words = [f"{name} = {value!r}" for name, value, default in stated if value != default]
        return f"<options: {', '.join(words) or 'none'}>"

    def to_json(self) -> dict[str, Any]:
        """Return the options as values that JSON can represent."""
        return attrs.asdict(self)


def ptx_libraries(libraries: tuple[str, ...]) -> tuple[str, ...]:
    """The libraries that are PTX: texts that begin with a PTX version."""
    return tuple(text for text in libraries if re.search(_VERSION, text))


def llvm_libraries(libraries: tuple[str, ...]) -> tuple[str, ...]:
    """The libraries that are LLVM IR: all others."""
    return tuple(text for text in libraries if not re.search(_VERSION, text))


_VERSION = r"(?m)^\s*\.version\b"


def _is_natural(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_positive(value: Any) -> bool:
    return _is_natural(value) and value > 0


def _are_permissions(value: Any) -> bool:
    return _are_strings(value) and set(value) <= {"inline_asm", "extern"}


def _is_truth(value: Any) -> bool:
    return isinstance(value, Hashable) and value in (True, False)


def _is_level(value: Any) -> bool:
    return isinstance(value, int) and value in range(4)


def _are_natural(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_is_natural, cast(tuple[Any, ...], value)))


def _are_strings(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(v, str) for v in cast(tuple[Any, ...], value)
    )


_CHOSEN = frozenset({
    "num_warps", "num_stages", "ring_stages", "prefetch_operands", "max_registers",
    "warp_specialize", "persistent", "pingpong", "ordered_softmax", "split_k", "multicast",
})  # fmt: skip
"""Options that the compiler chooses where they are None."""

_KINDS: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (("num_warps", "num_stages", "ring_stages", "max_registers", "multicast"), _is_positive,
     "a whole number from 1 on"),
    (("split_k",), _is_natural, "a whole number from 0 on"),
    (("prefetch_operands", "stage_halo", "warp_specialize", "persistent", "pingpong",
      "ordered_softmax", "wait_timeout", "line_info", "non_tma_variants"),
     _is_truth, "true or false"),
    (("opt_level",), _is_level, "0 to 3"),
    (("non_tma_alignments",), _are_natural, "a tuple of whole numbers"),
    (("permit",), _are_permissions, "a tuple of `inline_asm` and `extern`"),
    (("libraries",), _are_strings, "a tuple of strings"),
)  # fmt: skip
"""The kinds of values of options: names, the test of a value, and its description."""


def _mistake(message: str) -> CompileError:
    return CompileError(Diagnostic("TIR0716", message))


def _plain(value: Any) -> Any:
    """A value that is hashable and can be written as JSON: lists become tuples, numpy's numbers
    become Python's."""
    if isinstance(value, Integral):
        return value if isinstance(value, int) else int(value)
    return tuple(value) if isinstance(value, list) else value
