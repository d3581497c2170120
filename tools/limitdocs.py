"""Write `docs/reference/limits.md`: `python -m tileir.tools.limitdocs [PATH]`.

The tables are derived from the code that checks the limits. A test checks that the page is up to
date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tileir import calls, errors
from tileir.backend.target import TARGETS
from tileir.interp import launch
from tileir.limits import ABOUT, Limits
from tileir.passes import fold
from tileir.textual import types

_HEAD = """# Limits

Made by `python -m tileir.tools.limitdocs docs/reference/limits.md`; do not edit.

A program may come from an untrusted source. A program that would exhaust memory or time is
rejected. The error is located at the op or global that requests the resource. It names the limit
and a remedy. Its code is `TIR1601`, or `TIR0708` for a limit of the target.

## Limits that can be changed

| limit | default | bounds | checked by | remedy |
| --- | --- | --- | --- | --- |"""

_CHANGED = """
Change a limit

- for all calls in a block: `with tileir.limits.limits(tile_elements=1 << 24): ...`;
- for one compilation: `compile(module, options={"limits": {"operations": 1 << 18}})`;
- for a command: `tileir run --limit operations=262144 FILE`, and the same for `tileir aot` and
  `tileir-opt`.

An unknown name, or a value that is not a non-negative integer, is an error (`TIR1602`).

## Limits of targets

| target | bytes of parameters | bytes of constants | threads per block | registers per thread |
| --- | --- | --- | --- | --- |"""

_FIXED = """
## Fixed limits

| quantity | limit | beyond the limit |
| --- | --- | --- |"""

_READING = """
## Time to read a text

The time to read a text is proportional to its length. The times are seconds of CPU time of one
core per MiB (1,048,576 characters), the best of three runs on a busy machine. The slowest texts are
the densest: of `.tir` 31 kinds, of TTIR 15, of each other row 3 to 6.

| text, up to the verified module | usual | slowest | the slowest texts |
| --- | --- | --- | --- |
| `.tir` | 0.3 to 0.5 | 1.1 | a block for each branch |
| TTIR | 0.5 to 0.9 | 6.6 | empty loops: each becomes three blocks |
| Triton's Python | 4.0 | 9.7 | `n+n`: an expression is evaluated |
| Decoupled Triton, Tile, Tensor Comprehensions | 3.6 to 5.8 | 7.5 | long expressions: tokens |
| Triton-C | 7.1 to 16 | 25 | empty conditionals: tokens, blocks |

[Decision 17](../decisions/0017-time-to-read-a-text.md) states the costs of each part. A program in
the languages of the last two rows has at most `source_characters` characters, which bounds the
time. `evaluations` bounds how often parts of a kernel in Triton's Python are unrolled and inlined.
"""

_ISOLATION = """
## Isolated compilation

A defect of LLVM or of the assembler may end the process that calls it, or may let it run for hours.
With `isolate`, LLVM and the assembler run in a child process. The child process starts at the first
compilation, which takes about 0.3 s, and serves later compilations too:

- `tileir.backend.compile(module, isolate=True)`, `Cache(store, isolate=True)`,
  `cache.compile(..., isolate=True)`, and `isolate=True` for a launch on the executors `gpu` and
  `cpu`;
- `with tileir.process.default_isolation(): ...`, or the variable `TILEIR_ISOLATE=1`, for
  every call without `isolate=`;
- the commands isolate unless `--no-isolate` is given. The tuner always compiles in child processes.
  A candidate whose process ends counts as failed (`TIR1105`).

If the child process ends, the error is `DefectError` (`TIR0720`) with the kernel, the stage and the
text that LLVM wrote. The next compilation starts another child process. A compilation that takes
longer than the limit `seconds` is stopped (`TIR1601`). The generated code is the same with and
without `isolate`. The stages before code generation are Python code, and run in the calling
process.
"""


def main() -> int:
    """Write the page to the path on the command line, or to standard output."""
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(page())
    else:
        sys.stdout.write(page())
    return 0


def page() -> str:
    """The whole page as Markdown."""
    usual = Limits()
    lines = [_HEAD]
    for name, about in ABOUT.items():
        value = getattr(usual, name)
        default = f"{value:,}" if value else "the target's"
        lines.append(_row(f"`{name}`", default, about.bounds, about.checked, about.remedy))
    lines.append(_CHANGED)
    lines += [
        _row(
            f"`{t.name}`", f"{t.parameter_bytes:,}", f"{t.constant_bytes:,}",
            f"{t.max_threads:,}", f"{t.max_registers}",
        )
        for t in TARGETS.values()
    ]  # fmt: skip
    lines.append(_FIXED)
    lines += [_row(*row) for row in _fixed_limits()]
    return "\n".join((*lines, _READING + _ISOLATION))


def _fixed_limits() -> tuple[tuple[str, str, str], ...]:
    return (
        ("errors of one text or module", f"{errors.MAX_ERRORS}", "the other errors are left out"),
        ("characters of a message", f"{errors.MAX_MESSAGE:,}", "its middle is left out"),
        ("levels of pointers, dimensions of a tile", f"{types.MAX_DEPTH}", "`TIR0017`"),
        ("digits of an integer literal", "20", "the number does not fit its type"),
        ("nested calls", f"{calls.MAX_CALL_DEPTH}", "`TIR0513`"),
        ("races that are reported", f"{launch.MAX_RACES}", "the other races are left out"),
        ("elements that `fold` evaluates at once", f"{fold.MAX_ELEMENTS:,}", "the op stays"),
    )


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
