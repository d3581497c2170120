"""SVG shapes as text, in colours that are legible on light and dark pages.

Colours with a meaning, such as that of a thread, are the same on both. Text, frames and background
follow the colour scheme of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from colorsys import hls_to_rgb
from xml.sax.saxutils import escape, quoteattr

import attrs

CHARACTER = 6.63
"""Pixels of a character of the usual text, which is of one width."""

SMALL = 5.45
"""Pixels of a character of small text."""

LINE = 16
"""Pixels from one line of text to the next."""

MARGIN = 10
"""Pixels around a picture."""

_HUES = (210, 30, 130, 340, 260, 180, 55, 95)
"""Degrees, far apart first."""

_STYLE = """
text{font:11px "DejaVu Sans Mono",ui-monospace,Menlo,Consolas,monospace;fill:#1f2328}
.head{font-weight:bold}.soft{fill:#59636e}.small{font-size:9px}.bad{fill:#c4161c}
.in{fill:#101418;font-size:9px}.paper{fill:#fff}.box{fill:#f6f8fa;stroke:#818b98}
.frame{fill:none;stroke:#818b98}.faint{fill:none;stroke:#d1d9e0}.band{fill:#f0f3f6}
.edge{fill:none;stroke:#57708c;stroke-width:1.1}.tip{fill:#57708c}
.rule{stroke:#c4161c;stroke-width:1.4;stroke-dasharray:3 3;fill:none}
.mark{stroke:#101418}.clash{fill:none;stroke:#c4161c;stroke-width:2}
.cell{stroke:#fff;stroke-width:.6}.code{font-size:10px}.flat{shape-rendering:crispEdges}
.memory{fill:#ddf0ff;stroke:#5a8fc0}.heavy{fill:#d9f5df;stroke:#4f9d63}
.carried{fill:#fbf1d0;stroke:#b39b45}.branch{fill:#f3e3f9;stroke:#9d6db3}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9aa4af}.bad{fill:#ff7b72}
.in{fill:#101418}.paper{fill:#14181e}.box{fill:#20262e;stroke:#7d8793}.frame{stroke:#7d8793}
.faint{stroke:#39424d}.band{fill:#1c222a}.edge{stroke:#8fb2d6}.tip{fill:#8fb2d6}
.memory{fill:#15324c;stroke:#5a8fc0}.heavy{fill:#16351f;stroke:#4f9d63}
.carried{fill:#383013;stroke:#b39b45}.branch{fill:#332040;stroke:#9d6db3}
.rule{stroke:#ff7b72}.clash{stroke:#ff7b72}.cell{stroke:#14181e}}
"""


def document(width: float, height: float, parts: Iterable[str], title: str) -> str:
    """A complete picture. `title` is its accessible name."""
    size = f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    paper = f'<rect class="paper" width="{_n(width)}" height="{_n(height)}"/>'
    style = f"<style>{_STYLE.strip()}</style>"
    return "\n".join((head, f"<title>{escape(title)}</title>", style, paper, *parts, "</svg>", ""))


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "") -> str:
    """A line of text with its baseline at `y`, which starts at `x`; with `anchor` middle or end,
    its centre or its end is at `x`."""
    style = f' class="{kind}"' if kind else ""
    style += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{_n(x)}" y="{_n(y)}"{style}>{escape(words)}</text>'


def rect(
    x: float, y: float, width: float, height: float, kind: str, fill: str = "", title: str = ""
) -> str:
    """A rectangle of class `kind` with its own fill colour and the tooltip `title`."""
    paint = f' fill="{fill}"' if fill else ""
    place = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
    head = f'<rect class="{kind}" {place}{paint}'
    return f"{head}><title>{escape(title)}</title></rect>" if title else head + "/>"


def subpath(x: float, y: float, width: float, height: float) -> str:
    """A rectangle as part of the path of an area."""
    return f"M{_n(x)} {_n(y)}h{_n(width)}v{_n(height)}h{_n(-width)}z"


def area(subpaths: Iterable[str], fill: str, title: str, kind: str = "cell") -> str:
    """Rectangles of one colour with the tooltip `title`."""
    path = "".join(subpaths)
    return f'<path class="{kind}" d="{path}" fill="{fill}"><title>{escape(title)}</title></path>'


def line(points: Sequence[tuple[float, float]], kind: str = "edge") -> str:
    """A polyline through `points`."""
    path = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
    return f'<path class="{kind}" d="M{path}"/>'


def spline(points: Sequence[tuple[float, float]]) -> str:
    """An edge that runs down through `points`, vertical at each of them, with an arrow head at its
    end."""
    (x, y), *following = points
    path = [f"M{_n(x)} {_n(y)}"]
    for u, v in following:
        half = (v - y) / 2
        bend = f"C{_n(x)} {_n(y + half)} {_n(u)} {_n(v - half)} " if abs(u - x) > 0.05 else "L"
        path.append(f"{bend}{_n(u)} {_n(v)}")
        x, y = u, v
    return f'<path class="edge" d="{"".join(path)}"/>' + tip((x, y), (0, 1))


def tip(at: tuple[float, float], direction: tuple[float, float]) -> str:
    """An arrow head that ends at `at` and points in `direction`."""
    (x, y), (a, b) = at, direction
    length = (a * a + b * b) ** 0.5 or 1.0
    a, b = a / length * 6, b / length * 6
    points = ((x, y), (x - a - b / 2, y - b + a / 2), (x - a + b / 2, y - b - a / 2))
    return f'<path class="tip" d="M{"L".join(f"{_n(u)} {_n(v)}" for u, v in points)}Z"/>'


def group(x: float, y: float, parts: Iterable[str], label: str = "") -> str:
    """`parts` moved by `x`, `y`. `label` names them for programs that read the picture."""
    name = f" data-label={quoteattr(label)}" if label else ""
    return "\n".join((f'<g transform="translate({_n(x)} {_n(y)})"{name}>', *parts, "</g>"))


def colour(hue: float, lightness: float, saturation: float = 0.6) -> str:
    """A colour: hue in degrees, lightness and saturation from 0 to 1."""
    red, green, blue = hls_to_rgb(hue % 360 / 360, lightness, saturation)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def lane_colour(lane: int) -> str:
    """The colour of a lane. Hues cover the colour wheel once; neighbours are alternately lighter
    and darker."""
    return colour(lane % 32 * 11.25, 0.60 if lane % 2 else 0.76)


def warp_colour(warp: int, lightness: float = 0.68) -> str:
    """The colour of a warp."""
    return colour(_HUES[warp % len(_HUES)] + warp // len(_HUES) * 15, lightness)


def thread_colour(warp: int, lane: int) -> str:
    """The colour of a thread: the hue of its warp, with the lightness of its lane."""
    return warp_colour(warp, 0.50 + lane % 32 * 0.36 / 31)


def clip(words: str, width: float, character: float = CHARACTER) -> str:
    """`words`, or their beginning with an ellipsis if they are wider than `width`."""
    most = max(1, int(width / character))
    return words if len(words) <= most else words[: most - 1] + "…"


@attrs.define
class Sheet:
    """A picture that grows downwards. `y` is its current height, `width` the width that it
    needs."""

    title: str
    width: float = 980.0
    y: float = float(MARGIN)
    parts: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.words(self.title, "head")

    def words(self, words: str, kind: str = "", x: float = MARGIN) -> None:
        """Add a line of text, which is wrapped if it is wider than the picture."""
        size = SMALL if "small" in kind else CHARACTER
        for part in wrap(words, int((self.width - x - MARGIN) / size)):
            self.parts.append(text(x, self.y + 11, part, kind))
            self.y += LINE

    def skip(self, height: float) -> None:
        """Add empty space."""
        self.y += height

    def put(self, height: float, parts: Iterable[str], x: float = 0, label: str = "") -> None:
        """Add shapes, with coordinates relative to the current position, and the space that they
        take."""
        self.parts.append(group(x, self.y, parts, label))
        self.y += height

    def legend(self, entries: Iterable[tuple[str, str]]) -> None:
        """Add a legend: colours, each with a short text."""
        x, parts = float(MARGIN), list[str]()
        for fill, words in entries:
            parts.append(rect(x, 2, 12, 12, "cell", fill))
            parts.append(text(x + 17, 12, words, "soft"))
            x += 17 + len(words) * CHARACTER + 18
        self.width = max(self.width, x)
        self.put(LINE + 6, parts)

    def done(self) -> str:
        """The complete picture as text."""
        return document(self.width, self.y + MARGIN, self.parts, self.title)


def wrap(words: str, most: int) -> list[str]:
    """Lines of up to `most` characters, broken between words."""
    lines, words_left = [""], words.split(" ")
    for word in words_left:
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if len(joined) > most and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = joined
    return lines


def _n(number: float) -> str:
    """A coordinate with at most one digit after the point."""
    return f"{number:.1f}".removesuffix(".0")
