"""Joining modules: declarations resolve to definitions, equal symbols merge, clashes are errors.

Rules, per name: a declaration must have the type of the definition. Of two definitions, a weak
one gives way to any other (to the first where both are weak); two `linkonce` ones must be equal
and become one; anything else is a clash. Equal globals merge; a global without initial value
takes the other's. Private symbols never clash: they are renamed where their names are equal.
Library functions (`tileir.std`) are linked for declarations that nothing else defines.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeVar

import attrs

from tileir.errors import Diagnostic, LinkError, Location
from tileir.ir import AttributeValue, Function, Global, Linkage, Module, Visibility
from tileir.symbol_equality import callee_declarations, fingerprint, rename_symbols, type_of

_S = TypeVar("_S", Function, Global)

Library = Callable[[Function], Function | None]
"""Returns the definition of a declaration, or None if there is none of that name and type."""


def link(*modules: Module, std: bool = True, library: Library | None = None) -> Module:
    """Link `modules` into one module with all their symbols, in order of first appearance.

    Metadata is merged, the version is the newest, and all modules must be of the same stage. `std`
    adds definitions of the standard library for declarations without a definition; `library` is a
    module that is searched before it. Other declarations stay.

    Raises LinkError (TIR0330 to TIR0336) with all conflicts.
    """
    problems: list[Diagnostic] = []
    renamed = list(_separate(modules))
    functions: dict[str, Function] = {}
    variables: dict[str, Global] = {}
    for module in renamed:
        _join(functions, module.functions, _pick_function, problems)
        _join(variables, module.globals, _pick_global, problems)
    problems += _kind_clashes(functions, variables)
    stage = _one_stage(modules, problems)
    metadata = _merge_metadata(modules, problems)
    if problems:
        raise LinkError(*problems)
    joined = Module(
        functions,
        variables,
        metadata,
        version=max((m.version for m in modules), default=Module().version),
        stage=stage,
        source=modules[0].source if len(modules) == 1 else None,
        comments=tuple(line for m in modules for line in m.comments),
        header_comments=tuple(line for m in modules for line in m.header_comments),
    )
    return _resolve(joined, [library] if library else [], std)


def undefined_functions(module: Module) -> Iterator[Function]:
    """The functions that `module` declares and does not define."""
    return (f for f in module.functions.values() if f.is_declaration)


# Names -------------------------------------------------------------------------------------


def _separate(modules: tuple[Module, ...]) -> Iterator[Module]:
    """The modules, private symbols renamed where another module has the name."""
    public = {name for m in modules for name, symbol in _symbols(m) if not _is_private(symbol)}
    names = {name for m in modules for name, _ in _symbols(m)}
    used: set[str] = set()
    for module in modules:
        private = [name for name, symbol in _symbols(module) if _is_private(symbol)]
        changes: dict[str, str] = {}
        for name in private:
            fresh = name
            if name in public or name in used:
                fresh = _fresh(name, names)
                names.add(fresh)
            used.add(fresh)
            if fresh != name:
                changes[name] = fresh
        yield rename_symbols(module, changes) if changes else module


def _symbols(module: Module) -> Iterator[tuple[str, Function | Global]]:
    yield from module.functions.items()
    yield from module.globals.items()


def _is_private(symbol: Function | Global) -> bool:
    return symbol.visibility is Visibility.PRIVATE


def _fresh(name: str, used: set[str]) -> str:
    number = 1
    while f"{name}.{number}" in used:
        number += 1
    return f"{name}.{number}"


# Choosing between two symbols of one name --------------------------------------------------


def _join(
    into: dict[str, _S],
    symbols: Mapping[str, _S],
    pick: Callable[[_S, _S], _S | Diagnostic],
    problems: list[Diagnostic],
) -> None:
    for name, symbol in symbols.items():
        old = into.get(name)
        chosen = symbol if old is None else pick(old, symbol)
        if isinstance(chosen, Diagnostic):
            problems.append(chosen)
        else:
            into[name] = chosen


def _pick_function(old: Function, new: Function) -> Function | Diagnostic:
    if type_of(old) != type_of(new):
        message = f"@{new.name} is {type_of(new)} here and {type_of(old)} elsewhere"
        return _clash("TIR0330", message, new.location, old.location)
    if old.is_declaration or new.is_declaration:
        return new if old.is_declaration else old
    if old is new:
        return old
    if Linkage.WEAK in (old.linkage, new.linkage):
        return new if old.linkage is Linkage.WEAK and new.linkage is not Linkage.WEAK else old
    if old.linkage is new.linkage is Linkage.LINKONCE:
        if fingerprint(old) == fingerprint(new):
            return old
        message = f"two linkonce definitions of @{new.name} differ"
        return _clash("TIR0332", message, new.location, old.location)
    return _clash("TIR0331", f"@{new.name} is defined twice", new.location, old.location)


def _pick_global(old: Global, new: Global) -> Global | Diagnostic:
    if _kind(old) != _kind(new):
        message = f"@{new.name} is {type_of(new)} here and {type_of(old)} elsewhere"
        return _clash("TIR0333", message, new.location, old.location)
    weak = old.linkage is Linkage.WEAK, new.linkage is Linkage.WEAK
    if weak == (True, False) and not new.external:
        return _with_stricter_alignment(new, old)
    if new.initial is None or new.initial == old.initial or weak == (False, True):
        return (
            _with_stricter_alignment(old, new)
            if not old.external
            else _with_stricter_alignment(new, old)
        )
    if old.initial is None or weak == (True, True):
        return _with_stricter_alignment(new if old.initial is None else old, old)
    message = f"@{new.name} has two different initial values"
    return _clash("TIR0334", message, new.location, old.location)


def _kind(symbol: Global) -> Hashable:
    return symbol.element, symbol.count, symbol.constant, symbol.space


def _with_stricter_alignment(chosen: Global, other: Global) -> Global:
    """`chosen` with the stricter alignment of the two, defined where one of them is."""
    alignment = max(chosen.alignment, other.alignment)
    external = chosen.external and other.external
    if (alignment, external) == (chosen.alignment, chosen.external):
        return chosen
    return attrs.evolve(chosen, alignment=alignment, external=external)


def _kind_clashes(
    functions: Mapping[str, Function], variables: Mapping[str, Global]
) -> Iterator[Diagnostic]:
    for name in functions.keys() & variables.keys():
        message = f"@{name} is a function here and a global elsewhere"
        yield _clash("TIR0335", message, functions[name].location, variables[name].location)


def _clash(code: str, message: str, here: Location | None, there: Location | None) -> Diagnostic:
    return Diagnostic(code, message, here, notes=(Diagnostic(code, "the other is here", there),))


# What belongs to the module ----------------------------------------------------------------


def _one_stage(modules: tuple[Module, ...], problems: list[Diagnostic]) -> str | None:
    stages = {m.stage for m in modules}
    if len(stages) > 1:
        names = ", ".join(sorted(_source(m) + f" ({m.stage or 'no stage'})" for m in modules))
        problems.append(Diagnostic("TIR0336", f"modules of different stages: {names}"))
    return modules[0].stage if modules else None


def _merge_metadata(
    modules: tuple[Module, ...], problems: list[Diagnostic]
) -> dict[str, AttributeValue]:
    merged: dict[str, AttributeValue] = {}
    owner: dict[str, Module] = {}
    for module in modules:
        for key, value in module.metadata.items():
            if key in merged and merged[key] != value:
                message = f"{key} is {merged[key]!r} in {_source(owner[key])} and {value!r} in "
                problems.append(Diagnostic("TIR0337", message + _source(module)))
            merged.setdefault(key, value)
            owner.setdefault(key, module)
    return merged


def _source(module: Module) -> str:
    return module.source or "a module"


# Libraries ---------------------------------------------------------------------------------


def _resolve(module: Module, libraries: list[Library], std: bool) -> Module:
    missing = list(undefined_functions(module))
    if std and missing:
        from tileir.std import define  # loads the text reader, which nothing else here needs

        libraries = [*libraries, define]
    functions: dict[str, Function] = {}
    while missing:
        declared = missing.pop()
        definitions = (library(declared) for library in libraries)
        definition = next((d for d in definitions if d is not None), None)
        if definition is not None:
            functions[declared.name] = definition
            missing += (
                f
                for f in callee_declarations(definition)
                if f.name not in {*module.functions, *functions}
            )
    return module.with_functions({**module.functions, **functions}) if functions else module
