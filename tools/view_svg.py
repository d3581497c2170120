"""Shapes of SVG, with colours that are legible on light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

HUES = (210, 30, 130, 340, 260, 180, 55, 95)
"""Degrees; one per warp, far apart first."""

_STYLE = (
    "text{font:11px ui-monospace,monospace;fill:#222}.head{font-weight:bold}"
    ".box{fill:#fff;stroke:#888}.edge{fill:none;stroke:#567}.cell{stroke:#fff;stroke-width:.5}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.box{fill:#222;stroke:#999}"
    ".edge{stroke:#9bd}.cell{stroke:#111}}"
)


def document(width: float, height: float, parts: Sequence[str]) -> str:
    """A whole picture."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}">'
    )
    return "\n".join((head, f"<style>{_STYLE}</style>", *parts, "</svg>", ""))


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """A line of text whose baseline starts at `x`, `y`."""
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{style}>{escape(words)}</text>'


def cell(x: float, y: float, size: float, fill: str, title: str) -> str:
    """A square that says what it is when pointed at."""
    return (
        f'<rect class="cell" x="{x:g}" y="{y:g}" width="{size:g}" height="{size:g}" '
        f'fill="{fill}"><title>{escape(title)}</title></rect>'
    )


def box(x: float, y: float, width: float, height: float) -> str:
    """The frame of something."""
    return f'<rect class="box" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>'


def curve(start: tuple[float, float], end: tuple[float, float], bend: float) -> str:
    """An edge between two points that bulges to the right by `bend`."""
    (x, y), (u, v) = start, end
    path = f"M{x:g} {y:g} C{x + bend:g} {y:g} {u + bend:g} {v:g} {u:g} {v:g}"
    return f'<path class="edge" d="{path}"/><circle class="edge" cx="{u:g}" cy="{v:g}" r="3"/>'


def shade(warp: int, lane: int) -> str:
    """A colour for a thread: the hue by its warp, the lightness by its lane."""
    return f"hsl({HUES[warp % len(HUES)]} 60% {40 + lane % 32 * 35 // 31}%)"
