"""Pages that are written whenever the site is built: passes, options, errors, commands, the API.

    python docs/_site/generate.py [FOLDER]        default: docs/reference

What is public is what `__all__` of the packages in `PACKAGES` lists.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import inspect
import itertools
import re
import sys
import textwrap
import types
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]

PACKAGES = (
    "tileir", "tileir.textual", "tileir.builder", "tileir.builder.contraction", "tileir.verify",
    "tileir.interp", "tileir.passmanager", "tileir.machine", "tileir.std", "tileir.backend",
    "tileir.backend.tuning", "tileir.frontends.triton", "tileir.frontends.ttir",
    "tileir.frontends.triton_c", "tileir.frontends.decoupled", "tileir.frontends.te",
    "tileir.frontends.tensor_comprehensions", "tileir.frontends.tile", "tileir.testing",
    "tileir.testing.reduction",
)  # fmt: skip


def write(folder: Path) -> None:
    """Write every generated page below `folder`, where its text has changed."""
    pages = {
        "passes.md": passes(), "options.md": options(), "errors.md": errors(),
        "commands.md": commands(), "api/index.md": api_index(),
    }  # fmt: skip
    for package in PACKAGES:
        pages[f"api/{package}.md"] = api(package)
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


# Passes, options, errors, commands ----------------------------------------------------------------


def passes() -> str:
    """Every registered pass with its options and documentation."""
    from tileir.passmanager.find_passes import all_passes

    parts = ["# Passes\n"]
    parts += ["`tileir-opt FILE -p 'NAME,NAME{option=value}'` runs passes in this order.\n"]
    for item in all_passes():
        parts.append(f"## {item.name}\n\nA pass on a {item.level}.\n")
        parts += [
            f"- `{o.name}`: `{_type_name(o.type)}`, default `{o.default!r}`" for o in item.options
        ]
        parts.append("\n" + markdown(inspect.getdoc(item.function) or "") + "\n")
    return "\n".join(parts)


def _type_name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def options() -> str:
    """The options of the backend: name, type, default, and what they mean."""
    from tileir.backend import Options

    defaults = Options().to_json()
    parts = ["# Options of the backend\n"]
    parts += ["| option | type | default |", "| --- | --- | --- |"]
    for name, default in defaults.items():
        kind = str(Options.__annotations__[name]).replace("|", "\\|")
        parts.append(f"| `{name}` | {kind} | `{default!r}` |")
    parts += ["", documentation(Options), ""]
    return "\n".join(parts)


def errors() -> str:
    """Every error code with its title and explanation, a section per range."""
    from tileir import error_codes
    from tileir.tools.code_examples import examples

    ranges = re.search(r"One file per range:(.*?)\n\n", (error_codes.__doc__ or "") + "\n\n", re.S)
    titles = dict(re.findall(r"(\d\d)xx ([^,.]+)", ranges[1].replace("\n", " ") if ranges else ""))
    parts = ["# Error codes\n", "`tileir explain CODE` prints the same text.\n"]
    last = ""
    for code, (title, text) in error_codes.CODES.items():
        if code[3:5] != last:
            last = code[3:5]
            parts.append(f"## {last}xx: {titles.get(last, 'others')}\n")
        parts.append(f"**{code}: {_escape(title)}.** {markdown(text)}\n")
        for e in examples(code):
            language = "python" if e.how == "python" else "llvm"
            program = f"{e.kind.capitalize()}, `{e.how}`:\n\n```{language}\n{e.text}```\n"
            parts.append(program if e.how else markdown(e.text))  # or why there is no program
    return "\n".join(parts)


def _escape(text: str) -> str:
    return text.replace("*", "\\*").replace("<", "\\<")


def commands() -> str:
    """The help of every command."""
    from tileir.tools import main, opt_bisect, opt_options

    parts = ["# Commands\n"]
    for name, line in main.COMMANDS.items():
        parser = argparse.ArgumentParser(
            prog=f"tileir {name}", formatter_class=_Fixed, description=f"{line}."
        )
        main._command(name).add_arguments(parser)
        parts.append(f"## tileir {name}\n\n```text\n{parser.format_help()}```\n")
    for parser in (opt_options.parser(), opt_bisect.parser()):
        parser.formatter_class = _Fixed
        parts.append(f"## {parser.prog}\n\n```text\n{parser.format_help()}```\n")
    return "\n".join(parts)


class _Fixed(argparse.RawDescriptionHelpFormatter):
    """Help of one width, whatever the terminal's."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=92)


