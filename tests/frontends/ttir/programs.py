"""Kernels in TTIR with what their values should be."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir import Module, interpret
from tileir.frontends.ttir import read

DTYPES = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


class Kernel:
    """A kernel that loads tensors of one dimension, `inputs`, computes others, and stores these."""

    def __init__(self, lanes: int, **inputs: tuple[str, Any]) -> None:
        self.lanes = lanes
        self.statements: list[str] = []
        self.inputs = {n: np.array(values, DTYPES[kind]) for n, (kind, values) in inputs.items()}
        self.types = {name: kind for name, (kind, _) in inputs.items()}
        self.expected: dict[str, Any] = {}

    def tensor(self, kind: str, *shape: int) -> str:
        """A type of tensors, of `lanes` elements unless a shape is given."""
        return f"tensor<{'x'.join(map(str, (*(shape or (self.lanes,)), kind)))}>"

    def add(self, name: str, kind: str, text: str, values: Any) -> None:
        """A statement, whose result has to be `values`."""
        self.statements.append(f"%{name} = {text}")
        self.types[name] = kind
        self.expected[name] = np.array(list(values), DTYPES[kind])

    def text(self) -> str:
        """The module."""
        parameters = ", ".join(f"%at_{name}: !tt.ptr<{kind}>" for name, kind in self.types.items())
        lines = [f"tt.func public @kernel({parameters}) {{"]
        for name, kind in self.types.items():
            size = len(self.inputs[name] if name in self.inputs else self.expected[name])
            pointers, places = self.tensor(f"!tt.ptr<{kind}>", size), self.tensor("i32", size)
            lines += [
                f"%l_{name} = tt.make_range {{end = {size} : i32, start = 0 : i32}} : {places}",
                f"%s_{name} = tt.splat %at_{name} : !tt.ptr<{kind}> -> {pointers}",
                f"%p_{name} = tt.addptr %s_{name}, %l_{name} : {pointers}, {places}",
            ]
            if name in self.inputs:
                lines.append(f"%{name} = tt.load %p_{name} : {pointers}")
        lines += self.statements
        for name, values in self.expected.items():
            pointers = self.tensor(f"!tt.ptr<{self.types[name]}>", len(values))
            lines.append(f"tt.store %p_{name}, %{name} : {pointers}")
        return "\n".join(["module {", *lines, "tt.return", "}", "}"])

    def read(self, **options: Any) -> Module:
        """The module, read with `options`."""
        return read(self.text(), **options)

    def check(self, rtol: float = 0.0, **options: Any) -> None:
        """Run the kernel in the interpreter, and compare all results."""
        outputs = {name: np.zeros_like(values) for name, values in self.expected.items()}
        arguments = [*self.inputs.values(), *outputs.values()]
        interpret(self.read(**options), "kernel", 1, arguments)
        for name, values in self.expected.items():
            if rtol:
                np.testing.assert_allclose(outputs[name], values, rtol=rtol, err_msg=name)
                continue
            np.testing.assert_array_equal(outputs[name], values, err_msg=name)
            if values.dtype.kind == "f":
                same = np.signbit(outputs[name]) == np.signbit(values)
                assert (same | np.isnan(values)).all(), name
