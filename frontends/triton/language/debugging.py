"""Printing and assertions, at compile time and on the device."""

from __future__ import annotations

import itertools
import sys
from typing import Any

from tileir.frontends.triton import dtypes, semantic, tensor
from tileir.frontends.triton.building import options_of
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.language.builtin import Builtin, CompileScope, builtin, static
from tileir.frontends.triton.tensor import Tensor, describe
from tileir.types import tile


@builtin
def static_assert(s: CompileScope, cond: Any, msg: Any = "") -> None:
    """Raise a compile-time error unless `cond`, a constexpr, is true."""
    if not static(cond, "the condition of static_assert"):
        raise KernelError(f"static_assert: {msg}" if msg else "static_assert does not hold")


@builtin
def static_print(s: CompileScope, *values: Any, sep: Any = " ", end: Any = "\n", **_: Any) -> None:
    """Print at compile time."""
    shown = [describe(v) if isinstance(v, Tensor) else str(v) for v in values]
    sys.stdout.write(sep.join(shown) + end)


@builtin
def device_print(s: CompileScope, prefix: Any = "", *args: Any, hex: Any = False) -> None:
    """Print tensors with the program ids, on the device, unsigned integers as such."""
    text, shown = str(static(prefix, "prefix")), bool(static(hex, "hex"))
    values = [tensor.of(s.b, x) for x in args]
    alike = itertools.groupby(values, lambda x: not x.dtype.is_ptr() and x.dtype.is_int_unsigned())
    groups = [(unsigned, [x.expr for x in group]) for unsigned, group in alike]
    for unsigned, group in groups or [(False, [])]:
        s.b.print(group, prefix=text, hex=shown, unsigned=unsigned)


@builtin
def print_(s: CompileScope, *args: Any, sep: Any = " ", end: Any = "\n", file: Any = None,
    flush: Any = False, hex: Any = False) -> None:  # fmt: skip
    """Python's `print` in a kernel: `device_print` of compile-time texts and numbers, and of
    tensors, whenever the kernel runs."""
    texts: list[str] = []
    values: list[Tensor] = []
    for value in args:
        if isinstance(value, Tensor):
            values.append(value)
        elif isinstance(value, (bool, int, float)) and values:
            values.append(tensor.of(s.b, value))
        else:
            texts.append(str(value))
    device_print.apply(s, str(static(sep, "sep")).join(texts), *values, hex=hex)


@builtin
def device_assert(s: CompileScope, cond: Any, msg: Any = "", mask: Any = None) -> None:
    """Stop with `msg` unless `cond` is true wherever `mask` is, in kernels in debug mode: launched
    with `debug = True`, decorated by `jit(debug=True)`, or under `TRITON_DEBUG=1`."""
    if not options_of(s.b).debug:
        return
    holds = semantic.condition(s.b, cond)
    if mask is not None:
        holds = semantic.either(s.b, holds, semantic.invert(s.b, semantic.condition(s.b, mask)))
    s.b.assert_(holds.expr, message=str(static(msg, "msg")))


@builtin
def inline_asm_elementwise(
    s: CompileScope, asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any, pack: Any
) -> Any:
    """PTX applied to every element, `pack` of them at a time."""
    several = isinstance(dtype, tuple)
    kinds = dtype if several else (dtype,)
    values = semantic.broadcast(*(tensor.of(s.b, x) for x in args)) if args else ()
    shape = values[0].shape if values else ()
    result = s.b.inline_asm(
        [tile(k.element, shape) for k in kinds], [v.expr for v in values],
        text=static(asm, "asm"), constraints=static(constraints, "constraints"),
        pure=bool(static(is_pure, "is_pure")), pack=static(pack, "pack"),
    )  # fmt: skip
    results = result if isinstance(result, tuple) else (result,)
    tensors = tuple(Tensor(x, k) for x, k in zip(results, kinds, strict=True))
    return tensors if several else tensors[0]


@builtin
def clock(s: CompileScope) -> Tensor:
    """The cycle counter of the multiprocessor; int64."""
    return Tensor(s.b.clock(), dtypes.int64)


@builtin
def globaltimer(s: CompileScope) -> Tensor:
    """Nanoseconds of the GPU's timer; int64."""
    return Tensor(s.b.globaltimer(), dtypes.int64)


def refused_function(name: str, why: str) -> Any:
    """A function of the language that raises an error, with the reason."""

    def apply(s: CompileScope, *_: Any, **__: Any) -> None:
        raise KernelError(f"tl.{name}: {why}")

    return Builtin(name, apply)
