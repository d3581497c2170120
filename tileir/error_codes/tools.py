"""TIR09xx: commands."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0901": (
        "unknown error code",
        "`tileir explain` knows the codes that `tileir explain` without an argument lists.",
    ),
    "TIR0902": (
        "nothing says how to run the kernel",
        "`tileir run` takes a kernel's arguments from the module's metadata: one `run.NAME` per "
        'parameter, e.g. `run.x = "f32[583, 931] normal"` for a buffer or `run.n = "931"` '
        "for a number; `run.kernel` names the kernel where there are several.",
    ),
    "TIR0903": (
        "metadata of a run makes no sense",
        "A `run.`, `expect.` or `within.` entry is not of its form: a buffer is "
        '`"TYPE[SHAPE] FILL"` with the pointer\'s element type and the fill normal, uniform, '
        "zeros, ones, arange, integers(LOW, HIGH) or nothing; an expectation is "
        '`"reference(argument, ...)"` with a known reference; a grid is one to three positive '
        "integers.",
    ),
    "TIR0904": (
        "file cannot be read",
        "The file is missing, may not be read, or is no UTF-8 text.",
    ),
    "TIR0905": (
        "file cannot be written",
        "The folder cannot be made or the file cannot be replaced.",
    ),
    "TIR0906": (
        "an optional package is missing",
        "Compiling needs llvmlite: `pip install 'tileir[cu12]'` or `'tileir[cu13]'`, by the "
        "driver's CUDA version; `'tileir[backend]'` compiles without running.",
    ),
    "TIR0907": (
        "no GPU",
        "`--on gpu` needs an NVIDIA GPU with its driver and the CUDA bindings. Leave `--on` out "
        "to run on the CPU where there is none.",
    ),
    "TIR0908": (
        "only threads on the CPU are counted",
        "`tileir run --report` tells what every line does to memory, which the machine of threads "
        "counts: `--on simt --report`.",
    ),
    "TIR0910": (
        "nothing to judge a module by",
        "`tileir reduce` needs a predicate that holds on the module given: a command that exits "
        "with 0 on it, or, for a crash reproducer, a pipeline that still fails on it as recorded. "
        "`tileir-opt bisect` compares results unless --command names one that can be run.",
    ),
    "TIR0912": (
        "no such value to draw",
        "`tileir view --value %x` shows ops that define or read a value of that name; names are "
        "those of the module as it is when it is drawn, which `tileir-opt` prints.",
    ),
    "TIR0913": (
        "the program instance to draw cannot be run",
        "`tileir view access` and `banks` run one program instance on the inputs that metadata "
        "describe: `--program I,J` must be in the grid, and the instance must keep within its "
        "buffers.",
    ),
    "TIR0915": (
        "what `tileir tune` tunes",
        "`tileir tune FILE` takes a `.tir` file, a program in Triton-C (`.c`) or a file of Python "
        "with a kernel of Triton's or a `Problem`, `FILE.py:NAME`; `--space` is made of factory, "
        "compiler and mapl19; `--try NAME=32,64` gives choices of a parameter.",
    ),
}
