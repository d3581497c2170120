"""A simulated GPU: programs run to their end, and their kernels are compiled but not launched.

Within `fake_gpu()`, tensors have shapes but no memory (FakeTensor of torch) and report the device
`cuda:0`, and Triton's active driver is one for sm_90 whose launches do nothing. Kernels of a
library are thus compiled for the shapes that its authors use, on any machine and without the memory
of the tensors. Operators that depend on values (`item`, `tolist`) return ones.
"""
# ruff: noqa: ANN001, ANN002, ANN003, ANN202, ANN204

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import Any
from unittest import mock

import torch  # type: ignore[import-not-found]
from torch._subclasses.fake_impls import op_implementations_dict  # type: ignore[import-not-found]
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode  # type: ignore[import-not-found]
from torch.overrides import TorchFunctionMode  # type: ignore[import-not-found]

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)

PROPERTIES = types.SimpleNamespace(
    name="NVIDIA H100 80GB HBM3", major=9, minor=0, multi_processor_count=132,
    total_memory=80 << 30, warp_size=32, max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=65536, shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472,
    L2_cache_size=50 << 20, gcnArchName="", is_integrated=False, max_threads_per_block=1024,
    clock_rate=1980000, memory_clock_rate=2619000, memory_bus_width=5120,
)  # fmt: skip


