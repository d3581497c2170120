"""What can be asked of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from numbers import Integral
from typing import Any, cast

import attrs

from tileir.errors import CompileError, Diagnostic
from tileir.limits import Limits


def _limits(spec: Any) -> tuple[tuple[str, int], ...]:
    """Limits as pairs in order, from a mapping, pairs or words `name=value`. Raises `CompileError`
    (TIR1602)."""
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
    """`name=value`, or a name and a value."""
    if isinstance(item, str):
        item = item.partition("=")[::2]
    name, value = item
    return name, int(value) if isinstance(value, str) else value


@attrs.frozen
class Options:
    """`num_warps`: warps per block, None to choose from the tiles. `opt_level`: LLVM's level, 0
    to 3. `num_stages`: stages of the buffers of a pipelined loop that does not say itself, 1 for no
    pipelining, None to choose. `prefetch_operands`: fragments of a dot are read a step of K ahead.
    `max_registers`: the most a thread may use, so that more blocks run side by side. Where both are
    None they are chosen: a limit under which another block fits, as long as nothing is spilled,
    else fragments ahead and no limit. `stage_halo`: overlapping windows of one buffer are staged in
    shared memory once.
    `warp_specialize`: on targets that have tensor maps and `wgmma`, producer warps load for the
    dots, where the program allows it (True, and None unless its attribute `warp_specialize` is
    false); `num_warps` then counts the consumer warps, `num_stages` the stages of the ring between
    them.
    `persistent`: a block of such a kernel works for many program instances (True, and None unless
    its attribute `persistent` is false). `pingpong`: two warpgroups alternate instances, one writes
    its result while the other multiplies; None for what its attribute `pingpong` says.
    `ordered_softmax`: warpgroups with chained matmuls, as in attention, issue them in alternation
    (None and True).
    `non_tma_alignments`: by parameter of such a kernel, descriptors taken apart, the bytes that
    rows of tensors there are multiples of where they are not for tensor maps, else 0: threads load
    and store those. The launcher sets it from the arguments of a launch.
    `split_k`: blocks of a cluster that share K of such a kernel's dots, where its loop does nothing
    but accumulate; 1 for none, None for what its attribute `split_k` says, 0 for what the launcher
    expects to be quickest, which knows the sizes.
    `multicast`: blocks of a cluster that work for neighbouring instances of such a kernel, where
    blocks work for many, and load for each other what all need; 1 for none, None for what its
    attribute `multicast` says.
    `wait_timeout`: a wait for a barrier in shared memory that takes 1.5 seconds ends the kernel
    with an error, to debug kernels.
    `line_info`: the machine code says which line of the program each instruction comes from, for
    profilers and sanitizers.
    `limits`: names and values in place of the current ones (`tileir.limits`,
    docs/reference/limits.md).
    `permit`: `inline_asm`, and `extern` for functions of `libraries`, which are texts of PTX."""

    num_warps: int | None = None
    opt_level: int = 3
    num_stages: int | None = None
    prefetch_operands: bool | None = None
    stage_halo: bool = True
    max_registers: int | None = None
    warp_specialize: bool | None = None
    persistent: bool | None = None
    pingpong: bool | None = None
    ordered_softmax: bool | None = None
    non_tma_alignments: tuple[int, ...] = ()
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
        """Options from a mapping too. Raises `CompileError` (TIR0716) for one that there is not,
        as the constructor does for a value that cannot be."""
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

    def to_json(self) -> dict[str, Any]:
        """As what JSON can hold."""
        return attrs.asdict(self)


def _is_natural(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


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
    "num_warps", "num_stages", "prefetch_operands", "max_registers", "warp_specialize",
    "persistent", "pingpong", "ordered_softmax", "split_k", "multicast",
})  # fmt: skip
"""Options that the compiler chooses where they are None."""

_KINDS: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (("num_warps", "num_stages", "max_registers", "split_k", "multicast"), _is_natural,
     "a whole number from 0 on"),
    (("prefetch_operands", "stage_halo", "warp_specialize", "persistent", "pingpong",
      "ordered_softmax", "wait_timeout", "line_info"),
     _is_truth, "true or false"),
    (("opt_level",), _is_level, "0 to 3"),
    (("non_tma_alignments",), _are_natural, "a tuple of whole numbers"),
    (("permit", "libraries"), _are_strings, "a tuple of strings"),
)  # fmt: skip
"""What values of options are: names, the test, and what it asks for."""


def _mistake(message: str) -> CompileError:
    return CompileError(Diagnostic("TIR0716", message))


def _plain(value: Any) -> Any:
    """A list as a tuple, a number of numpy as Python's: what is hashed, and written as JSON."""
    if isinstance(value, Integral):
        return value if isinstance(value, int) else int(value)
    return tuple(value) if isinstance(value, list) else value
