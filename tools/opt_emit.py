"""Code generation for `tileir-opt --emit llvm|ptx|cubin`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tileir import backend
from tileir.ir import Module
from tileir.tools.executors import target_of
from tileir.tools.remarks import render_remarks


def emit(module: Module, options: argparse.Namespace) -> bytes:
    """`module` compiled for `options.target`, in the form `options.emit`. Prints the requested
    output about passes of the backend on standard error. Raises CompileError."""
    recorder = _recorder(options)
    compiled = backend.compile(
        module, target=target_of(options.target), kernel=options.kernel,
        options={"line_info": options.line_info, **dict(options.option)}, recorder=recorder,
    )  # fmt: skip
    if recorder is not None:
        from tileir.tools.opt_run import report

        report(recorder.records, options)
    if options.remarks:
        sys.stderr.write(render_remarks(compiled.remarks))
    code = getattr(compiled, options.emit)
    return code if isinstance(code, bytes) else str(code).encode()


def _recorder(options: argparse.Namespace) -> Any:
    """The recorder with the observers of the passes; None if no observer is requested."""
    from tileir.tools.opt_run import observers_of

    observers = observers_of(options)
    if not observers and not options.timing and not options.stats:
        return None
    from tileir.passmanager import Recorder

    return Recorder(not options.no_verify, observers)
