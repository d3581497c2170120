"""A wrong and a right example for every error code, as `tileir explain CODE` shows them.

The examples of a range of codes are in `tileir/error_codes/NAME.examples`, next to the texts in
`NAME.py`, each after a line `=== CODE wrong: HOW` or `=== CODE right: HOW`:

- without HOW, the example is a module that `tileir-opt FILE` reads and verifies;
- HOW is a command line of `tileir` or `tileir-opt`, in which FILE is the module, OUT a new file;
- HOW is `python`: the example is a Python program.

`=== CODE none` is followed by the reason why there is no example.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

import attrs

_HEAD = re.compile(r"(?m)^=== (TIR\d{4}) (wrong|right|none)(?:: (.+))?\n")


@attrs.frozen
class CodeExample:
    """An example of an error code.

    `kind` is `wrong` or `right`, and `how` is the command that runs the text. The kind is `none` if
    there is no program; the text then states why.
    """

    code: str
    kind: str
    how: str
    text: str

    @property
    def is_python(self) -> bool:
        """Whether the text is a program in Python, not a module."""
        return self.how == "python"


def examples(code: str) -> list[CodeExample]:
    """The wrong and the right example of `code`, or one entry with the reason why there is none."""
    return [example for example in all_examples() if example.code == code]


@cache
def all_examples() -> tuple[CodeExample, ...]:
    """The examples of every code."""
    folder = resources.files("tileir.error_codes")
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".examples")), key=str)
    texts = (file.read_text(encoding="utf-8") for file in files)
    return tuple(example for text in texts for example in _parse(text))


def _parse(text: str) -> Iterator[CodeExample]:
    """The examples of a file, in order."""
    heads = [*_HEAD.finditer(text)]
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=True):
        code, kind, how = head.groups()
        usual = "" if kind == "none" else "tileir-opt FILE"
        yield CodeExample(code, kind, how or usual, text[head.end() : end].strip("\n") + "\n")
