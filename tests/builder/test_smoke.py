"""A kernel made by the builder is a module the verifier accepts."""

from __future__ import annotations

from tileir.builder import F32, I32, Builder, pointer
from tileir.ir import InlineHint, Linkage, Visibility


def test_a_kernel_is_built() -> None:
    b = Builder()
    with b.kernel("sum", x=pointer(F32), n=I32) as (x, n):
        i, acc = b.arange(128), b.var(b.zeros(128), name="acc")
        with b.for_(0, n, 128, stages=3) as k:
            acc += (x + k + i).load(k + i < n, 0.0)
        x.store(acc.sum())
    kernel = b.module().kernel("sum")
    assert list(kernel.blocks) == ["entry", "loop", "body", "done"]
    assert [v.name for v in kernel.blocks["loop"].parameters] == ["i", "acc"]
    latch = kernel.blocks["body"].terminator
    assert latch.attributes["stages"] == 3


def test_settings_of_a_header_are_members_or_words() -> None:
    b = Builder()
    for name, private in (("f", "private"), ("g", Visibility.PRIVATE)):
        with b.function(name, None, x=I32):
            b.configure(visibility=private, linkage="linkonce", inline="noinline", alignment=16)
    functions = b.module().functions
    for name in ("f", "g"):
        settings = functions[name].visibility, functions[name].linkage, functions[name].inline
        assert settings == (Visibility.PRIVATE, Linkage.LINKONCE, InlineHint.NEVER)