class _CpuFallback(TorchFunctionMode):
    """A mode that runs calls of `cuda` on the CPU, if there is no GPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        if name == "cuda":
            return args[0]
        if name == "pin_memory":
            return args[0]
        if function is torch.device and len(args) > 1:
            return function(*args)
        kwargs.pop("pin_memory", None)
        args = tuple(_on_cpu(a) for a in args)
        kwargs = {k: _on_cpu(v) for k, v in kwargs.items()}
        if type(kwargs.get("device")) is int:  # the number of a GPU
            kwargs["device"] = CPU
        if name == "histc" and not args[0].is_floating_point():  # which only GPUs count
            return function(args[0].double(), *args[1:], **kwargs).to(args[0].dtype)
        return function(*args, **kwargs)


def _backward(tensor, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """`Tensor.backward` as a function that modes do not intercept: they apply to the operators that
    it calls."""
    gradient = torch.ones_like(tensor) if gradient is None else gradient
    torch.autograd.graph._engine_run_backward(
        (tensor,), (gradient,), bool(retain_graph), create_graph, (),
        allow_unreachable=True, accumulate_grad=True,
    )  # fmt: skip


def _grad(
    outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=None,
    **_,
):  # fmt: skip
    """`torch.autograd.grad` as a function that modes do not intercept."""
    outputs, inputs = (x if isinstance(x, (tuple, list)) else (x,) for x in (outputs, inputs))
    if grad_outputs is None or isinstance(grad_outputs, torch.Tensor):
        grad_outputs = (grad_outputs,) * len(outputs)
    gradients = [
        torch.ones_like(o) if g is None else g for o, g in zip(outputs, grad_outputs, strict=True)
    ]
    keep = create_graph if retain_graph is None else retain_graph
    return torch.autograd.graph._engine_run_backward(
        tuple(outputs), tuple(gradients), keep, create_graph, tuple(inputs),
        allow_unreachable=bool(allow_unused), accumulate_grad=False,
    )  # fmt: skip


def _on_cpu(value):
    if isinstance(value, torch.device):
        return CPU if value.type == "cuda" else value
    if isinstance(value, str) and value.split(":")[0] == "cuda":
        return CPU
    return value


def _property_by_caller(inside, outside):
    """A property with the value `inside` for modules of torch and tileir, and `outside` for all
    others."""

    def get(self):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        return inside(self) if caller.split(".")[0] in ("torch", "tileir") else outside

    return property(get)


class _Event:
    def __init__(self, *_, **__) -> None: ...
    def record(self, *_) -> None: ...
    def wait(self, *_) -> None: ...
    def synchronize(self) -> None: ...
    def elapsed_time(self, _) -> float:
        return 1.0


class _Stream(_Event):
    cuda_stream, device = 0, CUDA

    def wait_stream(self, _) -> None: ...
    def wait_event(self, _) -> None: ...
    def record_event(self, *_):
        return _Event()


class _Generator:
    """A random number generator: a seed and an offset."""

    def __init__(self) -> None:
        self.state = torch.zeros(2, dtype=torch.int64)

    def get_state(self):
        return self.state.view(torch.uint8)

    def set_state(self, state) -> None: ...


class _CpuGenerator(torch.Generator):
    """A random number generator on the CPU, for every device."""

    def __new__(cls, device="cpu"):
        return super().__new__(cls, "cpu")  # `torch.Generator` may be this class


class _Context:
    idx, prev_idx = 0, 0

    def __init__(self, *_, **__) -> None: ...
    def __enter__(self):
        return self

    def __exit__(self, *_) -> None: ...


def _cuda() -> dict[str, Any]:
    """The functions of `torch.cuda`, for one H100."""
    return {
        "is_available": lambda: True, "is_initialized": lambda: True, "device_count": lambda: 1,
        "current_device": lambda: 0, "set_device": lambda _: None, "synchronize": lambda *_: None,
        "get_device_name": lambda *_: PROPERTIES.name, "empty_cache": lambda: None,
        "get_device_capability": lambda *_: (9, 0), "init": lambda: None,
        "get_device_properties": lambda *_: PROPERTIES, "_lazy_init": lambda: None,
        "is_bf16_supported": lambda *_, **__: True, "current_stream": lambda *_: _Stream(),
        "default_stream": lambda *_: _Stream(), "Stream": _Stream, "Event": _Event,
        "device": _Context, "stream": _Context, "get_rng_state": lambda *_: torch.zeros(16),
        "mem_get_info": lambda *_: (70 << 30, 80 << 30),
        "is_current_stream_capturing": lambda: False, "manual_seed": lambda _: None,
        "manual_seed_all": lambda _: None,
        "default_generators": (_Generator(),),
        "get_arch_list": lambda: ["sm_90"], "_DeviceGuard": _Context,
    }  # fmt: skip


class _Utils:
    def get_device_properties(self, _) -> dict[str, int]:
        return {
            "max_shared_mem": PROPERTIES.shared_memory_per_block_optin, "max_num_regs": 65536,
            "multiprocessor_count": 132, "warpSize": 32, "sm_clock_rate": PROPERTIES.clock_rate,
            "mem_clock_rate": PROPERTIES.memory_clock_rate, "mem_bus_width": 5120,
        }  # fmt: skip

    def load_binary(self, *_):
        return 0, 0, 32, 0, 1024

    def unload_module(self, _) -> None: ...


def _launcher(_source, _metadata):
    return lambda *_, **__: None


def _driver():
    """A driver of Triton for the simulated GPU."""
    from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found]

    run = lambda call, *_, quantiles=None, **__: (call(), [1.0] * len(quantiles or [1]))[1]  # noqa: E731
    return types.SimpleNamespace(
        utils=_Utils(), launcher_cls=_launcher, get_current_device=lambda: 0,
        get_current_stream=lambda *_: 0, set_current_device=lambda _: None,
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        get_active_torch_device=lambda: CUDA, get_device_interface=lambda: torch.cuda,
        get_device_capability=lambda *_: (9, 0), get_benchmarker=lambda: run,
        get_empty_cache_for_benchmark=lambda: torch.empty(1, dtype=torch.int32),
        clear_cache=lambda _: None, map_python_to_cpp_type=lambda ty: ty,
    )  # fmt: skip


def _operators(stack: ExitStack) -> None:
    """Let operators that libraries define run their implementations, as PyTorch does in the end:
    modes do not apply to the functions that PyTorch calls. The same applies to Triton kernels
    within them. Operators with their own gradients are called unchanged."""
    from torch._library.custom_ops import OPDEFS, CustomOpDef  # type: ignore[import-not-found]
    from torch._library.triton import set_wrap_triton_enabled  # type: ignore[import-not-found]
    from torch._ops import OpOverloadPacket  # type: ignore[import-not-found]

    own_call, own_packet = CustomOpDef.__call__, OpOverloadPacket.__call__

    def call(operator, *args, **kwargs):
        run = operator._init_fn if operator._backward_fn is None else partial(own_call, operator)
        return run(*args, **kwargs)

    def call_packet(packet, /, *args, **kwargs):
        operator = OPDEFS.get(packet._qualified_op_name)
        run = partial(own_packet, packet) if operator is None else partial(call, operator)
        return run(*args, **kwargs)

    for place, name, value in (
        (CustomOpDef, "__call__", call), (OpOverloadPacket, "__call__", call_packet),
        (torch.accelerator, "current_accelerator", lambda *_, **__: CUDA),
    ):  # fmt: skip
        stack.enter_context(mock.patch.object(place, name, value))
    stack.enter_context(set_wrap_triton_enabled(False))


def _register_for_cpu(stack: ExitStack) -> None:
    """Let implementations of PyTorch's operators that libraries register for GPUs apply to the CPU.
    PyTorch calls them without the mode in which it called the operator. Operators of libraries are
    unchanged: a library may have an implementation for the CPU, too."""
    own = torch.library.Library.impl

    def impl(library, name, function, dispatch_key="", **options):
        key = dispatch_key or library.dispatch_key
        if key != "CUDA" or library.ns != "aten":
            return own(library, name, function, dispatch_key, **options)

        @wraps(function)
        def implementation(*args, **kwargs):
            with _CpuFallback():
                return function(*args, **kwargs)

        return own(library, name, implementation, "CPU", **options)

    stack.enter_context(mock.patch.object(torch.library.Library, "impl", impl))


def _address(self) -> int:
    """An aligned address at which there is no memory."""
    return (1 << 40) + self.storage_offset() * self.element_size()


def _time(call, *_, quantiles=None, return_mode="mean", **__):
    call()
    return [1.0] * len(quantiles) if quantiles else [1.0] if return_mode == "all" else 1.0


@contextmanager
def fake_gpu() -> Iterator[FakeTensorMode]:
    """A context with one simulated H100, for which kernels are compiled and not run."""
    import triton.testing  # type: ignore[import-not-found]
    from triton.runtime.driver import driver  # type: ignore[import-not-found]

    with ExitStack() as stack:
        enter = stack.enter_context
        for name, value in _cuda().items():
            enter(mock.patch.object(torch.cuda, name, value, create=True))
        enter(mock.patch.object(torch.version, "cuda", torch.version.cuda or "13.0"))
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        real = FakeTensor.device
        properties = {
            "device": _property_by_caller(real.fget, CUDA),
            "is_cuda": _property_by_caller(lambda _: False, True),
            "is_cpu": _property_by_caller(lambda _: True, False),
            "data_ptr": _address,
            "tolist": lambda self: _ones(self.shape),
            "get_device": lambda _: 0,
        }  # fmt: skip
        for name, value in properties.items():
            enter(mock.patch.object(FakeTensor, name, value, create=True))
        for name in ("do_bench", "do_bench_cudagraph"):
            enter(mock.patch.object(triton.testing, name, _time))
        enter(mock.patch.object(torch.Tensor, "backward", _backward))
        enter(mock.patch.object(torch.autograd, "grad", _grad))
        enter(mock.patch.dict(op_implementations_dict, _values()))
        raw = lambda _: 0  # noqa: E731
        enter(mock.patch.object(torch._C, "_cuda_getCurrentRawStream", raw, create=True))
        driver.set_active(_driver())
        _operators(stack)
        enter(fake)
        enter(_CpuFallback())
        yield fake


@contextmanager
def cpu_as_gpu() -> Iterator[None]:
    """A context in which tensors of the CPU report the device `cuda:0`, and kernels run there by
    Triton's backend `cpu`. Functions of `torch.cuda` return values for one H100."""
    import triton.testing  # type: ignore[import-not-found]
    from triton.backends import backends  # type: ignore[import-not-found]
    from triton.runtime.driver import driver  # type: ignore[import-not-found]

    own = backends["cpu"].driver

    class Driver(own):
        def get_active_torch_device(self):
            return CUDA

        def get_device_interface(self):
            return torch.cuda

        def get_device_capability(self, *_):
            return (9, 0)

    with ExitStack() as stack:
        enter = stack.enter_context
        for name, value in _cuda().items():
            enter(mock.patch.object(torch.cuda, name, value, create=True))
        enter(mock.patch.object(torch.version, "cuda", torch.version.cuda or "13.0"))
        raw = lambda _: 0  # noqa: E731
        enter(mock.patch.object(torch._C, "_cuda_getCurrentRawStream", raw, create=True))
        enter(mock.patch.object(torch, "Generator", _CpuGenerator))
        real = torch.Tensor.device
        properties = {
            "device": _property_by_caller(real.__get__, CUDA),
            "is_cuda": _property_by_caller(lambda _: False, True),
            "is_cpu": _property_by_caller(lambda _: True, False),
            "get_device": lambda _: 0,
        }
        for name, value in properties.items():
            enter(mock.patch.object(torch.Tensor, name, value))
        for name in ("do_bench", "do_bench_cudagraph"):
            enter(mock.patch.object(triton.testing, name, _time))
        enter(mock.patch.object(torch.Tensor, "backward", _backward))
        enter(mock.patch.object(torch.autograd, "grad", _grad))
        driver.set_active(Driver())
        _operators(stack)
        _register_for_cpu(stack)
        enter(_CpuFallback())
        yield


