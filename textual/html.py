"""Text of modules and PTX as HTML with highlighted syntax, for notebooks."""

from __future__ import annotations

import re
from html import escape

from tileir.textual.lexer import NAME, STRING

STYLE = """<style>
.tileir{--c:#59636e;--s:#0a3069;--v:#953800;--f:#8250df;--n:#0550ae;--k:#cf222e;overflow-x:auto}
@media(prefers-color-scheme:dark){.tileir{--c:#9198a1;--s:#a5d6ff;--v:#ffa657;--f:#d2a8ff;
--n:#79c0ff;--k:#ff7b72}}
.tileir .c{color:var(--c)}.tileir .s{color:var(--s)}.tileir .v{color:var(--v)}
.tileir .f{color:var(--f)}.tileir .n{color:var(--n)}.tileir .k{color:var(--k)}
.tileir td{text-align:left;padding:0 1em 0 0}.tileir pre{line-height:1.3}
</style>"""
"""Colours of comments, strings, values, symbols, numbers and keywords, on light and dark pages."""

_TIR = re.compile(
    r"(?P<c>;[^\n]*)"
    rf"|(?P<s>{STRING})"
    rf"|(?P<v>[%#]{NAME})"
    rf"|(?P<f>@{NAME})"
    r"|(?P<n>(?<![\w.$])-?\d[\w.]*)"
    r"|(?P<k>\b(?:tir|stage|metadata|define|declare|global|constant|kernel|private|linkonce|weak|"
    r"external|br|cond_br|ret|phi|psi|call|unreachable)\b)"
)
_PTX = re.compile(
    r"(?P<c>//[^\n]*|/\*.*?\*/)"
    rf"|(?P<s>{STRING})"
    r"|(?P<v>%[\w.$]+)"
    r"|(?P<n>(?<![\w.$])-?(?:0[fdxFDX])?\d[0-9a-fA-F]*\b)"
    r"|(?P<k>(?<![\w.])\.(?:version|target|address_size|visible|entry|func|param|reg|shared|global|"
    r"align|extern|reqntid|maxntid|maxnreg|minnctapersm|loc|file|section)\b)",
    re.DOTALL,
)


def text_html(text: str) -> str:
    """`text`, the text of a module, a function or an op, as an element of HTML."""
    return element(_spans(text, _TIR))


def ptx_html(text: str) -> str:
    """`text`, which is PTX, as an element of HTML."""
    return element(_spans(text, _PTX))


def element(inside: str) -> str:
    """The element around lines that are HTML, with its style."""
    return f'{STYLE}<div class="tileir"><pre>{inside}</pre></div>'


def _spans(text: str, tokens: re.Pattern[str]) -> str:
    parts: list[str] = []
    end = 0
    for match in tokens.finditer(text):
        parts += [
            escape(text[end : match.start()]),
            f'<span class="{match.lastgroup}">{escape(match[0])}</span>',
        ]
        end = match.end()
    return "".join((*parts, escape(text[end:])))
