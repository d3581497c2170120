"""`--kernel`, `--target` and `--option`, which are the same in every command that compiles."""

from __future__ import annotations

import argparse
import re
from typing import Any

_NUMBER = re.compile(r"-?\d{1,18}", re.ASCII)


def add_compiler_options(group: Any, *, several: bool = False) -> None:
    """Declare the options of the compiler; with `several`, `--target` may be repeated.

    `tileir.tools.executors.target_of` returns the default target.
    """
    repeated = {"action": "append"} if several else {}
    more = "; may be repeated" if several else ""
    group.add_argument("--kernel", help="name of the kernel (default: the only one)")
    group.add_argument(
        "--target", metavar="SM",
        help=f"GPU architecture (default: that of the GPU present, else sm_90a){more}", **repeated,
    )  # fmt: skip
    group.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", type=_option,
        help="an option of the compiler, e.g. num_warps=8",
    )  # fmt: skip


def _option(text: str) -> tuple[str, Any]:
    """A name and a value: a number, true, false, none, or words separated by commas."""
    name, sign, word = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"an option is NAME=VALUE, not {text!r}")
    literals = {"true": True, "false": False, "none": None}
    if word.lower() in literals:
        return name, literals[word.lower()]
    return name, int(word) if _NUMBER.fullmatch(word) else tuple(word.split(","))
