"""Modules to text: the canonical form, the fixpoint of printing and reading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileir.ir import Global, Module, usual_space
from tileir.textual.attributes import (
    format_comments,
    format_settings,
    format_string,
    format_symbol,
    format_value,
)
from tileir.types import Buffer, Descriptor, Tile, Type


def print_module(module: Module, version: tuple[int, int] | None = None) -> str:
    """The canonical text of `module`, in its own version of the language or in `version`.

    Raises VerifyError: TIR0401 at every op that `version` does not have, or not with an attribute,
    value or type used; TIR0402 for a version that does not exist."""
    if version is not None:
        from tileir.versions import written_for

        module = written_for(module, version)
    layouts = _layout_aliases(module)
    lines = [*format_comments(module.header_comments), f"tir {'.'.join(map(str, module.version))}"]
    if module.stage is not None:
        lines.append(f"stage {format_string(module.stage)}")
    for layout, alias in layouts.items():
        lines.append(f"{alias} = {layout}")
    if module.metadata:
        entries = [f"  {k} = {format_value(v)}" for k, v in module.metadata.items()]
        lines += ["", "metadata {", ",\n".join(entries), "}"]
    if module.globals:
        lines.append("")
        lines += [line for g in module.globals.values() for line in _global(g)]
    if module.functions:
        from tileir.textual.function_printer import function_lines  # a module may have none

        for function in module.functions.values():
            lines += ["", *function_lines(function, layouts)]
    if module.comments:
        lines += ["", *format_comments(module.comments)]
    return "\n".join(lines) + "\n"


def _global(g: Global) -> Iterator[str]:
    yield from format_comments(g.comments)
    words = ["declare"] if g.external else []
    words += format_settings(g.visibility, g.linkage, g.alignment)
    count = f"<{g.count}>" if g.count != 1 else ""
    words.append("constant" if g.constant else "global")
    words += [f"addrspace({int(g.space)})"] if g.space != usual_space(g.constant) else []
    words += [f"{g.element}{count}", format_symbol(g.name)]
    if g.initial is not None:
        from tileir.textual.literals import format_bits

        shown = [format_bits(g.element, c.bits) for c in g.initial]
        words += ["=", shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"]
    yield " ".join(words)


def _layout_aliases(module: Module) -> dict[Any, str]:
    """Each layout in use and its alias, in order of first appearance."""
    layout_aliases: dict[Any, str] = {}
    if module.stage is None:
        return layout_aliases
    for type_ in dict.fromkeys(_types(module)):
        tile = type_.block if isinstance(type_, Descriptor) else type_
        tile = tile.tile if isinstance(tile, Buffer) else tile
        if isinstance(tile, Tile) and tile.layout is not None and tile.layout not in layout_aliases:
            layout_aliases[tile.layout] = f"#l{len(layout_aliases)}"
    return layout_aliases


def _types(module: Module) -> Iterator[Type]:
    for function in module.functions.values():
        yield from function.results
        yield from (p.type for p in function.parameters)
        for block in function.blocks.values():
            yield from (v.type for v in block.parameters)
            for op in block.ops:
                yield from (v.type for v in op.results)
                yield from (v.type for v in op.operands)
