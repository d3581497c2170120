"""Reductions and scans. A scan has no predicate here (`tileir.passes.lower_predicates`)."""

from __future__ import annotations

from tileir.backend.lower.lowering import Rule
from tileir.backend.lower.reduction import reduce_tile
from tileir.backend.lower.scan import scan_tile

RULES: dict[str, Rule] = {"reduce": reduce_tile, "scan": scan_tile}
