"""`tileir export-ttir FILE`: write a module as the TTIR of a release of Triton, or what its kernels
do to the memory of each argument."""

from __future__ import annotations

import argparse
import json

from tileir.tools.files import read_module, write_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's arguments."""
    parser.add_argument("file", metavar="FILE", help=".tir file, or - for standard input")
    parser.add_argument(
        "--release", default="3.9", help="release of Triton, 3.3 to 3.9 (default: 3.9)"
    )
    parser.add_argument(
        "-o", "--output", default="-", help="file to write (default: standard output)"
    )
    parser.add_argument(
        "--effects", action="store_true",
        help="instead write, as JSON, the uses of each argument: read, write, atomic, escapes",
    )  # fmt: skip


def execute(options: argparse.Namespace) -> int:
    """Write the text. Raises ExportError at the location of an op that TTIR cannot express."""
    from tileir.frontends.ttir.export import argument_effects, export

    module = read_module(options.file)
    if options.effects:
        kernels = (f for f in module.functions.values() if f.kernel)
        effects = {f.name: argument_effects(f) for f in kernels}
        text = json.dumps(effects, indent=1) + "\n"
    else:
        text = export(module, options.release)
    write_file(options.output, text.encode())
    return 0
