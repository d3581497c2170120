"""Locations of instructions as debug metadata of LLVM IR: line numbers only, so that the code does
not change (LLVM Language Reference, "DICompileUnit": `DebugDirectivesOnly`).

In PTX they are `.file` and `.loc`, from which the assembler makes the line table for profilers and
sanitizers (PTX ISA, "Debugging Directives").
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from tileir.errors import Location

_NODES_PER_KERNEL = 1_000_000
"""The number of metadata nodes that are reserved for a kernel."""

_NOWHERE = Location("<unknown>", 0, 0)


@attrs.define(eq=False)
class LineTable:
    """The source locations of kernel number `index` of a module."""

    index: int
    nodes: list[str] = attrs.field(init=False, factory=list)
    _numbers: dict[str, int] = attrs.field(init=False, factory=dict)
    _scope: int = attrs.field(init=False, default=0)
    _function_location: Location = attrs.field(init=False, default=_NOWHERE)

    @property
    def unit(self) -> int:
        """The number of the kernel's compile unit."""
        return self._node(
            f"distinct !DICompileUnit(language: DW_LANG_C, file: !{self._file(_NOWHERE.file)}, "
            'producer: "tileir", isOptimized: true, runtimeVersion: 0, '
            "emissionKind: DebugDirectivesOnly)"
        )

    def enter(self, name: str, location: Location | None) -> str:
        """The text after the header of function `name`. The locations that follow belong to that
        function."""
        self._function_location = location or _NOWHERE
        kind = self._node("!DISubroutineType(types: null)")
        file = self._file(self._function_location.file)
        self._scope = self._node(
            f'distinct !DISubprogram(name: "{_metadata_string(name)}", '
            f"scope: !{file}, file: !{file}, "
            f"line: {self._function_location.line}, type: !{kind}, spFlags: DISPFlagDefinition | "
            f"DISPFlagOptimized, unit: !{self.unit})"
        )
        return f" !dbg !{self._scope}"

    def place(self, location: Location | None) -> str:
        """The text after an instruction from `location`; without one, the location of the function
        is used."""
        at, scope = location or self._function_location, self._scope
        if at.file != self._function_location.file:
            scope = self._node(
                f"!DILexicalBlockFile(scope: !{scope}, file: !{self._file(at.file)}, "
                "discriminator: 0)"
            )
        column = min(at.column, 65535)
        number = self._node(f"!DILocation(line: {at.line}, column: {column}, scope: !{scope})")
        return f", !dbg !{number}"

    def _file(self, file: str) -> int:
        path = Path(file)
        folder = path.parent.resolve() if path.is_file() else ""
        name = path.name if folder else file
        directory = _metadata_string(folder)
        return self._node(
            f'!DIFile(filename: "{_metadata_string(name)}", directory: "{directory}")'
        )

    def _node(self, text: str) -> int:
        """The number of a node, the same for the same text."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = 1 + _NODES_PER_KERNEL * self.index + len(self.nodes)
            self.nodes.append(f"!{number} = {text}")
        return number


def merge_line_tables(tables: Sequence[LineTable]) -> list[str]:
    """The metadata of a module of kernels that have `tables`."""
    if not tables:
        return []
    units = ", ".join(f"!{table.unit}" for table in tables)
    return [
        f"!llvm.dbg.cu = !{{{units}}}",
        "!llvm.module.flags = !{!0}",
        '!0 = !{i32 2, !"Debug Info Version", i32 3}',
        *(node for table in tables for node in table.nodes),
    ]


def _metadata_string(text: object) -> str:
    """`text` as a string of LLVM IR that is valid in PTX, which has no escapes."""
    raw = str(text).translate(str.maketrans('"\\\n', "'/ ")).encode(errors="surrogateescape")
    return "".join(chr(b) if 32 <= b < 127 else f"\\{b:02X}" for b in raw)