def _values() -> dict[Any, Any]:
    """The results of operators that depend on values, as if all values were ones."""
    aten = torch.ops.aten

    def one(_mode, _op, tensor):
        return True if tensor.dtype == torch.bool else 1.0 if tensor.is_floating_point() else 1

    def all_places(_mode, _op, tensor):
        return tensor.new_empty((tensor.numel(), tensor.dim()), dtype=torch.int64)

    def once(_mode, _op, repeats, output_size=None):
        return repeats.new_empty(repeats.numel() if output_size is None else output_size)

    return {
        aten._local_scalar_dense.default: one, aten.nonzero.default: all_places,
        aten.equal.default: lambda *_: True, aten.repeat_interleave.Tensor: once,
    }  # fmt: skip


@contextmanager
def no_fake_gpu() -> Iterator[None]:
    """A context in which tensors are those of the CPU, and torch.compile builds Triton kernels for
    them that are not launched. Inputs are aligned to 16 bytes, as on a GPU."""
    import torch._inductor.config as config  # type: ignore[import-not-found]
    import torch._inductor.graph as graph  # type: ignore[import-not-found]
    from torch.overrides import _pop_mode_temporarily as no_function_mode
    from torch.utils._python_dispatch import _disable_current_modes
    from triton.backends import Backend, backends  # type: ignore[import-not-found]
    from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found]
    from triton.backends.nvidia.compiler import CUDABackend  # type: ignore[import-not-found]

    class Driver:
        def __new__(cls):
            return _driver()

    def target(backend, requested):
        own(backend, GPUTarget("cuda", 90, 32) if requested.backend == "cpu" else requested)

    own = CUDABackend.__init__
    supports = staticmethod(lambda target: target.backend in ("cuda", "cpu"))
    with ExitStack() as stack:
        enter = stack.enter_context
        enter(_disable_current_modes())
        enter(no_function_mode())
        enter(mock.patch.object(CUDABackend, "__init__", target))
        enter(mock.patch.object(CUDABackend, "supports_target", supports))
        enter(mock.patch.dict(backends, {"cpu": Backend(_NoBackend, Driver)}))
        enter(mock.patch.object(torch.cuda, "is_available", lambda: False))
        enter(mock.patch.object(graph, "should_assume_input_aligned", lambda _: True))
        enter(config.patch(cpu_backend="triton", compile_threads=1, fx_graph_cache=False))
        yield


class _NoBackend:
    @staticmethod
    def supports_target(_) -> bool:
        return False


def _ones(shape):
    return [_ones(shape[1:]) for _ in range(shape[0])] if len(shape) else 1