# The API ------------------------------------------------------------------------------------------


def api_index() -> str:
    """The list of packages."""
    parts = ["# Python API\n", "A name is public if `__all__` of its package lists it.\n"]
    parts += ["```{toctree}", *PACKAGES, "```", ""]
    return "\n".join(parts)


def api(name: str) -> str:
    """The page of one package."""
    package = importlib.import_module(name)
    parts = [f"# {name}\n", markdown(inspect.getdoc(package) or ""), ""]
    parts += [f"```{{py:currentmodule}} {name}\n```\n"]
    for public in sorted(package.__all__):
        parts.append("\n".join(entry(public, getattr(package, public))) + "\n")
    return "\n".join(parts)


def entry(name: str, item: Any) -> Iterator[str]:
    """The directive of a class, function or value."""
    if inspect.ismodule(item):
        yield f"- `{name}`: {first_line(item)}"
    elif inspect.isclass(item):
        yield f":::::{{py:class}} {name}{signature(item)}\n"
        yield documentation(item)
        fields = field_documentation(item)
        for member, value in sorted({**fields, **vars(item)}.items()):
            if member in fields:
                text = markdown(fields[member])
                yield f"::::{{py:attribute}} {member}\n\n{text}\n::::\n"
            elif not member.startswith("_") and is_documented(value):
                yield from member_entry(member, value)
        yield ":::::"
    elif callable(item) and not isinstance(item, types.GenericAlias):
        yield f":::::{{py:function}} {name}{signature(item)}\n\n{documentation(item)}\n:::::"
    else:
        text = markdown(value_documentation(name, item)) or describe_value(item)
        yield f":::::{{py:data}} {name}\n\n{text}\n:::::"


def field_documentation(item: type) -> dict[str, str]:
    """The documented public fields of a class, and every member of an enumeration."""
    if item.__module__.partition(".")[0] != "tileir":
        return {}
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(item))).body
    assert isinstance(tree, ast.ClassDef)
    documented = {k: v for k, v in documented_names(tree.body).items() if k[0] != "_"}
    if issubclass(item, Enum):
        return {member.name: documented.get(member.name, "") for member in item}
    return documented


def value_documentation(name: str, value: Any) -> str:
    """The string after the assignment of `value` to `name` in a module of tileir; "" if none."""
    for module in [m for n, m in sys.modules.items() if n.partition(".")[0] == "tileir"]:
        if vars(module).get(name) is value and getattr(module, "__file__", None):
            text = documented_names(ast.parse(inspect.getsource(module)).body).get(name)
            if text:
                return text
    return ""


def documented_names(body: Sequence[ast.stmt]) -> dict[str, str]:
    """The names that statements assign, with the string that follows the assignment."""
    result: dict[str, str] = {}
    for statement, after in itertools.pairwise(body):
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target: ast.expr = statement.targets[0]
        elif isinstance(statement, ast.AnnAssign):
            target = statement.target
        else:
            continue
        match target, after:
            case ast.Name(id=name), ast.Expr(value=ast.Constant(value=str() as text)):
                result[name] = inspect.cleandoc(text)
    return result


def describe_value(value: Any) -> str:
    """The type of a value, and its text if that is short."""
    text = str(value)
    shown = f": `{text}`" if len(text) < 60 and text.isprintable() and "`" not in text else ""
    return f"A value of type `{type(value).__name__}`{shown}."


def is_documented(value: Any) -> bool:
    """Whether a member of a class is a method or property with documentation."""
    target = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    kinds = (property, functools.cached_property, type(is_documented))
    return isinstance(target, kinds) and bool(inspect.getdoc(target))


