"""Source files as functions that build modules, which can be sent to other processes."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from tileir.errors import Diagnostic, Location, TileirError, ToolError
from tileir.ir import Module
from tileir.tools.files import SOURCES, read_text
from tileir.tools.tuning.directives import directives, known_numbers, resolve_extents


@attrs.frozen
class TunableSource:
    """A file that builds modules: `make(**choices)`. `tunables` are the choices that it declares,
    `words` its directives with resolved extents, and `content` identifies it."""

    name: str
    make: Callable[..., Module]
    tunables: Mapping[str, tuple[Any, ...]]
    words: Mapping[str, str]
    content: tuple[str, ...]
    listed: tuple[Mapping[str, Any], ...] = ()
    """Points, where the file names them one by one."""

    def module(self, **choices: Any) -> Module:
        """The module for `choices`, with the directives as metadata. Tunables that are missing have
        their first choice."""
        first = {name: values[0] for name, values in self.tunables.items()}
        result = self.make(**{**first, **choices})
        words = {k: v for k, v in self.words.items() if not k.startswith(("within.", "tune."))}
        return result.evolve(metadata={**result.metadata, **words, **self._errors()})

    def _errors(self) -> dict[str, float]:
        result = {k: v for k, v in self.words.items() if k.startswith("within.")}
        try:
            return {k: float(v) for k, v in result.items()}
        except ValueError as error:
            raise ToolError(Diagnostic("TIR0903", f"an error allowed: {error}")) from None


def source(path: str, kernel: str | None, overrides: list[str]) -> TunableSource:
    """The file `path`: `.tir`, Triton-C (`.c`), or Triton's Python, `FILE.py:KERNEL`.

    Raises `ToolError`, and the errors of reading the file.
    """
    file, _, name = path.partition(":")
    ending = Path(file).suffix
    if ending == ".py":
        return _python(file, name or kernel, overrides)
    if name:
        raise ToolError(Diagnostic("TIR0915", f"only a file of Python has a name in it: {path}"))
    return _triton_c(file, kernel, overrides) if ending == ".c" else _tir(file, kernel, overrides)


# .tir ---------------------------------------------------------------------------------------


@attrs.frozen
class _Tir:
    text: str
    file: str

    def __call__(self, **choices: Any) -> Module:
        for name in choices:
            message = f"{self.file} has no parameter {name!r} to choose: a .tir file is one program"
            raise ToolError(Diagnostic("TIR0915", message))
        return _parse(self.text, self.file)


@cache
def _parse(text: str, file: str) -> Module:
    from tileir.textual import parse

    module = parse(text, file)
    if any(function.is_declaration for function in module.functions.values()):
        from tileir.linker import link

        return link(module)
    return module


def _tir(file: str, kernel: str | None, overrides: list[str]) -> TunableSource:
    text = read_text(file)
    module = _parse(text, file)
    written = {k: _word(v) for k, v in module.metadata.items() if k.partition(".")[2]}
    words = resolve_extents({**written, **directives(text, overrides)})
    name = kernel or words.get("run.kernel") or "kernel"
    return TunableSource(name, _Tir(text, file), {}, words, (text,))


def _word(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


# Triton-C -----------------------------------------------------------------------------------


@attrs.frozen
class _TritonC:
    text: str
    file: str
    kernel: str | None
    constants: tuple[tuple[str, int], ...]

    def __call__(self, **tunables: int) -> Module:
        program = _program(self.text, self.file)
        return program.module(self.kernel, dict(self.constants), **tunables)


@cache
def _program(text: str, file: str) -> Any:
    from tileir.frontends.triton_c import parse

    return parse(text, file)


def _triton_c(file: str, kernel: str | None, overrides: list[str]) -> TunableSource:
    text = read_text(file)
    words = resolve_extents(directives(text, overrides))
    program = _program(text, file)
    name = program.kernel(kernel).name
    make = _TritonC(text, file, name, tuple(known_numbers(words).items()))
    return TunableSource(name, make, program.tunables, words, (text, name))


# Triton's Python ----------------------------------------------------------------------------


@attrs.frozen
class _Triton:
    path: str
    name: str
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any], ...]

    def __call__(self, **choices: Any) -> Module:
        kernel = kernel_in(self.path, self.name)
        return kernel.module(dict(self.signature), {**dict(self.constants), **choices})


@cache
def load_module(path: str) -> ModuleType:
    """Import the file as a Python module, which runs it. Raises `ToolError` (TIR0904, TIR0915)."""
    name = f"tileir_tuned_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, Path(path).resolve())
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise ToolError(Diagnostic("TIR0904", f"cannot read {path}"))
    SOURCES[str(Path(path).resolve())] = read_text(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except TileirError:
        raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        raise ToolError(Diagnostic("TIR0915", message, _place(error, path))) from error
    return module


def _place(error: Exception, path: str) -> Location:
    """The line of the file `path` that raised `error`, or that is not valid Python."""
    file = str(Path(path).resolve())
    if isinstance(error, SyntaxError) and str(error.filename) == file:
        return Location(path, error.lineno or 1, error.offset or 1)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno or 1 for frame in frames if frame.filename == file]
    return Location(path, lines[-1] if lines else 1, 1)


def found_in(path: str, name: str | None) -> Any:
    """The object `name` of the file, or the only object in it that can be tuned. Raises `ToolError`
    (TIR0915)."""
    names = vars(load_module(path))
    if name is None:
        fitting = [n for n, v in names.items() if _is_tunable(v) and not n.startswith("_")]
        if len(fitting) != 1:
            message = f"{path} has {len(fitting)} kernels and problems; name one: {path}:NAME"
            raise ToolError(Diagnostic("TIR0915", message))
        (name,) = fitting
    if not _is_tunable(names.get(name)):
        raise ToolError(Diagnostic("TIR0915", f"{path} has no kernel or problem {name}"))
    return names[name]


def _is_tunable(value: Any) -> bool:
    from tileir.backend.tuning import Problem

    return isinstance(value, Problem) or (hasattr(value, "source") and hasattr(value, "run"))


def kernel_in(path: str, name: str) -> Any:
    """The kernel without the decorators that tune it."""
    kernel = found_in(path, name)
    while hasattr(kernel, "kernel"):
        kernel = kernel.kernel
    return kernel


def _python(file: str, name: str | None, overrides: list[str]) -> TunableSource:
    result = found_in(file, name)
    name = str(result.__name__)
    inner = kernel_in(file, name)
    text = read_text(file)
    words = resolve_extents(directives(text, overrides))
    constant = inner.source.constant_parameters
    values = {k: v for k, v in known_numbers(words).items() if k in constant}
    signature = {n: _argument_type(words, n) for n in inner.arg_names if n not in constant}
    make = _Triton(str(Path(file).resolve()), name, tuple(signature.items()), tuple(values.items()))
    listed = tuple(_point(c) for c in getattr(result, "configs", ()))
    tunables = {k: tuple(dict.fromkeys(p[k] for p in listed)) for k in (listed or ({},))[0]}
    runs = {k: v for k, v in words.items() if k.removeprefix("run.") not in values}
    return TunableSource(name, make, tunables, runs, (text, name), listed)


def _point(config: Any) -> dict[str, Any]:
    """A configuration of Triton with the compiler's options under the names that tileir uses."""
    names = {"num_warps": config.num_warps, "num_stages": config.num_stages,
             "max_registers": config.maxnreg}  # fmt: skip
    return {**config.kwargs, **{k: v for k, v in names.items() if v is not None}}


_TRITON = {
    "f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", "f8e4m3": "fp8e4nv",
    "f8e5m2": "fp8e5", "i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
}  # fmt: skip


def _argument_type(words: Mapping[str, str], name: str) -> str:
    """The type of an argument in Triton's syntax, with the known properties of its value."""
    text = words.get(f"run.{name}")
    if text is None:
        message = f"{name} has no value: state it as run.{name} = f16[64, 64] normal, or a number"
        raise ToolError(Diagnostic("TIR0902", message))
    element, bracket, _ = text.partition("[")
    if bracket:
        return f"*{_TRITON.get(element, element)}:16"
    try:
        number = int(text)
    except ValueError:
        return "fp32"
    return "i32:16" if number % 16 == 0 else "i32"
