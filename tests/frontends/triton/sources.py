"""Kernels whose source is a text."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Mapping
from typing import Any

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl

_NUMBERS = itertools.count()


def kernel_of(source: str, name: str = "k", outside: Mapping[str, Any] | None = None) -> Any:
    """The kernel `name` of `source`, which has the globals `outside`, too. Raises SyntaxError where
    it is no Python."""
    file = f"<kernel {next(_NUMBERS)}>"
    code = compile(source, file, "exec")
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    names: dict[str, Any] = {"tl": tl, "triton": triton, **(outside or {})}
    exec(code, names)
    return triton.jit(names[name])
