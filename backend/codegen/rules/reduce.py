"""Reductions and scans. Predicates of scans were removed before
(`tileir.passes.lower_predicates`)."""

from __future__ import annotations

from tileir.backend.codegen.emit.reduction import reduce_tile
from tileir.backend.codegen.emit.scan import scan_tile
from tileir.backend.codegen.lowering import Rule

RULES: dict[str, Rule] = {"reduce": reduce_tile, "scan": scan_tile}
