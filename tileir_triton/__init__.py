"""The entry points `triton.backends`, which Triton imports.

`import triton` imports these modules in every process of each user who has tileir installed. They
import neither tileir nor numpy, raise no errors, and change nothing unless the environment requests
it. `tileir.frontends.triton_backend` compiles and runs kernels; it is imported when the first
kernel needs it.
"""

from __future__ import annotations

__all__: list[str] = []
