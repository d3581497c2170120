"""What Triton loads of tileir when it is imported: the entry points `triton.backends`.

`import triton` imports these modules in every process of everybody who has tileir installed, so
they import neither tileir nor numpy, raise nothing, and change nothing unless the environment asks
for it. What compiles and runs kernels is `tileir.frontends.triton_backend`, which they import when
the first kernel needs it.
"""

from __future__ import annotations

__all__: list[str] = []
