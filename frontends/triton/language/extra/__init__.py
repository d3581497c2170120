"""`triton.language.extra`: what belongs to a target."""

from tileir.frontends.triton.language.extra import cuda, libdevice

__all__ = ["cuda", "libdevice"]
