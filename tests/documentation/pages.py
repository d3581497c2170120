"""Pages of the documentation that are executed: their code blocks, in order, as a reader would.

What a block is for follows from its language, or from a comment on the line before its fence,
which the rendered page does not show:

    ```python                       runs in one namespace per page
    ```sh                           every line runs in the folder of the page's reader
    ```llvm                         is a module that parses, verifies and prints as it stands
    ```text                         is shown, and nothing else

    <!-- write PATH -->             the block is the file PATH, which must be new
    <!-- append PATH -->            the block goes to the end of PATH
    <!-- after PATH: LINE -->       the block goes after the line LINE of PATH
    <!-- before PATH: LINE -->      the block goes before the line LINE of PATH
    <!-- fails -->                  the last command of an sh block exits with 1
    <!-- output -->                 lines that the last command printed, in this order
    <!-- gpu -->                    needs a GPU: it is compiled, and commands are not run
    <!-- shown -->                  nothing happens: a fragment

A line of an `output` block matches where its words do; `...` stands for anything.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_BLOCK = re.compile(
    r"^(?:<!-- (?P<comment>.*?) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
VERBS = frozenset({"write", "append", "after", "before", "fails", "output", "gpu", "shown"})
EDITS = frozenset({"write", "append", "after", "before"})


class PageError(AssertionError):
    """A page says what is not so."""


class Block(NamedTuple):
    """A code block: `verb` and `path` of its comment, `anchor` the line that an edit names."""

    language: str
    text: str
    line: int
    verb: str
    path: str
    anchor: str


def blocks(page: Path) -> Iterator[Block]:
    """The code blocks of `page`. Raises PageError for a comment that means nothing."""
    text = page.read_text()
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("text"))
        verb, _, argument = (match["comment"] or "").partition(" ")
        if verb and verb not in VERBS:
            raise PageError(f"{page.name}:{line}: unknown comment {verb!r}")
        path, _, anchor = argument.partition(": ")
        yield Block(match["language"], match["text"], line, verb, path, anchor)


class Reader:
    """Somebody who does what a page says, in `folder`.

    `environment` is that of commands. `touched` are the files that the page changes."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.names: dict[str, Any] = {"__name__": "page"}
        self.printed = ""
        self.touched: list[str] = []
        self.commands: list[str] = []

    def read(self, page: Path) -> None:
        """Do all of `page`. Raises PageError where a block fails."""
        for block in blocks(page):
            try:
                self._do(page, block)
            except Exception as error:
                raise PageError(f"{page.name}:{block.line + 1}: {error}") from error

    def _do(self, page: Path, block: Block) -> None:
        if block.verb in EDITS:
            self._edit(block)
        elif block.verb == "output":
            self._compare(block.text)
        elif block.verb == "gpu" and block.language == "python":
            compile(block.text, page.name, "exec")
        elif block.verb in ("gpu", "shown") or block.language in ("text", "toml", "c"):
            pass
        elif block.language == "sh":
            self._run(block)
        elif block.language == "python":
            exec(compile("\n" * block.line + block.text, page.name, "exec"), self.names)
        elif block.language == "llvm":
            _check_module(block.text)
        else:
            raise PageError(f"nothing is known of blocks of {block.language}")

    def _edit(self, block: Block) -> None:
        path = self.folder / block.path
        if block.verb == "write":
            if path.exists():
                raise PageError(f"{block.path} is there already")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.verb == "append":
            path.write_text(path.read_text() + block.text)
        else:
            old = path.read_text()
            line = f"{block.anchor}\n"
            if f"\n{old}".count(f"\n{line}") != 1:
                raise PageError(f"{block.path} does not have the line {block.anchor!r} once")
            new = line + block.text if block.verb == "after" else block.text + line
            path.write_text(f"\n{old}".replace(f"\n{line}", f"\n{new}")[1:])
        if block.path not in self.touched:
            self.touched.append(block.path)

    def _run(self, block: Block) -> None:
        commands = block.text.replace("\\\n", " ").splitlines()
        for number, command in enumerate(commands, 1):
            run = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command], cwd=self.folder, text=True,
                env=dict(self.environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self.commands.append(command)
            self.printed = run.stdout
            expected = 1 if block.verb == "fails" and number == len(commands) else 0
            if run.returncode != expected:
                tail = run.stdout[-3000:]
                raise PageError(f"{command!r} exits with {run.returncode}:\n{tail}")

    def _compare(self, text: str) -> None:
        """Raises PageError for the first line of `text` that was not printed, in this order."""
        printed = iter(self.printed.splitlines())
        for line in text.splitlines():
            pattern = r"\s+".join(re.escape(w).replace(r"\.\.\.", ".*") for w in line.split())
            whole = re.compile(rf"\s*{pattern}\s*")
            if pattern not in ("", ".*") and not any(whole.fullmatch(p) for p in printed):
                raise PageError(f"{line!r} was not printed:\n{self.printed[-3000:]}")


def _check_module(text: str) -> None:
    from tileir.textual import parse, print_module

    if print_module(parse(text)) != text:
        raise PageError(f"prints otherwise:\n{print_module(parse(text))}")
