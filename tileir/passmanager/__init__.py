"""Pipelines of passes: written as text, run with verification, observed, replayed and bisected.

A pass is a function `Function -> Function` or `Module -> Module`; `pass_` gives it a name. It may
return a `PassResult` instead, which adds remarks and statistics.

    from tileir.passmanager import run
    result = run(module, "simplify,cse,licm{max-depth=2},dce")
    result.module, result.remarks, result.records
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.passmanager.registry import PassResult, pass_, remark

if TYPE_CHECKING:
    from tileir.passmanager.bisect_pipeline import Culprit, bisect
    from tileir.passmanager.find_passes import Option, Pass, all_passes, lookup
    from tileir.passmanager.manager import (
        CrashError,
        Observer,
        Recorder,
        Run,
        Step,
        StepRecord,
        run,
    )
    from tileir.passmanager.pipeline import PipelineNode, format_pipeline, parse_pipeline

__all__ = [
    "CrashError",
    "Culprit",
    "Observer",
    "Option",
    "Pass",
    "PassResult",
    "PipelineNode",
    "Recorder",
    "Run",
    "Step",
    "StepRecord",
    "all_passes",
    "bisect",
    "format_pipeline",
    "lookup",
    "parse_pipeline",
    "pass_",
    "remark",
    "run",
]

_MODULES = {
    **dict.fromkeys(("Culprit", "bisect"), "bisect_pipeline"),
    **dict.fromkeys(("Option", "Pass", "all_passes", "lookup"), "find_passes"),
    **dict.fromkeys(
        ("CrashError", "Observer", "StepRecord", "Recorder", "Run", "Step", "run"), "manager"
    ),
    **dict.fromkeys(("PipelineNode", "format_pipeline", "parse_pipeline"), "pipeline"),
}


def __getattr__(name: str) -> Any:
    """Import what runs pipelines on first use; declarations of passes are available at once."""
    if name not in _MODULES:
        raise AttributeError(f"module 'tileir.passmanager' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"tileir.passmanager.{_MODULES[name]}"), name)
