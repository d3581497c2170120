"""A GPU that is not there: what asks for it, by name or by number, gets tensors without memory."""

import pytest


@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0])
def test_a_device_is_given_by_name_or_number(benchmarks, monkeypatch, device):
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    monkeypatch.syspath_prepend(str(benchmarks("triton_suite").HERE / "public"))
    fake_gpu = __import__("fake_gpu")
    with fake_gpu.fake_gpu():
        made = torch.empty(4, device=device)
        assert made.is_cuda and torch.zeros_like(made).shape == (4,)
