"""The picture `passes`: an HTML page of the changes of each pass. It shows the text before and
after side by side, and the ops that were added and removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby, pairwise

import attrs

from tileir.errors import Diagnostic, ToolError
from tileir.ir import Module
from tileir.passmanager import Step, run
from tileir.passmanager.pipeline import PipelineNode
from tileir.textual import print_module
from tileir.tools.view.diff import Pair, pairs, segments
from tileir.tools.view.input import Subject
from tileir.tools.view.naming import count_text

_AROUND = 3
"""Equal lines shown around changed ones; more are folded."""

_STYLE = """
:root{--ink:#1f2328;--soft:#59636e;--paper:#fff;--box:#f6f8fa;--line:#d1d9e0;
--old:#ffebe9;--new:#dafbe1;--oldm:#ffc1ba;--newm:#9be9a8}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa4af;--paper:#14181e;
--box:#20262e;--line:#39424d;--old:#3c1f1f;--new:#16321f;--oldm:#8e2f2a;--newm:#2a6b3b}}
body{font:14px system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:1.5em auto;
max-width:1400px;padding:0 1em}
table{border-collapse:collapse}.diff{table-layout:fixed;width:100%;
font:12px "DejaVu Sans Mono",ui-monospace,Menlo,Consolas,monospace}
.diff td{white-space:pre-wrap;overflow-wrap:anywhere;vertical-align:top;padding:0 .4em}
.diff .n{width:2.6em;color:var(--soft);text-align:right}
.old{background:var(--old)}.new{background:var(--new)}.none{background:var(--box)}
.old mark{background:var(--oldm);color:inherit}.new mark{background:var(--newm);color:inherit}
details{border:1px solid var(--line);border-radius:4px;margin:.5em 0}
details details{border:0;margin:0;background:var(--box)}
summary{cursor:pointer;padding:.3em .6em;background:var(--box)}
.soft,details details summary{color:var(--soft)}.counts td,.counts th{padding:.1em .8em .1em 0;
text-align:left;font-weight:normal}.counts{margin:.4em .6em}ul{margin:.4em}
"""


def picture(subject: Subject) -> str:
    """The HTML of the changes of each pass of the requested pipeline. If none is requested, it
    shows the default pipeline and the stages of compilation.

    Raises PassError as the pass manager does, `CompileError` as `compile` does, and ToolError
    (TIR0912) if a value is requested.
    """
    if subject.value is not None:
        message = f"passes shows whole texts, not {subject.value} alone"
        raise ToolError(Diagnostic("TIR0912", message, subject.function.location))
    chosen = subject.pipeline or "default"
    chapters = [(f"Pipeline {chosen}", _of_pipeline(subject.module, chosen))]
    if subject.pipeline is None:
        title = f"Compiling for {subject.target}, from the module as written"
        chapters.append((title, list(_of_stages(subject.lowered_kernel.stages))))
    parts = [part for title, steps in chapters for part in _chapter(title, steps)]
    return _page(f"{subject.name}: what each pass changes", parts)


@attrs.frozen
class PassChange:
    """A module before and after a pass, and the statistics of the pass."""

    title: str
    before: Module
    after: Module
    statistics: Mapping[str, int] = attrs.field(factory=dict)
    remarks: Sequence[Diagnostic] = ()

    @property
    def texts(self) -> tuple[list[str], list[str]]:
        """The lines of both modules, without header and metadata."""
        return _lines(self.before), _lines(self.after)

    @property
    def nothing(self) -> bool:
        """Whether the pass changed nothing."""
        return self.before is self.after or all(pair.same for pair in pairs(*self.texts))


def _lines(module: Module) -> list[str]:
    """The text of `module` without its header and metadata."""
    bare = module.evolve(metadata={}, header_comments=())
    heads = ("tir ", "stage ")
    lines = [line for line in print_module(bare).splitlines() if not line.startswith(heads)]
    return "\n".join(lines).lstrip("\n").splitlines()


@attrs.define
class _Collecting:
    """An observer that records the modules before and after each pass."""

    changes: list[PassChange] = attrs.field(factory=list)

    def before(self, step: Step) -> None:
        """Do nothing: the change is recorded after the step."""

    def after(self, step: Step, module: Module) -> None:
        self.changes.append(PassChange(step.title, step.before, module))

    def on_failure(self, step: Step, pipeline: Sequence[PipelineNode], error: Exception) -> None:
        """Do nothing: the error is raised."""


def _of_pipeline(module: Module, pipeline: str) -> list[PassChange]:
    collected = _Collecting()
    done = run(module, pipeline, observers=[collected])
    return [
        attrs.evolve(change, statistics=record.statistics)
        for change, record in zip(collected.changes, done.records, strict=True)
    ]


def _of_stages(stages: Mapping[str, Module]) -> Iterator[PassChange]:
    names = list(stages)
    for before, after in pairwise(names):
        yield PassChange(f"stage {after}", stages[before], stages[after])


# HTML ---------------------------------------------------------------------------------------------


def _page(title: str, parts: Iterable[str]) -> str:
    how = (
        "Left the text before a pass, right after it; passes that changed nothing, and lines far "
        "from any change, are folded."
    )
    head = f"<title>{escape(title)}</title><style>{_STYLE.strip()}</style>"
    body = f'<h1>{escape(title)}</h1><p class="soft">{how}</p>'
    page = (
        "<!DOCTYPE html>",
        '<html lang="en">',
        f'<head><meta charset="utf-8"/>{head}</head>',
        f"<body>{body}",
        *parts,
        "</body></html>",
        "",
    )
    return "\n".join(page)


def _chapter(title: str, changes: Sequence[PassChange]) -> Iterator[str]:
    yield f"<h2>{escape(title)}</h2>"
    for nothing, result in groupby(changes, lambda change: change.nothing):
        if nothing:
            yield _nothing(list(result))
        else:
            for change in result:
                yield from _describe_change(change)


def _nothing(changes: Sequence[PassChange]) -> str:
    items = "".join(f"<li>{escape(change.title)}</li>" for change in changes)
    words = f"{count_text(len(changes), 'pass')} changed nothing"
    return f'<details class="nothing"><summary>{words}</summary><ul>{items}</ul></details>'


def _describe_change(change: PassChange) -> Iterator[str]:
    lines = list(pairs(*change.texts))
    before, after = (_ops(m) for m in (change.before, change.after))
    gone = sum(p.old is not None and not p.same for p in lines)
    come = sum(p.new is not None and not p.same for p in lines)
    total = f"{before.total()} ops, then {after.total()}; lines: {gone} old, {come} new"
    name = f"<b>{escape(change.title)}</b>"
    yield f'<details class="pass" open="open"><summary>{name} {total}</summary>'
    yield from _counts(before, after, change.statistics)
    for same, result in groupby(_fold_far_lines(lines), lambda item: item[0]):
        rows = [row for _, pair in result for row in _row(pair)]
        table = "\n".join(['<table class="diff">', *rows, "</table>"])
        words = f"{count_text(len(rows), 'equal line')}"
        yield f"<details><summary>{words}</summary>{table}</details>" if same else table
    yield "</details>"


def _ops(module: Module) -> Counter[str]:
    """The number of ops by mnemonic."""
    return Counter(op.mnemonic for f in module.functions.values() for op in f.ops)


def _counts(
    before: Counter[str], after: Counter[str], statistics: Mapping[str, int]
) -> Iterator[str]:
    changed = [name for name in sorted({*before, *after}) if before[name] != after[name]]
    rows = [f"<tr><td>{name}</td><td>{before[name]} → {after[name]}</td></tr>" for name in changed]
    rows += [f"<tr><td>{escape(k)}</td><td>{n}</td></tr>" for k, n in statistics.items() if n]
    if rows:
        yield "\n".join(['<table class="counts">', *rows, "</table>"])


def _fold_far_lines(lines: Sequence[Pair]) -> Iterator[tuple[bool, Pair]]:
    """Yield every pair with whether it is far from any change."""
    changes = [i for i, pair in enumerate(lines) if not pair.same]
    near = {i + d for i in changes for d in range(-_AROUND, _AROUND + 1)}
    for i, pair in enumerate(lines):
        yield i not in near, pair


def _row(pair: Pair) -> Iterator[str]:
    if pair.same:
        cells = [_cell(pair.old_number, pair.old, ""), _cell(pair.new_number, pair.new, "")]
    elif pair.old is None or pair.new is None:
        cells = [_cell(pair.old_number, pair.old, "old"), _cell(pair.new_number, pair.new, "new")]
    else:
        left, right = segments(pair.old, pair.new)
        cells = [
            _fill(pair.old_number, _marked_text(left), "old"),
            _fill(pair.new_number, _marked_text(right), "new"),
        ]
    yield f"<tr>{''.join(cells)}</tr>"


def _cell(number: int, words: str | None, kind: str) -> str:
    if words is None:
        return '<td class="n"></td><td class="none"></td>'
    return _fill(number, escape(words), kind)


def _fill(number: int, inside: str, kind: str) -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<td class="n">{number}</td><td{style}>{inside}</td>'


def _marked_text(segments: Iterable[tuple[bool, str]]) -> str:
    return "".join(f"<mark>{escape(s)}</mark>" if only else escape(s) for only, s in segments)
