"""The purpose for which Inductor compiles a kernel, which it passes to its autotuner but not to
Triton."""

from __future__ import annotations

import sys

_AUTOTUNER = "torch._inductor.runtime.triton_heuristics"


def is_launched_from_cpp() -> bool:
    """Whether the kernel that is being compiled will be launched by C++ code that Inductor writes,
    as for AOTInductor and `cpp_wrapper`. The autotuner that compiles it stores its cubin then
    (`inductor_meta` of `CachingAutotuner`), in Inductor's processes that compile too."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_globals.get("__name__") == _AUTOTUNER:
            metadata = getattr(frame.f_locals.get("self"), "inductor_meta", None)
            if isinstance(metadata, dict):
                return bool(metadata.get("store_cubin"))
        frame = frame.f_back
    return False
