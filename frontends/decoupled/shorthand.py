"""Shorthand for schedules, and templates of schedules.

    softmax = x:4/0 y:/512 map(x, y) w32 s3; total @ softmax.x

stands for `softmax.block(x:4); softmax.tensorize(x:0, y:512); ...; total.fuse_at(softmax, x);`.
Other primitives are written without abbreviation: `online(l)`. In a template, `{16|32}` stands for
either number.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from tileir.frontends.decoupled.errors import template_error
from tileir.frontends.decoupled.model import Definitions
from tileir.frontends.decoupled.schedule import Schedule

_NAME = r"[A-Za-z_]\w*"
_SIZES = re.compile(rf"({_NAME}):(\d+)?(?:/(\d+))?$")
_NUMBERS = re.compile(r"([ws])(\d+)$")
_PRIMITIVE = re.compile(rf"({_NAME})\(([^()]*)\)$")
_FUSION = re.compile(rf"\s*({_NAME})\s*@\s*({_NAME})\.({_NAME})\s*$")
_FUNC = re.compile(rf"\s*({_NAME})\s*=(.*)$", re.S)
_TOKENS = re.compile(rf"{_NAME}\s*\([^()]*\)|\S+")
_CHOICE = re.compile(r"\{([^{}]*)\}")
_MOST = 1 << 20


def expand(text: str) -> str:
    """The scheduling primitives that a shorthand stands for. Raises CompilationError."""
    lines: list[str] = []
    for item in re.split(r"[;\n]", text):
        if not item.strip():
            continue
        if fusion := _FUSION.match(item):
            lines.append(f"{fusion[1]}.fuse_at({fusion[2]}, {fusion[3]});")
        elif func := _FUNC.match(item):
            lines += [f"{func[1]}.{p};" for token in _TOKENS.findall(func[2]) for p in _one(token)]
        else:
            raise template_error(f"`{item.strip()}` is neither `f = ...` nor `g @ f.x`")
    return "\n".join(lines)


def _one(token: str) -> Iterator[str]:
    """The primitives of one word."""
    if sizes := _SIZES.match(token):
        if sizes[2] is None and sizes[3] is None:
            raise template_error(f"`{token}` has neither a block nor a tensor size")
        if sizes[2] is not None:
            yield f"block({sizes[1]}:{sizes[2]})"
        if sizes[3] is not None:
            yield f"tensorize({sizes[1]}:{sizes[3]})"
    elif number := _NUMBERS.match(token):
        yield f"{'num_warps' if number[1] == 'w' else 'num_stages'}({number[2]})"
    elif primitive := _PRIMITIVE.match(token):
        yield f"{primitive[1].strip()}({primitive[2]})"
    else:
        raise template_error(f"`{token}` is not part of a schedule")


def shorten(definitions: Definitions) -> str:
    """The schedules of a definition in short; `expand` gives them back."""
    items: list[str] = []
    for func in definitions.funcs.values():
        words = _words(func.schedule)
        if words:
            items.append(f"{func.name} = {' '.join(words)}")
        if func.schedule.fusion:
            items.append(f"{func.name} @ {func.schedule.fusion.into}.{func.schedule.fusion.label}")
    return "; ".join(items)


def _words(schedule: Schedule) -> list[str]:
    words: list[str] = []
    for label in dict.fromkeys((*schedule.blocks, *schedule.tensors)):
        tensor = f"/{schedule.tensors[label]}" if label in schedule.tensors else ""
        words.append(f"{label}:{schedule.blocks.get(label, '')}{tensor}")
    if schedule.order:
        levels = (f"{s.label}:{s.inner}/{s.factor}" if s.inner else s.label for s in schedule.order)
        words.append(f"map({', '.join(levels)})")
    usual = Schedule()
    for name in ("atomic", "online", "reverse", "evict_first", "evict_last"):
        names = getattr(schedule, name)
        words += [f"{name}({', '.join(sorted(names))})"] if names else []
    for name in ("precision", "math", "roles", "persistent"):
        word = getattr(schedule, name)
        words += [f"{name}({word})"] if word != getattr(usual, name) else []
    words += [f"w{schedule.num_warps}"] if schedule.num_warps else []
    words += [f"s{schedule.num_stages}"] if schedule.num_stages else []
    words += [f"{schedule.compiled}()"] if schedule.compiled else []
    return words


def choices(template: str) -> Iterator[str]:
    """Every shorthand that a template stands for. Raises CompilationError for over a million."""
    parts = _CHOICE.split(template)
    options = [[o.strip() for o in part.split("|")] for part in parts[1::2]]
    count = 1
    for option in options:
        count *= len(option)
    if count > _MOST:
        raise template_error(f"the template stands for {count} schedules")
    for chosen in itertools.product(*options):
        filled = [*chosen, ""]
        yield "".join(text + choice for text, choice in zip(parts[::2], filled, strict=True))
