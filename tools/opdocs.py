"""Write `docs/reference/ops.md` from the op classes: `python -m tileir.tools.opdocs [PATH]`.

The page is derived from the declarations of the classes. A test checks that it is up to date.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs

from tileir.effects import Effects, Numerics
from tileir.field import Field, FieldKind
from tileir.op import FAMILIES, Op, all_ops
from tileir.signature import Elements
from tileir.types import SCALARS

_EXAMPLE = re.compile(r"^`([^`]+)`(?:, given `([^`]+)`)?$")
_RESULT = re.compile(r"%\w+ = \w+ (\w+(?: addrspace\(\d\))?\**(?:<[^<>]*>)?)")
_SEVERAL = {
    FieldKind.OPTIONAL: "optional",
    FieldKind.VARIADIC: "any number",
    FieldKind.PAIRS: "pairs",
}


@attrs.frozen
class Example:
    """An op as written in a docstring, and the parameters that it uses as `TYPE %name` items. If
    there are none, every operand has the type of the first result."""

    text: str
    parameters: tuple[str, ...] = ()


def main() -> int:
    """Write the page to the path on the command line, or to standard output."""
    text = page()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        sys.stdout.write(text)
    return 0


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join([_HEAD, *_sets(), *map(_family, families()), ""])


_OF_THE_COMPILER = frozenset({"gpu", "hopper", "roles", "cluster", "warpgroup"})


def families() -> Iterator[str]:
    """Yield the names of the families that have a page, in reading order. Families of ops that only
    the compiler creates have none."""
    return (name for name in FAMILIES if name not in _OF_THE_COMPILER)


def example(op: type[Op]) -> Example | None:
    """The example at the end of an op's docstring; None if there is none."""
    last = " ".join((inspect.getdoc(op) or "").split("\n\n")[-1].split())
    result = _EXAMPLE.match(last)
    if result is None:
        return None
    return Example(result[1], _split(result[2]) if result[2] else _implied_parameters(result[1]))


def _split(parameters: str) -> tuple[str, ...]:
    return tuple(p.lstrip(", ") for p in re.findall(r"[^%]+%\w+", parameters))


def _implied_parameters(text: str) -> tuple[str, ...]:
    """`TYPE %a` for each operand of `text`, all of which have the type of the result."""
    result = _RESULT.match(text)
    if result is None:
        return ()
    names = dict.fromkeys(re.findall(r"%\w+", text[result.end() :].split("{")[0]))
    return tuple(f"{result[1]} {name}" for name in names)


# Rendering ------------------------------------------------------------------------------------

_HEAD = """# Ops

Made by `python -m tileir.tools.opdocs docs/reference/ops.md` from the op classes; do not edit.

Every op is written `%r = mnemonic TYPE operands {attribute = value}`. `TYPE` is the type of the
result. Operands are values, literals or `undef`, in the order listed; `none` stands for an absent
operand that others follow. Nothing is converted or broadcast implicitly. An attribute with its
default value is omitted. Any op may have a predicate `@%p` unless its entry says otherwise: lanes
in which the predicate is false have no effect and an undefined result. In the examples, the types
of the operands follow `; given`."""


def _sets() -> Iterator[str]:
    """Yield the definitions of the names of element sets."""
    elements: dict[str, Elements] = {}
    for op in all_ops():
        for pattern in (p for f in op.schema for p in (f.pattern, f.second)):
            allowed = getattr(pattern, "allowed", getattr(pattern, "element", None))
            if isinstance(allowed, Elements) and not op.mnemonic.startswith("gpu."):
                elements[allowed.name] = allowed
    yield "\n| elements | |\n|---|---|"
    for name in sorted(elements):
        members = [s for s in SCALARS if SCALARS[s] in elements[name].scalars]
        yield f"| {name} | {', '.join(members + ['pointers'] * elements[name].pointers)} |"


def _family(name: str) -> str:
    module = importlib.import_module(f"tileir.ops.{name}")
    ops = [o for o in all_ops() if o.__module__ == module.__name__]
    ops.sort(key=lambda o: inspect.getsourcelines(o)[1])
    title = inspect.getdoc(module) or name
    return "\n".join([f"\n## {name}\n", title, *map(_section, ops)])


def _section(op: type[Op]) -> str:
    shown = example(op)
    prose = inspect.getdoc(op) or ""
    if shown is not None:
        prose = prose[: prose.rstrip().rfind("\n\n")].strip()
    lines = [f"\n### {op.mnemonic}\n", prose.split("\n\n    `")[0], ""]
    if shown is not None:
        lines += ["```", *_listing(shown), "```", ""]
    lines += [*_fields(op), *_facts(op)]
    return "\n".join(lines).rstrip()


def _listing(shown: Example) -> list[str]:
    parameters = f"; given {', '.join(shown.parameters)}" if shown.parameters else ""
    return [f"{shown.text}  {parameters}".rstrip()]


def _fields(op: type[Op]) -> Iterator[str]:
    for field in op.schema:
        yield f"- `{field.spelling}`: {_describe(field)}"


def _describe(field: Field) -> str:
    if field.kind is FieldKind.ATTRIBUTE:
        return _attribute(field)
    if field.kind in (FieldKind.SYMBOL, FieldKind.SUCCESSOR):
        return field.kind.value
    if field.pattern is None:
        return "the result types, stated"
    what = str(field.pattern)
    if field.kind is FieldKind.PAIRS:
        what = f"{what}, {field.second}"
    if field.kind is FieldKind.RESULT_TYPE:
        return f"result type, stated: {what}"
    several = _SEVERAL.get(field.kind)
    return f"{what} ({several})" if several else what


def _attribute(field: Field) -> str:
    kind = field.attribute
    assert kind is not None
    words = kind.form if kind.enum is None else " \\| ".join(str(m.value) for m in kind.enum)
    if kind.form == "combiner":
        words += " \\| @function"
    if field.default is attrs.NOTHING:
        return f"attribute, {words}; required"
    default = str(getattr(field.default, "value", field.default)).lower()
    return f"attribute, {words}; default `{default}`" if default else f"attribute, {words}"


def _facts(op: type[Op]) -> Iterator[str]:
    if op.results_:
        yield f"- result: {', '.join(map(str, op.results_))}"
    if op.effects_ is not Effects.PURE:
        names = ", ".join(str(e.name).lower() for e in Effects if e in op.effects_ and e.value)
        yield f"- effects: {names}"
    if op.results_ or op.numerics.ulp != 0 or not op.numerics.exact:
        yield f"- numerics: {_numerics(op.numerics)}"
    traits = [t for t in ("elementwise", "commutative") if getattr(op, t)]
    if not op.predicable:
        traits.append("takes no predicate")
    if traits:
        yield f"- {', '.join(traits)}"
    if op.since != (1, 0):
        yield f"- since {op.since[0]}.{op.since[1]}"


def _numerics(numerics: Numerics) -> str:
    if numerics.exact:
        return "exact"
    if numerics.ulp is None:
        return "as described"
    return "rounded once" if numerics.ulp == 0 else f"within {numerics.ulp:g} ulp"


if __name__ == "__main__":
    sys.exit(main())
