"""What the environment says, and the report."""

import pytest

from tests.sizes import for_each
from tileir.frontends.triton_backend import KernelRecord, KernelReport
from tileir_triton.settings import Settings


@for_each(("text", "shown"), [
        ("", "0"), ("0", "0"), ("off", "0"), ("no, false", "0"), ("1", "1"), ("True", "1"),
        ("strict", "strict"), ("1,strict", "strict"), ("softmax*", "pattern:softmax*"),
        ("pattern:_fwd,pattern:*_bwd", "pattern:_fwd,pattern:*_bwd"),
        ("strict,matmul_?", "strict,pattern:matmul_?"),
    ])  # fmt: skip
def test_settings_are_read(text, shown):
    assert str(Settings.of(text)) == shown
    assert str(Settings.of(shown)) == shown


@pytest.mark.parametrize(
    ("text", "kernel", "covered"),
    [
        ("1", "anything", True), ("pattern:soft*", "softmax", True), ("soft*", "layernorm", False),
        ("add,mul", "mul", True), ("add", "add2", False), ("strict", "anything", True),
    ],
)  # fmt: skip
def test_patterns_say_which_kernels(text, kernel, covered):
    assert Settings.of(text).covers(kernel) is covered


def test_a_report_is_a_table():
    rows = (
        KernelRecord("add", "tileir", "", 4, 12.4),
        KernelRecord("mm", "triton", "a\nreason", 8, 0.0, True),
    )
    assert str(KernelReport(rows)).splitlines() == [
        "kernels: 2, by tileir: 1",
        "kernel  compiler  warps  tileir took  reason",
        "add     tileir    4      12 ms",
        "mm      triton    8      cached       a reason",
    ]


def test_a_report_is_asked_for_a_kernel():
    rows = (KernelRecord("add", "tileir"), KernelRecord("mm", "triton"))
    assert KernelReport(rows).of("mm") == rows[1:]
    assert len(KernelReport(rows)) == 2


def test_links_to_nothing_are_no_sources(tmp_path):
    """Editors lock a file with a link that leads nowhere."""
    from tileir_triton.version import _sources

    (tmp_path / "a.py").write_text("")
    before = list(_sources(str(tmp_path)))
    (tmp_path / ".#a.py").symlink_to("user@machine.1")
    assert list(_sources(str(tmp_path))) == before != []
