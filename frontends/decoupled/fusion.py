"""The Funcs of a kernel, and the legality of their schedules (section 3.3.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, cached_property, partial

import attrs

from tileir import Location
from tileir.frontends.decoupled.errors import error_at
from tileir.frontends.decoupled.model import Definitions, Func
from tileir.frontends.decoupled.nodes import Reduction, accesses, walk
from tileir.frontends.decoupled.schedule import Fusion


@attrs.frozen(slots=False)
class Group:
    """The Funcs of one kernel: `root`, whose tensor it writes, and the `members` fused into it, in
    dependence order.

    With `inline`, members are computed where they are read, whatever their schedules state.
    """

    root: Func
    members: tuple[Func, ...] = ()
    inline: bool = False

    @property
    def funcs(self) -> tuple[Func, ...]:
        """All of them, the root last."""
        return (*self.members, self.root)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all of them."""
        return frozenset(f.name for f in self.funcs)

    @property
    def reads(self) -> tuple[str, ...]:
        """Tensors that come from elsewhere."""
        result = (a.name for f in self.funcs for a in accesses(f.value))
        return tuple(dict.fromkeys(name for name in result if name not in self.names))

    @property
    def reductions(self) -> tuple[str, ...]:
        """Labels that are reduced somewhere in it."""
        return tuple(dict.fromkeys(r.label for f in self.funcs for r in reductions(f)))

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label that it has a loop for."""
        result = (*self.root.labels, *(n for f in self.members for n in f.labels))
        return tuple(dict.fromkeys((*result, *self.reductions)))


def reductions(func: Func) -> Iterator[Reduction]:
    """Reductions of an algorithm."""
    return (node for node in walk(func.value) if isinstance(node, Reduction))


def group(definitions: Definitions, name: str) -> Group:
    """The kernel of a Func."""
    inside: dict[str, None] = {}
    pending = list(definitions.direct_members.get(name, ()))
    while pending:
        func = pending.pop()
        if func != name and func not in inside:
            inside[func] = None
            pending += definitions.direct_members.get(func, ())
    in_order = sorted(inside, key=definitions.positions.__getitem__)
    funcs = definitions.funcs
    return Group(funcs[name], dependencies(funcs[name], [funcs[n] for n in in_order]))


def dependencies(root: Func, funcs: Sequence[Func]) -> tuple[Func, ...]:
    """The `funcs` that `root` depends on, in dependence order."""
    read = {a.name for a in accesses(root.value)}
    needed: list[Func] = []
    for func in reversed(funcs):
        if func.name in read:
            read |= {a.name for a in accesses(func.value)}
            needed.insert(0, func)
    return tuple(needed)


def groups(definitions: Definitions, name: str) -> tuple[Group, ...]:
    """The kernels that compute a Func, in the order they run."""
    done: dict[str, Group] = {}

    def visit(func: str) -> None:
        if func in done or func not in definitions.funcs:
            return
        own = group(definitions, func)
        for read in own.reads:
            visit(read)
        done[func] = own

    visit(name)
    return tuple(done.values())


def check(definitions: Definitions) -> None:
    """Reject schedules that are never legal. Raises CompilationError."""
    group_of = cache(partial(group, definitions))
    for func in definitions.funcs.values():
        if func.schedule.fusion:
            root = group_of(definitions.fusion_roots[func.name])
            _check_fusion(definitions, func, func.schedule.fusion, root)
    for func in definitions.funcs.values():
        own = group_of(func.name)
        if func.schedule.fusion:
            root = group_of(definitions.fusion_roots[func.name])
            if not _has_kernel(definitions, func, root):
                _check_member(func, func.schedule.fusion)
        _check_sizes(own)
        _check_map(definitions, own)
        _check_online(own)
        _check_evictions(own)
        if func.schedule.compiled == "compile_to_kernel" and any(
            name in definitions.funcs for name in own.reads
        ):
            missing = ", ".join(g.root.name for g in groups(definitions, func.name)[:-1])
            message = f"{func.name} is not a single kernel: it needs {missing}, not fused into it"
            raise error_at(message, func.schedule.place("compile_to_kernel"), "TIR1204")


def _check_fusion(definitions: Definitions, func: Func, fusion: Fusion, root: Group) -> None:
    """Check how `func` is fused into the kernel of `root`."""
    place = func.schedule.place("fuse_at")
    target = definitions.funcs.get(fusion.into)
    if target is None:
        raise error_at(f"{fusion.into} is no Func to fuse into", place, "TIR1202")
    if func.name == root.root.name:
        raise error_at(f"{func.name} is fused into itself", place, "TIR1204")
    if func.name not in root.names:
        message = f"{target.name} does not depend on {func.name}, which is to be fused into it"
        raise error_at(message, place, "TIR1204")
    if fusion.label in func.labels and fusion.label in {r.label for r in reductions(target)}:
        return
    _check_level(func, target, fusion.label, place)


def _check_level(func: Func, target: Func, label: str, place: Location | None) -> None:
    for one in (func, target):
        if label not in one.labels:
            raise error_at(f"{label} is not a dimension of {one.name}", place, "TIR1204")
    outer = [one.labels[: one.labels.index(label) + 1] for one in (func, target)]
    if outer[0] != outer[1]:
        shapes = " and ".join(f"{o.name}[{', '.join(o.labels)}]" for o in (func, target))
        message = f"{shapes} differ in the dimensions outside of {label}, at which they are fused"
        raise error_at(message, place, "TIR1204")


def _has_kernel(definitions: Definitions, func: Func, root: Group) -> bool:
    """Whether a Func that is fused into the kernel of `root` has a kernel of its own, too."""
    readers = definitions.readers.get(func.name, ())
    return bool(func.schedule.compiled) or not root.names.issuperset(readers)


_OF_KERNELS = ("block", "map", "num_warps", "num_stages", "atomic", "online", "reverse",
               "evict_first", "evict_last", "roles", "persistent")  # fmt: skip


def _check_member(func: Func, fusion: Fusion) -> None:
    for primitive in _OF_KERNELS:
        if place := func.schedule.place(primitive):
            message = f"{func.name} has no {primitive} of its own: it is fused into {fusion.into}"
            raise error_at(message, place, "TIR1204")


def _check_sizes(own: Group) -> None:
    root, schedule = own.root, own.root.schedule
    dimensions = {*root.labels, *(r.label for r in reductions(root))}
    for label in schedule.blocks:
        place = schedule.place(f"block {label}")
        if label not in dimensions:
            raise error_at(f"{label} is not a dimension of {root.name}", place, "TIR1204")
    dimensions = set(own.labels)
    for label, size in schedule.tensors.items():
        place = schedule.place(f"tensorize {label}")
        if label not in dimensions:
            raise error_at(f"{label} is not a dimension of {root.name}", place, "TIR1204")
        block = schedule.blocks.get(label, size)
        if size > block:
            message = f"the tensor size {size} of {label} is larger than its block size {block}"
            raise error_at(message, place, "TIR1204")
    _check_atomic(root)


def _check_atomic(root: Func) -> None:
    place = root.schedule.place("atomic")
    for label in root.schedule.atomic:
        if label not in root.schedule.blocks or label in root.labels:
            message = f"blocks of {root.name} join a reduction over {label} where block cuts it"
            raise error_at(message, place, "TIR1204")
        if not isinstance(root.value, Reduction) or root.value.label != label:
            message = f"the reduction over {label} is not the last operation of {root.name}"
            raise error_at(message, place, "TIR1204")


def _check_map(definitions: Definitions, own: Group) -> None:
    schedule, place = own.root.schedule, own.root.schedule.place("map")
    if not schedule.order:
        return
    pending: set[str] = set()
    placed: set[str] = set()
    for level in schedule.order:
        is_loop = level.label in pending or level.label in schedule.blocks
        if not is_loop or level.label in placed:
            why = "is there twice" if level.label in placed else "is not blocked"
            raise error_at(f"map: {level.label} {why}", place, "TIR1204")
        placed.add(level.label)
        pending.discard(level.label)
        if level.inner:
            if level.inner in definitions.symbols or level.inner in placed | pending:
                raise error_at(f"map: {level.inner} is taken", place, "TIR1204")
            pending.add(level.inner)
    labels = set(own.root.labels)
    missing = [n for n in schedule.blocks if n in labels and n not in placed]
    if pending or missing:
        names = ", ".join([*missing, *sorted(pending)])
        raise error_at(f"map has no level for {names}", place, "TIR1204")


def _check_online(own: Group) -> None:
    for label in own.root.schedule.reverse:
        if label not in own.root.schedule.blocks:
            place = own.root.schedule.place("reverse")
            raise error_at(f"reverse: {label} is not blocked", place, "TIR1204")
    for label in own.root.schedule.online:
        place = own.root.schedule.place("online")
        if label not in own.reductions:
            raise error_at(f"nothing is reduced over {label}", place, "TIR1204")
        if label in own.root.schedule.blocks:
            message = f"{label} is cut into blocks: no program instance sees all of it"
            raise error_at(message, place, "TIR1204")


def _check_evictions(own: Group) -> None:
    schedule = own.root.schedule
    touched = {own.root.name, *(a.name for f in own.funcs for a in accesses(f.value))}
    for primitive in ("evict_first", "evict_last"):
        for name in sorted(getattr(schedule, primitive)):
            place = schedule.place(primitive)
            if name not in touched:
                message = f"{primitive}: {own.root.name} neither reads nor writes {name}"
                raise error_at(message, place, "TIR1204")
            if name in schedule.evict_first & schedule.evict_last:
                raise error_at(f"{name} is to go both first and last", place, "TIR1204")
