"""Metadata of a compiled kernel for launchers, tuners and other compilers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tileir.analysis.argument_effects import effects
from tileir.analysis.clusters import ranks
from tileir.backend.legal import within
from tileir.backend.nvptx.text import kernel_name
from tileir.errors import CompileError, Diagnostic
from tileir.ir import AttributeValue, Function, Module
from tileir.ops.program import GridQuery
from tileir.types import F4E2M1, I4, Descriptor, Pointer

_HOST = r"host\.([a-z_]+)(\d+)"


@attrs.frozen
class KernelParameter:
    """A parameter of the kernel.

    - `type` is its type in the text.
    - `aligned` and `multiple_of` are assumptions of the kernel about the address in bytes and about
      the integer.
    - `reads`, `writes` and `atomics` state how the kernel accesses the memory of a pointer or
      descriptor. With `escapes` it may access the memory in any way.
    """

    name: str
    type: str
    aligned: int = 1
    multiple_of: int = 1
    reads: bool = False
    writes: bool = False
    atomics: bool = False
    escapes: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The types of the values that are passed for the parameter. A descriptor is passed as its
        address, then its extents as 64-bit integers, then its strides in elements."""
        if not self.type.startswith("tensor_desc"):
            return (self.type,)
        rank = self.type.count(",") + 1
        return ("i8*", *("i64",) * (2 * rank))

    def __repr__(self) -> str:
        return f"<parameter {self.type} %{self.name}>"


@attrs.frozen(repr=False)
class HostStep:
    """A step of the host before the launch.

    `kind` is the kind of step ("guard", "tensor_map", ...), `value` its arguments. The text stores
    it in the module's metadata: `host.guard0 = ...`.
    """

    kind: str
    value: AttributeValue


@attrs.frozen
class Metadata:
    """The interface of a compiled kernel: name, target, warps per block, shared memory and
    parameters.

    - `shared` is the number of bytes of shared memory per block; `dynamic` if they are requested at
      launch.
    - `axes` is the number of grid extents that the program uses; the instances along other axes
      compute the same.
    - `cluster` is the number of blocks that are resident together, for one program instance or for
      neighbouring ones.
    - `registers` is a number per thread, `spills` and `stack` are bytes per thread. They are known
      once the code is assembled.
    """

    kernel: str
    target: str
    num_warps: int
    shared: int
    dynamic: bool
    parameters: tuple[KernelParameter, ...]
    registers: int | None = None
    spills: int | None = None
    stack: int | None = None
    axes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    globals: tuple[str, ...] = ()
    """Names of the globals that the kernel uses, which `LoadedKernel.fill` fills."""
    host_plan: tuple[HostStep, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The type of each argument."""
        return tuple(p.type for p in self.parameters)

    @property
    def symbol(self) -> str:
        """The name of the kernel in the machine code."""
        return kernel_name(self.kernel)

    @property
    def threads(self) -> int:
        """The number of threads per block."""
        return self.num_warps * 32

    def blocks(self, grid: Sequence[int]) -> tuple[int, int, int]:
        """Return the grid of blocks for a grid of program instances with 1 to 3 extents."""
        extents = zip((*grid, 1, 1)[:3], self.cluster, strict=True)
        x, y, z = (n * blocks for n, blocks in extents)
        return x, y, z

    def __repr__(self) -> str:
        count = len(self.parameters)
        return f"<metadata of @{self.kernel}: {count} parameters, {self.num_warps} warps>"

    def to_json(self) -> dict[str, Any]:
        """Return the fields, in order, as values that JSON can represent."""
        return attrs.asdict(self)

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Metadata:
        """Return the metadata that `to_json` converted to `fields`. Raises TypeError, KeyError or
        ValueError for other values."""
        plan = tuple(HostStep(s["kind"], _value(s["value"])) for s in fields["host_plan"])
        lists = {name: tuple(fields[name]) for name in ("cluster", "globals")}
        parameters = tuple(KernelParameter(**p) for p in fields["parameters"])
        all_fields: dict[str, Any] = {
            **fields,
            **lists,
            "parameters": parameters,
            "host_plan": plan,
        }
        metadata = Metadata(**all_fields)
        _check_types(metadata)
        return metadata


_NUMBERS = ("num_warps", "shared", "axes")
_UNKNOWN_BEFORE = ("registers", "spills", "stack")


def _check_types(metadata: Metadata) -> None:
    """Raise TypeError if a field does not have its declared type."""
    numbers = [getattr(metadata, name) for name in _NUMBERS]
    numbers += [n for name in _UNKNOWN_BEFORE if (n := getattr(metadata, name)) is not None]
    numbers += metadata.cluster
    texts = [
        metadata.kernel,
        metadata.target,
        *metadata.globals,
        *(s.kind for s in metadata.host_plan),
    ]
    texts += [p.type for p in metadata.parameters] + [p.name for p in metadata.parameters]
    if not all(type(n) is int and n >= 0 for n in numbers) or len(metadata.cluster) != 3:
        raise TypeError(f"numbers are natural: {numbers}")
    if not all(isinstance(text, str) for text in texts) or type(metadata.dynamic) is not bool:
        raise TypeError("names and types are strings")


def _value(value: Any) -> AttributeValue:
    return tuple(value) if isinstance(value, list) else value


def metadata_of(
    kernel: Function, prepared: Function, last: Module, target: str, num_warps: int, shared: int,
    dynamic: bool,
) -> Metadata:  # fmt: skip
    """The metadata of `kernel`. `prepared` is the kernel with calls inlined, `last` the module at
    the last stage before code generation."""
    planned = ((k, v) for k, v in last.metadata.items() if k.startswith("host."))
    plan = tuple(HostStep(m[1], v) for k, v in planned if (m := re.fullmatch(_HOST, k)))
    reached = within(last, kernel.name)
    return Metadata(
        kernel.name, target, num_warps, shared, dynamic, arguments_of(kernel, prepared),
        axes=_axes(prepared), cluster=(ranks(last, last.functions[kernel.name]), 1, 1),
        globals=tuple(g.name for g in reached.globals.values() if not g.external),
        host_plan=plan,
    )  # fmt: skip


def arguments_of(function: Function, prepared: Function) -> tuple[KernelParameter, ...]:
    """The parameters of `function`, with the effects of `prepared`. The parameters of `prepared`
    are the same, except that descriptors are expanded to an address and numbers. Raises
    `CompileError` (TIR0706) for a parameter that cannot be passed."""
    accesses, values = effects(prepared), [p.value for p in prepared.parameters]
    arguments: list[KernelParameter] = []
    for index, parameter in enumerate(function.parameters):
        promises, kind = parameter.attributes, parameter.type
        if kind in (I4, F4E2M1):
            message = f"parameter {parameter.name or index} has type {kind}, of less than a byte"
            raise CompileError(Diagnostic("TIR0706", message, parameter.location))
        plain = KernelParameter(
            parameter.name or f"a{index}", str(kind), promises.aligned or 1,
            promises.multiple_of or 1,
        )  # fmt: skip
        if isinstance(kind, (Pointer, Descriptor)):
            access = accesses.of(values[0]) | accesses.elsewhere
            plain = attrs.evolve(
                plain, reads=access.read, writes=access.written, atomics=access.atomic,
                escapes=access.escapes,
            )  # fmt: skip
        arguments.append(plain)
        values = values[len(plain.words) :]
    return tuple(arguments)


def _axes(function: Function) -> int:
    axes = [op.axis for op in function.ops if isinstance(op, GridQuery)]
    return max(axes, default=-1) + 1