def member_entry(name: str, value: Any) -> Iterator[str]:
    """The directive of a method or property."""
    if isinstance(value, property | functools.cached_property):
        yield f"::::{{py:property}} {name}\n\n{documentation(value)}\n::::\n"
        return
    target = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    heading = f"{name}{signature(target, method=True)}"
    yield f"::::{{py:method}} {heading}\n\n{documentation(target)}\n::::\n"


def signature(item: Any, method: bool = False) -> str:
    """Names of the parameters, and defaults that are short. A class whose constructor takes its
    fields in general is shown with their names. Enumerations and protocols are not constructed."""
    if inspect.isclass(item) and (issubclass(item, Enum) or getattr(item, "_is_protocol", False)):
        return ""
    try:
        parameters = list(inspect.signature(item).parameters.values())
    except (ValueError, TypeError):
        return "()"
    if inspect.isclass(item) and [p.name for p in parameters] == ["given", "named"]:
        bases = [vars(c).get("__annotations__", {}) for c in reversed(item.__mro__)]
        names = [n for fields in bases for n in fields if not n.startswith("_")]
        return f"({', '.join(dict.fromkeys(names))})"
    if method and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    plain = [p.replace(annotation=p.empty, default=_short(p)) for p in parameters]
    return str(inspect.Signature(plain))


class _Ellipsis:
    def __repr__(self) -> str:
        return "..."


def _short(parameter: inspect.Parameter) -> Any:
    """The default, or `...` if its text is long, differs between processes, or stands for a call of
    a factory (`NOTHING` of attrs)."""
    text = repr(parameter.default)
    plain = len(text) < 24 and "<" not in text and text != "NOTHING"
    simple = parameter.default is parameter.empty or plain
    return parameter.default if simple else _Ellipsis()


def first_line(item: Any) -> str:
    return markdown(inspect.getdoc(item) or "").partition("\n")[0]


def documentation(item: Any) -> str:
    return markdown(inspect.getdoc(item) or "")


def markdown(text: str) -> str:
    """A docstring as Markdown.

    Characters of markup are escaped outside of code. Programs after `before:`, which may state
    options, and `after:` are code, and so are indented lines of Python. Paths of pages are links.
    """
    text = _PROGRAM.sub(_fence, text)
    text = _INDENTED.sub(_python, text)
    text = _PAGE.sub(_link, text)
    parts = re.split(r"(```.*?```|`[^`]*`|\[\]\([^)]*\))", text, flags=re.S)
    return "".join(part if part.startswith(("`", "[](")) else _plain(part) for part in parts)


_PROGRAM = re.compile(r"^(before|after) ?(\{.*\})?:\n((?:(?: {4}.*)?\n)*(?: {4}.*))", re.M)


def _fence(match: re.Match[str]) -> str:
    title = match[1].capitalize() + (f" `{match[2]}`" if match[2] else "")
    return f"\n{title}:\n\n```llvm\n{inspect.cleandoc(match[3])}\n```\n"


_INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n(?:\n(?= {4}))?)* {4}.*(?=\n\n|\n?\Z)")


def _python(match: re.Match[str]) -> str:
    code = textwrap.dedent(match[0])
    try:
        ast.parse(code)
    except SyntaxError:
        return match[0]
    return f"```python\n{code}\n```"


_PAGE = re.compile(r"`?\bdocs/([\w/-]+\.md)\b`?")


def _link(match: re.Match[str]) -> str:
    """A link to a page, which has the title of the page as its text."""
    return f"[](/{match[1]})" if (DOCS / match[1]).exists() else match[0]


def _plain(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        if not line.startswith("    "):
            line = re.sub(r"(?<!\*)\*(?!\*)|(?<!\w)_(?=\w)|[<\[]", r"\\\g<0>", line)
            line = re.sub(r"^(#+|[=~-]{3,})", r"\\\1", line)
        lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "reference")
