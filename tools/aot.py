"""`tileir aot FILE`: compile a kernel ahead of time."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tileir.tools.compiler_options import add_compiler_options
from tileir.tools.executors import target_of
from tileir.tools.files import file_name, read_module, write_file
from tileir.tools.json_output import add_json, write_json
from tileir.tools.safety import add_safety


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's arguments."""
    parser.add_argument("file", metavar="FILE", help=".tir file, or - for standard input")
    add_compiler_options(parser, several=True)
    parser.add_argument(
        "-o", "--output", default=".", help="folder to write to (default: the current one)"
    )
    parser.add_argument(
        "--serialized",
        action="store_true",
        help="also write KERNEL.TARGET.tirk, the serialized compiled kernel",
    )
    add_json(parser, "the files and their sizes")
    add_safety(parser)


def execute(options: argparse.Namespace) -> int:
    """Write KERNEL.TARGET.cubin, .json and .h for each target, and name them."""
    from tileir.backend import compile as compile_kernel
    from tileir.backend.runtime.c_header import header
    from tileir.backend.runtime.format import dumps

    module, folder = read_module(options.file), Path(options.output)
    settings, written = dict(options.option), list[dict[str, Any]]()
    for target in options.target or [target_of(None)]:
        result = compile_kernel(module, target, settings, options.kernel)
        stem = folder / f"{file_name(result.plan.kernel)}.{target}"
        about = json.dumps(result.metadata.to_json(), indent=2) + "\n"
        files = {".cubin": result.cubin, ".json": about.encode(), ".h": header(result).encode()}
        if options.serialized:
            files[".tirk"] = dumps(result)
        for suffix, data in files.items():
            write_file(f"{stem}{suffix}", data)
            written.append({"file": f"{stem}{suffix}", "target": target, "bytes": len(data)})
            if options.json != "-":
                sys.stdout.write(f"{stem}{suffix}  {len(data)} bytes\n")
    write_json(options.json, written)
    return 0
