"""Compiled kernels as bytes: equal bytes for equal input, on every machine.

    data = dumps(compiled)
    loads(data).cubin

Format 2: the line `tileir-kernel 2`, the SHA-256 of what follows in hex and a newline, a line of
JSON with sorted keys, and the sections that its `sections` names with their sizes, end to end:
`cubin`, `ptx`, `llvm`, `library`s, a `stage/NAME` for each module, as text, and, where
the kernel has a host plan, `fallback`, the kernel without one. Format 1, which is read as well,
has `optimized` besides.
Nothing in it is run or unpickled by reading it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from tileir.backend.assembler import Assembled
from tileir.backend.compile import compile as compile_module
from tileir.backend.compiled_kernel import STAGES, CompiledKernel
from tileir.backend.metadata import Metadata
from tileir.backend.options import Options
from tileir.backend.runtime.version import compiler_version
from tileir.errors import CompileError, Diagnostic, Location, Severity
from tileir.ir import Module
from tileir.textual import parse, print_module

FORMAT = 2
_READ = 1, FORMAT
_MAGIC = b"tileir-kernel "
_LONGEST = 500
"""Characters of a message."""


@attrs.frozen(eq=False, slots=False)
class Texts(Mapping[str, Module]):
    """Modules by stage, each parsed from its text on request; those without a text are regenerated
    by `rerun`, if present."""

    texts: Mapping[str, str]
    rerun: Callable[[], Mapping[str, Module]] | None = None
    _read: dict[str, Module] = attrs.field(factory=dict[str, Module], init=False)

    def __getitem__(self, stage: str) -> Module:
        if stage not in self._read:
            if stage in self.texts:
                self._read[stage] = parse(self.texts[stage], f"<{stage}>", verify=False)
            elif self.rerun is not None and stage in STAGES:
                self._read.update(self.rerun())
        return self._read[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts if self.rerun is None else STAGES)

    def __len__(self) -> int:
        return len(self.texts if self.rerun is None else STAGES)


def dumps(compiled: CompiledKernel, stages: Sequence[str] = STAGES) -> bytes:
    """`compiled` as bytes, with its machine code and the text of `stages`.

    Raises `CompileError` where it cannot be assembled."""
    machine_code = compiled.machine_code
    texts = {name: _text(compiled, name) for name in stages if name in compiled.stages}
    sections = [
        ("cubin", machine_code.cubin),
        ("ptx", compiled.ptx.encode()), ("llvm", compiled.llvm.encode()),
        *(("library", text.encode()) for text in compiled.libraries),
        *((f"stage/{name}", text.encode()) for name, text in texts.items()),
        *([("fallback", dumps(compiled.fallback, ()))] if compiled.fallback else ()),
    ]  # fmt: skip
    header = {
        "compiler": compiler_version(),
        "metadata": compiled.metadata.to_json(),
        "shared": machine_code.shared,
        "notes": [_note(n) for n in compiled.notes],
        "remarks": [_note(n) for n in compiled.remarks] if "layouts" in texts else None,
        "limited": compiled.limited,
        "options": {k: v for k, v in compiled.options.to_json().items() if k != "libraries"},
        "sections": [[name, len(data)] for name, data in sections],
    }
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    body = b"".join((text, b"\n", *(data for _, data in sections)))
    digest = hashlib.sha256(body).hexdigest().encode()
    return b"".join((_MAGIC, str(FORMAT).encode(), b"\n", digest, b"\n", body))


def loads(data: bytes) -> CompiledKernel:
    """The compiled kernel in `data`. Raises `CompileError` (TIR0715) for anything else, truncated
    or modified."""
    if not isinstance(data, bytes):
        raise _format_error(f"it is {type(data).__name__}, and bytes are needed")
    body = _check_digest(data)
    try:
        line, _, sections = body.partition(b"\n")
        header: dict[str, Any] = json.loads(line)
        return _read_kernel(header, _cut(sections, header["sections"]))
    except Exception as error:  # a header may contain anything, nested to any depth
        raise _format_error(f"its header is wrong: {error!r}"[:_LONGEST]) from error


def _check_digest(data: bytes) -> bytes:
    magic, _, content = data.partition(b"\n")
    if not magic.startswith(_MAGIC):
        raise _format_error(f"it does not begin with {_MAGIC.decode()!r}")
    if magic not in [_MAGIC + str(number).encode() for number in _READ]:
        raise _format_error(f"its format is {magic[len(_MAGIC) :]!r}, and {FORMAT} is read")
    digest, _, body = content.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise _format_error("its checksum is wrong: it was cut short or changed")
    return body


def _cut(data: bytes, sizes: Sequence[tuple[str, int]]) -> list[tuple[str, bytes]]:
    sections: list[tuple[str, bytes]] = []
    start = 0
    for name, size in sizes:
        if not isinstance(name, str) or type(size) is not int or size < 0:
            raise TypeError(f"a section is a name and a size, not {name!r} and {size!r}")
        sections.append((name, data[start : start + size]))
        start += size
    if start != len(data):
        raise ValueError(f"its sections are {start} bytes, and {len(data)} follow")
    return sections


def _read_kernel(
    header: Mapping[str, Any], sections: Sequence[tuple[str, bytes]]
) -> CompiledKernel:
    by_name = dict(sections)
    plan = Metadata.from_json(header["metadata"])
    machine_code = Assembled(
        by_name["cubin"], plan.registers or 0, plan.spills or 0, header["shared"], plan.stack or 0
    )
    stages = {
        name.removeprefix("stage/"): data.decode()
        for name, data in sections if name.startswith("stage/")
    }  # fmt: skip
    libraries = tuple(data.decode() for name, data in sections if name == "library")
    options = Options.of({**header["options"], "libraries": libraries})
    llvm, ptx = (by_name[name].decode() for name in ("llvm", "ptx"))
    return CompiledKernel(
        Texts(stages), llvm, ptx,
        attrs.evolve(plan, registers=None, spills=None, stack=None), libraries,
        _read_notes(header["notes"]), header["limited"], options, machine_code,
        None if header["remarks"] is None else _read_notes(header["remarks"]),
        loads(by_name["fallback"]) if "fallback" in by_name else None, recompile=compile_module,
    )  # fmt: skip


def _text(compiled: CompiledKernel, stage: str) -> str:
    stages = compiled.stages
    if isinstance(stages, Texts) and stage in stages.texts:
        return stages.texts[stage]
    return print_module(stages[stage])


def _note(diagnostic: Diagnostic) -> dict[str, Any]:
    notes = [_note(note) for note in diagnostic.notes]
    return {**attrs.asdict(diagnostic), "severity": diagnostic.severity.value, "notes": notes}


def _read_notes(entries: Sequence[Mapping[str, Any]]) -> tuple[Diagnostic, ...]:
    return tuple(_read_note(n) for n in entries)


def _read_note(fields: Mapping[str, Any]) -> Diagnostic:
    place = fields["location"]
    converted: dict[str, Any] = {
        "severity": Severity(fields["severity"]), "notes": _read_notes(fields["notes"]),
        "location": None if place is None else Location(**place),
    }  # fmt: skip
    return Diagnostic(**{**fields, **converted})


def _format_error(why: str) -> CompileError:
    return CompileError(Diagnostic("TIR0715", f"this is no compiled kernel: {why}"))
