"""`tileir view FILE`: pictures of a kernel as SVG, readable on light and dark pages."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tileir.errors import Diagnostic, ToolError
from tileir.ir import Function
from tileir.tools.files import read_module
from tileir.tools.view_cfg import cfg_picture
from tileir.tools.view_owners import owners_picture

PICTURES = {"owners": owners_picture, "cfg": cfg_picture}
"""`owners`: who holds which element of the tiles of each layout (the paper's figures 5 and 6);
`cfg`: blocks and the edges between them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's arguments."""
    parser.add_argument("file", metavar="FILE", help=".tir file, or - for standard input")
    parser.add_argument("--picture", choices=sorted(PICTURES), default="owners")
    parser.add_argument("--kernel", help="kernel to show (default: the only one)")
    parser.add_argument("--target", default="sm_90", help="GPU architecture (default: sm_90)")
    parser.add_argument("--out", metavar="PATH", help="where to write (default: standard output)")


def execute(options: argparse.Namespace) -> int:
    """Draw the picture."""
    text = PICTURES[options.picture](_laid_out(options))
    if options.out is None:
        sys.stdout.write(text)
        return 0
    try:
        Path(options.out).write_text(text, "utf-8")
    except OSError as error:
        raise ToolError(Diagnostic("TIR0905", f"{options.out}: {error.strerror}")) from error
    return 0


def _laid_out(options: argparse.Namespace) -> Function:
    """The kernel when its tiles have layouts."""
    from tileir.backend.compile import Options, staged  # numpy, for those who draw
    from tileir.backend.target import target

    module = read_module(options.file)
    done = staged(module, target(options.target), Options(), options.kernel)
    return done.stages["layouts"].functions[done.kernel]
