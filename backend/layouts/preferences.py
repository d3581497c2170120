"""Layouts that ops request of the values that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.layout import Layout
from tileir.op import Op

if TYPE_CHECKING:
    from tileir.backend.layouts.anchors import AnchorLayouts


class LayoutPreference:
    """A request of an op for `layout`, the cost of another one, and how often the tile would be
    converted. A store accepts further layouts that are as good."""

    def __init__(self, layout: Layout, cost: int, store: Op | None = None, times: int = 1) -> None:
        self.layout, self.cost, self.store, self.times = layout, cost, store, times

    def cost_in(self, layout: Layout, anchors: AnchorLayouts) -> int:
        """The cost of a tile in `layout`."""
        store = self.store
        served = self.layout == layout or (store is not None and anchors.serves(store, layout))
        return 0 if served else self.cost
