"""A compiled kernel as HTML, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from tileir.errors import CompileError, Diagnostic
from tileir.textual.html import STYLE, ptx_html, text_html

if TYPE_CHECKING:
    from tileir.backend.compiled_kernel import CompiledKernel


def kernel_html(compiled: CompiledKernel) -> str:
    """A compiled kernel as HTML: the resources of a thread and of a block, remarks, the program and
    its PTX.

    Registers and spills are those of the machine code, which is assembled on demand; an error of
    the assembler is shown in their place.
    """
    plan = compiled.plan
    rows = {
        "target": plan.target,
        "warps": str(plan.num_warps),
        "shared memory": f"{plan.shared} bytes per block",
        **_of_thread(compiled),
    }
    table = "".join(f"<tr><td>{k}</td><td>{escape(v)}</td></tr>" for k, v in rows.items())
    remarks = "".join(f"<li>{escape(_line(remark))}</li>" for remark in compiled.remarks)
    source = compiled.stages.get("input")
    parts = [
        STYLE,
        f'<div class="tileir"><b>@{escape(plan.kernel)}</b><table>{table}</table>',
        _details(f"{len(compiled.remarks)} remarks", f"<ul>{remarks}</ul>"),
        "" if source is None else _details("program", text_html(str(source))),
        _details(f"PTX, {len(compiled.ptx.splitlines())} lines", ptx_html(compiled.ptx)),
        "</div>",
    ]
    return "".join(parts)


def _of_thread(compiled: CompiledKernel) -> dict[str, str]:
    try:
        code = compiled.machine_code
    except CompileError as error:
        return {"registers": str(error.diagnostics[0].message)}
    return {
        "registers": f"{code.registers} per thread",
        "spills": f"{code.spills} bytes per thread",
        "stack": f"{code.stack} bytes per thread",
    }


def _line(remark: Diagnostic) -> str:
    place = f"{remark.location}: " if remark.location else ""
    return f"{place}{remark.message} [{remark.code}]"


def _details(title: str, inside: str) -> str:
    return f"<details><summary>{title}</summary>{inside}</details>"
