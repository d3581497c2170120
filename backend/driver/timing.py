"""Times of launches by the GPU's clock. The L2 cache contains no data of earlier launches."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import attrs

from tileir.backend.driver.device import CudaDriver, driver

_LEAST_FLUSH = 64 << 20
"""Bytes that are written between launches, where the L2's size is not larger."""


@attrs.define(eq=False)
class Stopwatch:
    """Events around launches on stream 0 of the current context. `close` frees its memory."""

    cuda: CudaDriver
    _buffer: int
    _size: int

    @staticmethod
    def make() -> Stopwatch:
        """A stopwatch for the current context. Raises `LaunchError`."""
        cuda = driver()
        cuda.context()
        size = max(_LEAST_FLUSH, 2 * attribute(cuda, "L2_CACHE_SIZE"))
        return Stopwatch(cuda, cuda.allocate(size), size)

    def seconds(self, launch: Callable[[], None], count: int, budget: float = 0.2) -> list[float]:
        """Seconds of each of up to `count` launches; fewer, but at least 3, if they would take
        longer than `budget` seconds in all. One launch before them is not counted."""
        with self._events(2) as (start, end):
            first = self._batch(launch, [(start, end)])[0]
        repetitions = max(min(count, 3), min(count, int(budget / max(first, 1e-7))))
        with self._events(2 * repetitions) as events:
            return self._batch(launch, list(zip(events[::2], events[1::2], strict=True)))

    def _batch(self, launch: Callable[[], None], pairs: list[tuple[Any, Any]]) -> list[float]:
        cuda = self.cuda
        for start, end in pairs:
            cuda.check(cuda.cuda.cuMemsetD8Async(self._buffer, 0, self._size, 0), "cuMemsetD8Async")
            cuda.check(cuda.cuda.cuEventRecord(start, 0), "cuEventRecord")
            launch()
            cuda.check(cuda.cuda.cuEventRecord(end, 0), "cuEventRecord")
        cuda.synchronize()
        elapsed = cuda.cuda.cuEventElapsedTime
        return [cuda.check(elapsed(a, b), "cuEventElapsedTime") / 1e3 for a, b in pairs]

    @contextmanager
    def _events(self, count: int) -> Generator[list[Any]]:
        cuda = self.cuda
        events = [cuda.check(cuda.cuda.cuEventCreate(0), "cuEventCreate") for _ in range(count)]
        try:
            yield events
        finally:
            for event in events:
                cuda.cuda.cuEventDestroy(event)

    def close(self) -> None:
        """Free the memory that is used to flush the L2 cache."""
        self.cuda.free(self._buffer)


def attribute(cuda: CudaDriver, name: str) -> int:
    """The value of `CU_DEVICE_ATTRIBUTE_name` on the current device."""
    device = cuda.check(cuda.cuda.cuCtxGetDevice(), "cuCtxGetDevice")
    kind = getattr(cuda.cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return cuda.check(cuda.cuda.cuDeviceGetAttribute(kind, device), "cuDeviceGetAttribute")
