"""TIR09xx: commands."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0901": (
        "unknown error code",
        "There is no such error code. `tileir explain` without an argument lists all codes.",
    ),
    "TIR0902": (
        "no inputs for the kernel",
        "`tileir run` takes the arguments of a kernel from the metadata of the module: "
        'one `run.NAME` per parameter, such as `run.x = "f32[583, 931] normal"` for a '
        'buffer or `run.n = "931"` for a number. `run.kernel` names the kernel if there '
        "are several.",
    ),
    "TIR0903": (
        "metadata of a run is malformed",
        'A `run.`, `expect.` or `within.` entry is malformed. A buffer is `"TYPE[SHAPE] '
        "FILL\"` with the pointer's element type; FILL is normal, uniform, zeros, ones, "
        'arange, integers(LOW, HIGH) or empty. An expectation is `"reference(argument, '
        '...)"` with a known reference. A grid is one to three positive integers.',
    ),
    "TIR0904": (
        "file cannot be read",
        "The file does not exist, cannot be read, or is not UTF-8 text.",
    ),
    "TIR0905": (
        "file cannot be written",
        "The folder cannot be created, or the file cannot be replaced.",
    ),
    "TIR0906": (
        "an optional package is missing",
        "Compiling needs llvmlite. Install `'tileir[cu12]'` or `'tileir[cu13]'`, for the CUDA "
        "version of the driver. `'tileir[backend]'` compiles, but cannot run on a GPU.",
    ),
    "TIR0907": (
        "no GPU",
        "`--on gpu` needs an NVIDIA GPU with its driver and the CUDA bindings. Without "
        "`--on`, the command uses the CPU if there is no GPU.",
    ),
    "TIR0908": (
        "counts need the SIMT simulator",
        "`tileir run --report` prints the memory accesses of every line. Only the SIMT "
        "simulator counts this: use `--on simt --report`.",
    ),
    "TIR0910": (
        "no criterion for a module",
        "`tileir reduce` needs a command that exits with 0 on the given module, or a "
        "crash reproducer whose pipeline still fails as recorded. `tileir-opt bisect` "
        "compares results; without `run.` metadata it needs `--command`.",
    ),
    "TIR0912": (
        "no such value to draw",
        "`tileir view --value %x` draws ops that define or read the value %x. Names are "
        "those of the drawn module, which `tileir-opt` prints.",
    ),
    "TIR0913": (
        "program instance cannot be drawn",
        "`tileir view access` and `banks` run one program instance on the inputs of the "
        "metadata. `--program I,J` must be in the grid, and the instance must not access "
        "memory out of bounds.",
    ),
    "TIR0915": (
        "file that cannot be tuned",
        "`tileir tune FILE` takes a `.tir` file, a program in Triton-C (`.c`), or a "
        "Python file with a kernel of Triton or a `Problem`, `FILE.py:NAME`. `--space` "
        "takes factory, compiler and mapl19; `--try NAME=32,64` states the choices of a "
        "parameter.",
    ),
}
