"""`tileir link FILE...`: link modules into one."""

from __future__ import annotations

import argparse

from tileir.tools.files import read_module, write_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE", help=".tir files; - for standard input")
    parser.add_argument(
        "-o", "--output", default="-", help="file to write (default: standard output)"
    )


def execute(options: argparse.Namespace) -> int:
    """Link the files in the order of the command line and write the module."""
    from tileir.linker import link
    from tileir.textual import print_module

    module = link(*(read_module(path) for path in options.files))
    write_file(options.output, print_module(module).encode())
    return 0
