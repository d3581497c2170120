"""A function of Tile, and the program it is for tensors of given types and shapes."""

from __future__ import annotations

from functools import cache
from typing import Any

import attrs

from tileir.builder.contraction import Program, Tensor, TensorFunction, element_and_shape
from tileir.frontends import sources
from tileir.frontends.extras import lark
from tileir.frontends.sources import Source, Wrong
from tileir.frontends.tile.contractions import contraction_stage
from tileir.frontends.tile.definitions import definition_stage
from tileir.frontends.tile.frame import Frame


@attrs.frozen(eq=False)
class TileFunction:
    """A parsed function: `inputs` and `outputs` are the names of its tensors."""

    source: Source
    tree: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __call__(self, *arrays: Any, on: str | None = None, **options: Any) -> Any:
        """The outputs, one array or a tuple, for one array or number per input, on an executor.
        Raises CompilationError and LaunchError."""
        return self.compile(*arrays)(*arrays, on=on, **options)

    def compile(self, *inputs: Any) -> TensorFunction:
        """Compile the function for inputs: arrays, numbers, or pairs (element type, shape).

        Raises CompilationError and LaunchError.
        """
        frame = Frame(self.source)
        parameters = _children(self.tree, "parameters")
        with self.source.at(self.tree):
            if len(inputs) != len(parameters):
                count = len(parameters)
                raise Wrong("TIR1303", f"the function takes {count} tensors, not {len(inputs)}")
        bound = [_bind(frame, node, item) for node, item in zip(parameters, inputs, strict=True)]
        for node in self.tree.children[3:]:
            with self.source.at(node):
                statement = contraction_stage if node.data == "contraction" else definition_stage
                frame.stages.append(statement(frame, node))
        outputs = tuple(self._output(frame, name) for name in self.outputs)
        program = Program(tuple(frame.stages), outputs)
        with self.source.at(self.tree):
            _ = program.launches
        return TensorFunction(program, tuple(bound))

    def _output(self, frame: Frame, name: str) -> Tensor:
        node = self.tree.children[2]
        with self.source.at(node):
            tensor = frame.tensor(name)
            if name in self.inputs:
                raise Wrong("TIR1302", f"the output {name} is an input, and no statement's")
        return tensor


def parse(text: str, file: str = "<string>") -> TileFunction:
    """Parse a function. Raises CompilationError."""
    source = Source(text, file, "TIR1301")
    tree = sources.parse(source, _grammar())
    inputs = tuple(str(node.children[0]) for node in _children(tree, "parameters"))
    outputs = tuple(str(name) for name in tree.children[2].children)
    with source.at(tree):
        if len(set(inputs)) != len(inputs) or len(set(outputs)) != len(outputs):
            raise Wrong("TIR1302", "two tensors have one name")
    return TileFunction(source, tree, inputs, outputs)


@cache
def _grammar() -> lark.Lark:
    return sources.grammar(
        "tileir.frontends.tile",
        "BAR", "CARET", "AMPERSAND", "EQUALITY", "RELATION", "SHIFT", "SIGN", "SCALE",
    )  # fmt: skip


def _children(tree: Any, name: str) -> list[Any]:
    result = [n for n in tree.children if getattr(n, "data", None) == name]
    return result[0].children if result else []


def _bind(frame: Frame, node: Any, item: Any) -> Tensor:
    """A parameter and its sizes."""
    name, extents = str(node.children[0]), node.children[1]
    element, shape = element_and_shape(item)
    tensor = Tensor(name, element, shape)
    with frame.source.at(node):
        frame.declare(name, tensor)
        if extents is not None:
            frame.sizes_of(tensor, [str(n) for n in extents.children if n is not None])
    return tensor
