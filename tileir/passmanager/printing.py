"""An observer that prints modules around passes, whole or as a diff."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

import attrs

from tileir.ir import Module
from tileir.passmanager.manager import Step
from tileir.passmanager.pipeline import PipelineNode
from tileir.passmanager.renumbering import renumber


@attrs.frozen
class Printing:
    """Print what passes are given and give.

    `before` and `after` name the passes to print at (None: all of them); `changed` prints a diff
    of what each pass changed, in which values without names that stay keep their numbers. `render`
    gives the text of a module, `write` receives it.
    """

    render: Callable[[Module], str]
    write: Callable[[str], object]
    before_passes: frozenset[str] | None = frozenset()
    after_passes: frozenset[str] | None = frozenset()
    changed: bool = False

    def before(self, step: Step) -> None:
        if _is_selected(step, self.before_passes):
            self.write(f"; before {step.title}\n{self.render(step.before)}\n")

    def after(self, step: Step, module: Module) -> None:
        if _is_selected(step, self.after_passes):
            same = " (unchanged)" if module is step.before else ""
            self.write(f"; after {step.title}{same}\n{self.render(module)}\n")
        if self.changed and module is not step.before:
            self.write(self._diff(step, module))

    def on_failure(self, step: Step, pipeline: Sequence[PipelineNode], error: Exception) -> None:
        self.write(f"; {step.title} failed\n")

    def _diff(self, step: Step, module: Module) -> str:
        old = self.render(step.before).splitlines(keepends=True)
        new = renumber(old, self.render(module).splitlines(keepends=True))
        title = step.title
        return "".join(difflib.unified_diff(old, new, f"before {title}", f"after {title}"))


def _is_selected(step: Step, names: frozenset[str] | None) -> bool:
    return names is None or step.node.name in names
