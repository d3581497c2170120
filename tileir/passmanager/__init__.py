"""Pipelines of passes: written as text, run with verification, observed, replayed and bisected.

A pass is a function `Function -> Function` or `Module -> Module`; `pass_` gives it a name. It may
answer with an `Outcome` instead, which adds remarks and statistics.

    from tileir.passmanager import run
    result = run(module, "simplify,cse,licm{max-depth=2},dce")
    result.module, result.remarks, result.records
"""

from __future__ import annotations

from tileir.passmanager.bisect import Culprit, bisect
from tileir.passmanager.manager import CrashError, Observer, Record, Run, Step, run
from tileir.passmanager.pipeline import Node, format_pipeline, parse_pipeline
from tileir.passmanager.registry import Option, Outcome, Pass, all_passes, lookup, pass_, remark

__all__ = [
    "CrashError",
    "Culprit",
    "Node",
    "Observer",
    "Option",
    "Outcome",
    "Pass",
    "Record",
    "Run",
    "Step",
    "all_passes",
    "bisect",
    "format_pipeline",
    "lookup",
    "parse_pipeline",
    "pass_",
    "remark",
    "run",
]
