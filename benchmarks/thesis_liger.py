"""The kernels of Liger for the cases of the thesis, if Liger is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def peer(name: str) -> Callable[..., torch.Tensor] | None:
    """The function of Liger for a case of `thesis_cases`, on the same inputs; None if there is
    none. `tvd` and `kl` return the sum over all rows."""
    try:
        import liger_kernel.ops  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        return None
    make = _PEERS.get(name)
    try:
        return make() if make else None
    except (ImportError, AttributeError):  # a release without this kernel
        return None


def _geglu() -> Callable[..., torch.Tensor]:
    from liger_kernel.ops.geglu import LigerGELUMulFunction as Geglu  # type: ignore

    return lambda a, b: Geglu.apply(a, b)


def _swiglu() -> Callable[..., torch.Tensor]:
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction as Swiglu  # type: ignore

    return lambda a, b: Swiglu.apply(a, b)


def _dyt() -> Callable[..., torch.Tensor]:
    from liger_kernel.ops.dyt import LigerDyTFunction as DyT  # type: ignore

    scales: dict[float, Any] = {}

    def call(x: Any, w: Any, v: Any, alpha: float) -> torch.Tensor:
        if alpha not in scales:
            scales[alpha] = torch.full((1,), alpha, device=x.device)
        return DyT.apply(x, scales[alpha], w, v)

    return call


def _rms_norm() -> Callable[..., torch.Tensor]:
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction as RMSNorm  # type: ignore

    return lambda x, w, eps, offset: RMSNorm.apply(x, w, eps, offset, "none", False)


def _softmax() -> Callable[..., torch.Tensor]:
    from liger_kernel.ops.softmax import LigerSoftmaxFunction as Softmax  # type: ignore

    return lambda a: Softmax.apply(a)


def _tvd() -> Callable[..., torch.Tensor]:
    from liger_kernel.ops.tvd import LigerTVDLossFunction as Tvd  # type: ignore

    return lambda p, q: Tvd.apply(p, q, None, "sum")


def _kl() -> Callable[..., torch.Tensor]:
    from liger_kernel.ops.kl_div import LigerKLDivLossFunction as Kl  # type: ignore

    return lambda p, q: Kl.apply(p, q, "sum")


_PEERS: dict[str, Callable[[], Callable[..., torch.Tensor]]] = {
    "geglu": _geglu, "swiglu": _swiglu, "dyt": _dyt, "rms_norm": _rms_norm, "softmax": _softmax,
    "tvd": _tvd, "kl": _kl,
}  # fmt: skip
