"""Block parameters of a thread as phis.

Elements narrower than a word that are unpacked from words on every edge, such as matrix fragments,
are carried as those words: this takes half the registers or fewer, and saves unpacking and
repacking. The elements that qualify are known only after all edges are known; until then both the
elements and their words have names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from tileir.backend.nvptx.text import is_literal, llvm_type
from tileir.backend.nvptx.thread import LlvmThread
from tileir.types import Element

if TYPE_CHECKING:
    from tileir.backend.codegen.block_interface import Edges


@attrs.frozen(eq=False, repr=False)
class _Group:
    """Elements that together fill a word, at an index among the handles of a block's parameters."""

    place: int
    element: Element
    names: tuple[str, ...]
    word: str

    def incoming(self, handles: Sequence[str]) -> tuple[str, ...]:
        """The handles of the group's elements among those that an edge passes."""
        return tuple(handles[self.place : self.place + len(self.names)])


@attrs.define(eq=False, repr=False)
class PhiBuilder:
    """Builds the phis of the parameters of all blocks of a function."""

    thread: LlvmThread
    _names: dict[str, list[tuple[Element, str]]] = attrs.field(init=False, factory=dict)
    _groups: dict[str, list[_Group]] = attrs.field(init=False, factory=dict)

    def add_parameter(self, label: str, element: Element, count: int) -> list[str]:
        """Names for the next parameter of block `label`, `count` of `element`."""
        typed_names, names = (
            self._names.setdefault(label, []),
            [self.thread.fresh() for _ in range(count)],
        )
        each = self.thread.per_word(element)
        if each > 1:
            groups = self._groups.setdefault(label, [])
            for start in range(0, count - each + 1, each):
                part, word = tuple(names[start : start + each]), self.thread.fresh()
                self.thread.know_word(element, part, word)
                groups.append(_Group(len(typed_names) + start, element, part, word))
        typed_names += [(element, name) for name in names]
        return names

    def write(self, places: Mapping[str, int], edges: Mapping[str, Edges]) -> None:
        """Insert the phis of every block at its place among the lines of the thread."""
        carried = self.packed_words(edges)
        for label, place in places.items():
            lines = self.lines(label, edges.get(label, ()), carried)
            self.thread.lines[place] = "\n".join(lines)

    def lines(self, label: str, edges: Edges, carried: set[str]) -> list[str]:
        """The first lines of block `label`, if the words `carried` are carried as words."""
        heads, after_phis, done = list[str](), list[str](), set[int]()
        for group in self._groups.get(label, ()):
            if group.word in carried:
                words = [(b, self.thread.word(group.element, group.incoming(h))) for b, h in edges]
                heads.append(_phi("i32", group.word, [(b, str(w)) for b, w in words]))
                after_phis += self.thread.parting(group.element, group.names, group.word)
                done.update(range(group.place, group.place + len(group.names)))
            elif self.thread.is_reused(group.word):
                after_phis += self.thread.joining(group.element, group.names, group.word)
        for place, (element, name) in enumerate(self._names.get(label, ())):
            if place not in done:
                heads.append(_phi(llvm_type(element), name, [(b, h[place]) for b, h in edges]))
        return heads + after_phis

    def packed_words(self, edges: Mapping[str, Edges]) -> set[str]:
        """The names of the words that every edge passes packed: the largest such set."""
        waiting = [
            (group.word, list(self._sources(group, edges.get(label, ()))))
            for label, groups in self._groups.items()
            for group in groups
        ]
        words = {word for word, _ in waiting}
        own = set(words)
        while True:
            packable = {
                w for w, sources in waiting if w in words and _all_words(sources, own - words)
            }
            if packable == words:
                return words
            words = packable

    def _sources(self, group: _Group, edges: Edges) -> Iterator[str | None]:
        for _, handles in edges:
            yield self.thread.word(group.element, group.incoming(handles))


def _all_words(sources: Sequence[str | None], elements: set[str]) -> bool:
    """Whether all sources are words, at least one of them is not a literal, and none is one of
    `elements`, of which only the elements exist."""
    words = [w for w in sources if w is not None and w not in elements]
    return len(words) == len(sources) and any(not is_literal(w) for w in words)


def _phi(kind: str, name: str, sources: Sequence[tuple[str, str]]) -> str:
    joined = ", ".join(f"[ {handle}, %{label} ]" for label, handle in sources)
    return f"  {name} = phi {kind} {joined}"
