"""Launches of Triton's kernels by tileir's dispatcher (`tileir.backend.runtime.dispatch`).

Triton's launchers pass the kernel's parameters and nothing else. A kernel whose dots read blocks of
strided tensors has a second version: warp-specialized, with tensor maps that the host encodes
before a launch, and the dispatcher caches by their contents. Descriptors of the host with NaN as
padding have a version of their own too. Where neither applies, Triton's launcher launches the first
version.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from operator import itemgetter
from typing import Any, cast

from tileir.analysis.alignment import alignment
from tileir.analysis.dominance import post_dominance
from tileir.analysis.induction import trip_count
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import uses
from tileir.backend.compile import warp_specialized
from tileir.backend.options import Options
from tileir.backend.runtime.disjoint import separate, separation
from tileir.backend.target import target as target_named
from tileir.errors import TileirError
from tileir.executor import KernelCall, Parts, descriptor_parts
from tileir.frontends import ttir
from tileir.frontends.triton_backend.descriptors import (
    LONGEST_VECTOR,
    descriptor_places,
    last_extents,
    pads_with_nan,
    with_made_descriptors,
    with_multiples,
)
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.ops.hopper import TensorMap, TmaLoad, Wgmma, WgmmaWait
from tileir.ops.memory import Load
from tileir.types import Descriptor, Scalar, Tile, shape_of
from tileir.values import Constant, Value
from tileir_triton.launching import TENSOR_MAPS

Launch = Callable[..., Any]
"""`launch(x, y, z, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook,
*arguments)`, the arguments with the constant ones: Triton's launchers, 3.3 to 3.9."""


def options_with_maps(
    module: Module, kernel: str, options: Mapping[str, Any], target: str
) -> dict[str, Any]:
    """The options of the version of `kernel` with tensor maps, for the kernel's metadata; empty
    where there is none. The first launch compiles it, unless this process compiles for others: it
    is then put into tileir's cache, for launches to find it."""
    machine = target_named(target)
    if not (machine.tma and machine.wgmma):
        return {}
    chosen = _options_alone(module, kernel, options, target)
    chosen = chosen or _options_of_concurrent_blocks(module, kernel, options, target)
    if chosen and compiles_for_others():
        from tileir.backend.runtime.cache import Cache  # few processes compile for others

        Cache.usual().compile(_separate_arrays(module, kernel), target, Options.of(chosen), kernel)
    return chosen


def _separate_arrays(module: Module, kernel: str) -> Module:
    """The version of `kernel` for arrays that do not overlap, as those of torch seldom do."""
    compared = separation(module.functions[kernel])
    return module if compared is None else separate(module, kernel, compared.written)


def _options_alone(
    module: Module, kernel: str, options: Mapping[str, Any], target: str
) -> dict[str, Any]:
    """The options where a warp-specialized block has a processor for itself."""
    warps, stages = max(options["num_warps"], _WARPS), max(options["num_stages"], 1)
    chosen = {"num_warps": warps, "num_stages": stages}
    function = module.functions[kernel]
    if not _keeps_tensor_cores_busy(function):
        return {}
    if options["num_warps"] < _WARPS and _shares_processors(function, options["num_warps"]):
        return {}
    roles = warp_specialized(_separate_arrays(module, kernel), target, chosen, kernel)
    if roles is None:
        return {}
    few_rows = _fewest_rows(function) < _FEWEST_ROWS
    adds_up = _have_one_dot(function) or _are_all_in_flight(roles.functions[f"{kernel}.consumer"])
    if adds_up and _streams(roles, kernel):
        consumer = roles.functions[f"{kernel}.consumer"]
        in_flight = all(_is_in_flight(ops) for ops in _multiplying_ops(consumer))
        if few_rows and not (in_flight and _copies_lines(roles, kernel)):
            return {}
        chosen |= {"ring_stages": _MOST_STAGES, "non_tma_variants": False}
        if few_rows:
            chosen |= {"num_warps": _WARPGROUP, "pingpong": True}
    elif few_rows or not _fill_registers(function):
        return {}
    elif stages < _FEWEST_STAGES:
        chosen["ring_stages"] = _FEWEST_STAGES
    return chosen


def _options_of_concurrent_blocks(
    module: Module, kernel: str, options: Mapping[str, Any], target: str
) -> dict[str, Any]:
    """The options where several blocks with roles run on a multiprocessor, each for one instance: a
    loop scales the results of small dots before it adds them. The other blocks multiply meanwhile,
    and copies by tensor maps take no fence and hardly any instructions, of which such a loop issues
    many. On an H200, blocks of 64 x 32 elements took 37 us, and without roles 61 us. Where dots
    stay in flight, roles gain nothing: blocks of 64 x 64 elements took 48 us, and without 42 us."""
    function = module.functions[kernel]
    if not (_are_short_outside(function) and _run_concurrently(function)):
        return {}
    stages = max(options["num_stages"], _FEWEST_STAGES)
    chosen = {
        "num_warps": _WARPGROUP, "num_stages": stages, "ring_stages": stages, "persistent": False,
        "non_tma_variants": False,
    }  # fmt: skip
    roles = warp_specialized(_separate_arrays(module, kernel), target, chosen, kernel)
    if roles is None or not _streams(roles, kernel):
        return {}
    scaled = map(_is_scaled, _multiplying_ops(roles.functions[f"{kernel}.consumer"]))
    return chosen if _have_one_dot(function) and all(scaled) else {}


def _run_concurrently(function: Function) -> bool:
    """Whether each innermost loop has dots of the rows of a warpgroup and few columns, is not known
    to be short, and runs in every instance."""
    inner = list(_innermost_dots(function))
    return bool(inner) and all(
        dots
        and all(shape[-2] == _ROWS and shape[-1] <= _MOST_COLUMNS for shape in dots)
        and _is_long(function, loop)
        and _runs_always(function, loop)
        for loop, dots in inner
    )


def compiles_for_others() -> bool:
    """Whether this process belongs to a pool, such as Inductor's compile workers. They compile in
    parallel; the launching process would compile one kernel after the other."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _keeps_tensor_cores_busy(function: Function) -> bool:
    """Whether dots of `function` are in loops that every program instance runs, others are short,
    each innermost loop has dots and is not known to be short, each dot in it has the rows of two
    warpgroups, and the only dot of a loop as many columns or as many elements as registers hold.
    A warp-specialized block has a processor for itself: where only some phases multiply, or few
    warps do, the latency of the others shows, which more resident blocks would hide. It works for a
    fixed part of the instances: where some of them return early, blocks differ in their work."""
    around = loops(function)
    everywhere = [shape for x in function.blocks if around.depth(x) for shape in _dots(function, x)]
    return (
        len(everywhere) > 0
        and _are_short_outside(function)
        and (
            all(shape[-2] >= _FEWEST_ROWS for shape in everywhere)
            or (_have_one_dot(function) and all(shape[-2] == _ROWS for shape in everywhere))
        )
        and all(
            (_fills(dots) or any(shape[-1] >= _FEWEST_COLUMNS for shape in dots))
            and _is_long(function, loop)
            and _runs_always(function, loop)
            for loop, dots in _innermost_dots(function)
        )
    )


def _are_short_outside(function: Function) -> bool:
    """Whether each dot outside of loops takes no longer than the longest one of an iteration, such
    as a correction of low rank that is added to the result."""
    work: dict[bool, list[int]] = {True: [], False: []}
    for label, block in function.blocks.items():
        for op in block.ops:
            if op.mnemonic == "dot":
                steps = shape_of(op.inputs[0].type)[-1]
                work[loops(function).depth(label) > 0].append(
                    prod(shape_of(op.results[0].type)) * steps
                )
    return max(work[False], default=0) <= max(work[True], default=0)


def _fewest_rows(function: Function) -> int:
    """The smallest number of rows of a dot."""
    return min(shape[-2] for shape in _dots(function, *function.blocks))


def _dots(function: Function, *labels: str) -> list[tuple[int, ...]]:
    """The shapes of the dots of blocks."""
    ops = (op for label in labels for op in function.blocks[label].ops)
    return [shape_of(op.results[0].type) for op in ops if op.mnemonic == "dot"]


def _innermost(function: Function) -> list[Loop]:
    """The innermost loops."""
    every = loops(function).by_header
    outer = {loop.parent for loop in every.values()}
    return [loop for header, loop in every.items() if header not in outer]


def _innermost_dots(function: Function) -> Iterator[tuple[Loop, list[tuple[int, ...]]]]:
    """The innermost loops, each with the shapes of its dots."""
    return ((loop, _dots(function, *loop.blocks)) for loop in _innermost(function))


def _fill_registers(function: Function) -> bool:
    """Whether the accumulators of each loop are so large that a warp-specialized block is
    worthwhile, whatever else the loop computes."""
    return all(_fills(dots) for _, dots in _innermost_dots(function))


def _fills(shapes: list[tuple[int, ...]]) -> bool:
    return len(shapes) > 1 or any(prod(shape) >= _FEWEST_ELEMENTS for shape in shapes)


def _shares_processors(function: Function, warps: int) -> bool:
    """Whether several blocks of `warps` warps, which have equal work, compute chained dots faster
    on a multiprocessor than one warp-specialized block: the accumulators of no loop take so many
    registers that only one block or two are resident. What a block waits for, the others hide."""
    from tileir.backend.warp_specialize.unequal_instances import iterations_differ  # few ask

    inner = _innermost(function)
    return (
        not _have_one_dot(function)
        and all(_carried_registers(function, x, warps) <= _FEW_REGISTERS for x in inner)
        and not any(iterations_differ(function, x) for x in inner)
    )


def _carried_registers(function: Function, loop: Loop, warps: int) -> int:
    """The registers of a thread of `warps` warps for the matrices that a loop carries."""
    bits = sum(
        v.type.size * v.type.element.bits
        for v in function.blocks[loop.header].parameters
        if isinstance(v.type, Tile) and isinstance(v.type.element, Scalar)
        if len(v.type.shape) == 2
    )
    return bits // (32 * 32 * warps)


def _have_one_dot(function: Function) -> bool:
    """Whether each innermost loop has one dot."""
    return all(len(dots) == 1 for _, dots in _innermost_dots(function))


def _streams(roles: Module, kernel: str) -> bool:
    """Whether the producer of `kernel` copies all blocks by tensor maps, whatever the arguments, at
    places that its innermost loops do not load, and its consumers leave each matmul in flight while
    they issue the next one, or scale its result before they add it. The more bytes are in flight,
    the faster it is, and a block that has a processor for itself has the most. Where results are
    scaled, registers hold two accumulators, so that no other block would be resident, and one
    warpgroup scales while the other one multiplies."""
    producer, consumer = (roles.functions[f"{kernel}.{x}"] for x in ("producer", "consumer"))
    by_threads = any(isinstance(v.type, Tile) for op in producer.ops for v in op.results)
    waits_for_places = any(isinstance(op, Load) for ops in _innermost_ops(producer) for op in ops)
    if by_threads or waits_for_places or not _rows_are_aligned(roles.functions[kernel]):
        return False
    multiplying = _multiplying_ops(consumer)
    return bool(multiplying) and all(
        _is_in_flight(ops) or (_is_scaled(ops) and not _loads_columns(consumer, ops))
        for ops in multiplying
    )


def _multiplying_ops(consumer: Function) -> list[list[Op]]:
    """The ops of each innermost loop that multiplies."""
    return [ops for ops in _innermost_ops(consumer) if any(isinstance(op, Wgmma) for op in ops)]


def _is_in_flight(ops: list[Op]) -> bool:
    """Whether an iteration leaves a matmul in flight."""
    return any(isinstance(op, WgmmaWait) and op.pending for op in ops)


def _are_all_in_flight(consumer: Function) -> bool:
    """Whether the iterations of all loops leave all their matmuls in flight."""
    multiplying = _multiplying_ops(consumer)
    counts = ((sum(isinstance(op, Wgmma) for op in ops), ops) for ops in multiplying)
    return all(
        op.pending == count for count, ops in counts for op in ops if isinstance(op, WgmmaWait)
    )


def _is_scaled(ops: list[Op]) -> bool:
    """Whether matmuls of what copies brought begin with an accumulator of zeros."""
    matmuls = [op for op in ops if isinstance(op, Wgmma)]
    return all(isinstance(x.c, Constant) and not isinstance(x.a.type, Tile) for x in matmuls)


def _loads_columns(function: Function, ops: list[Op]) -> bool:
    """Whether `ops` load a row of scattered elements: a thread has as many addresses as columns,
    which registers do not hold besides two accumulators. A loop without roles copies such a row to
    shared memory."""
    facts, readers = alignment(function), uses(function)
    vectors = [
        op.result for op in ops if isinstance(op, Load) and isinstance(op.result.type, Tile)
        and facts.of(op.pointer).contiguity == (1,)
    ]  # fmt: skip
    for vector in vectors:  # and those that are computed from them
        for reader in readers.get(vector, ()):
            if any(shape_of(v.type)[:-1] == (1,) for v in reader.results):
                return True
            vectors += reader.results if reader.elementwise else ()
    return False


def _copies_lines(roles: Module, kernel: str) -> bool:
    """Whether the producer of `kernel` copies blocks whose rows have a line or more. Shorter ones
    take as long, and the tiles of few rows need more bytes for each dot."""
    copies = (op for op in roles.functions[f"{kernel}.producer"].ops if isinstance(op, TmaLoad))
    blocks = (cast(Descriptor, cast(Value, op.descriptor).type).block for op in copies)
    return any(block.shape[-1] * block.element.bytes >= _LINE_BYTES for block in blocks)


def _innermost_ops(function: Function) -> list[list[Op]]:
    """The ops of each innermost loop."""
    blocks = function.blocks
    return [[op for x in loop.order for op in blocks[x].ops] for loop in _innermost(function)]


def _rows_are_aligned(function: Function) -> bool:
    """Whether rows of every tensor with a map begin at provable multiples of 16 bytes, as tensor
    maps require: where Triton knows no such divisor of a stride, there seldom is one."""
    facts = alignment(function)
    return all(
        facts.of(stride).every * cast(Descriptor, op.to).block.element.bytes % _ROW_BYTES == 0
        for op in function.ops
        if isinstance(op, TensorMap)
        for stride in op.dimensions[1:-1:2]
    )


_ROW_BYTES = 16
"""CUDA Driver API, "cuTensorMapEncodeTiled": `globalStrides`."""

_FEWEST_ELEMENTS = 128 * 256
"""The elements of an accumulator that takes 128 registers of each thread of two warpgroups."""

_MOST_COLUMNS = 64
"""The columns of a dot of 64 rows whose result and sum take 64 registers of each thread of a
warpgroup: four blocks are resident."""

_FEW_REGISTERS = 64
"""Registers of a thread for accumulators, next to which those for scores and weights let a second
block be resident. On an H200, blocks of 128 rows by 4 warps took 199 us for heads of 64 elements,
and warp-specialized ones 220 us; 145 and 143 us for heads of 96."""

_WARPS = 8
"""Two warpgroups: while one computes weights of attention, the other one multiplies. 4 warps are
enough where several blocks run on a multiprocessor. A warp-specialized block runs there alone."""

_MOST_STAGES = 8
"""The most stages. As many as fit are used, because one block has the shared memory of a
multiprocessor for itself."""

_FEWEST_STAGES = 2
"""With one stage, nothing is copied while warpgroups multiply. A launch asks for one where Triton's
compiler shall not pipeline a loop, so that more blocks are resident."""

_FEWEST_ROWS = 128
"""The rows that two warpgroups multiply by one instruction each."""

_ROWS, _WARPGROUP = 64, 4
"""The rows that a warpgroup multiplies by one instruction, and its warps. Two warpgroups alternate
instances of such dots (`pingpong`): one stores its result while the other multiplies."""

_LINE_BYTES = 128
"""Bytes of a cache line."""

_FEWEST_COLUMNS = 128
"""With fewer, shared memory does not feed the tensor cores: in the cycles that an instruction of 64
rows takes, it has to read 64 rows of A besides the columns of B."""


def _is_long(function: Function, loop: Loop) -> bool:
    counted = trip_count(function, loop)
    return counted is None or counted.count is None or counted.count >= _FEWEST_ITERATIONS


def _runs_always(function: Function, loop: Loop) -> bool:
    """Whether every path through `function` passes the loop, or the outermost loop around it."""
    while loop.parent is not None:
        loop = loops(function).by_header[loop.parent]
    return post_dominance(function).dominates(loop.header, function.entry.label)


_FEWEST_ITERATIONS = 8
"""Twice the stages of a deep pipeline: below, filling and draining it is most of the time."""


def launcher_with_maps(kernel: Any, own: Launch) -> Launch:
    """A launcher of `kernel`, a `CompiledKernel` of Triton, before its `own`; `own` where the
    arguments of the kernel cannot be told from its signature."""
    signature = getattr(kernel.src, "signature", None)
    if not isinstance(signature, Mapping):
        return own
    kinds = [str(kind) for kind in signature.values()]
    passed = [i for i, kind in enumerate(kinds) if kind != "constexpr"]
    nested = any(kind.startswith(("(", "[", "nvTmaDesc")) for kind in kinds)
    if nested or not passed:
        return own
    text = kernel.asm.get("ttir")  # a kernel that Inductor loads by its cubin alone has none
    if text is None:
        return own
    chosen: Mapping[str, Any] = getattr(kernel.metadata, TENSOR_MAPS)
    fused = is_fused(kernel.metadata)
    return _Launcher(text, kernel.metadata.name, own, chosen, kinds, passed, fused).launch


class _Launcher:
    """Launches of the kernel `name` of a TTIR `text`, with arguments of these `kinds`, of which
    those at `passed` are parameters. `fused` is the option `enable_fp_fusion`."""

    def __init__(
        self, text: str, name: str, own: Launch, options: Mapping[str, Any], kinds: list[str],
        passed: list[int], fused: bool,
    ) -> None:  # fmt: skip
        self.text, self.name, self.own, self.fused = text, name, own, fused
        self.options, self.count = dict(options), len(kinds)
        self.select = (
            itemgetter(*passed) if len(passed) > 1 else lambda arguments: (arguments[passed[0]],)
        )
        self.descriptors = [i for i in passed if kinds[i].startswith("tensordesc")]
        self.dispatcher: Any = None
        self.fails = False

    def launch(
        self, x: int, y: int, z: int, stream: int, function: int, packed: Any, metadata: Any,
        enter: Any, exit: Any, *arguments: Any,
    ) -> None:  # fmt: skip
        """Launch tileir's version. Triton's launcher launches the other one for a profiler's hooks,
        and from the first failure on, unless a descriptor has NaN as padding."""
        # Triton 3.5 and later pass chains of hooks, mostly empty ones.
        called = getattr(enter, "calls", enter) or getattr(exit, "calls", exit)
        if not (called or self.fails) and len(arguments) == self.count:
            try:
                dispatcher = self.dispatcher or self._make_dispatcher()
                dispatcher.call((x, y, z), *self.select(arguments), stream)
            except TileirError:
                if self._pads_with_nan(arguments):
                    raise
                self.fails = True
            else:
                return
        if not self._pads_with_nan(arguments):
            self.own(x, y, z, stream, function, packed, metadata, enter, exit, *arguments)
            return
        if getattr(enter, "calls", enter):
            enter(metadata)
        dispatcher = self.dispatcher or self._make_dispatcher()
        dispatcher.call((x, y, z), *self.select(arguments), stream)
        if getattr(exit, "calls", exit):
            exit(metadata)

    def _pads_with_nan(self, arguments: Sequence[Any]) -> bool:
        return any(pads_with_nan(arguments[i]) for i in self.descriptors)

    def _make_dispatcher(self) -> Any:
        module = read_ttir(self.text, self.name, self.options, self.fused)
        resolve = _Resolve(module, self.name, self.options)
        from tileir.backend.executors import gpu_calls  # compiling alone does not need it

        self.dispatcher = gpu_calls().dispatch(resolve, resolve.names)
        return self.dispatcher


class _Resolve:
    """Resolves arguments to a launch of the kernel `name` of `module`, which makes descriptors of
    the host itself. `names` are the names of the arguments, the last of which is the stream."""

    def __init__(self, module: Module, name: str, options: Mapping[str, Any]) -> None:
        self.module, self.name, self.options = module, name, dict(options)
        parameters = module.functions[name].parameters
        self.parameters = tuple(p.name or f"a{i}" for i, p in enumerate(parameters))
        self.ranks = {
            i: len(cast(Descriptor, parameters[i].type).block.shape)
            for i in descriptor_places(parameters)
        }
        self.extents = last_extents(parameters)
        """The last extents of tensors. Where they are multiples of the longest vector of elements,
        no access of one ends outside. Copies by tensor maps need not know, but threads store
        results that shared memory cannot hold, too."""
        parts = {i + k for i, rank in self.ranks.items() for k in range(1, 1 + 2 * rank)}
        self.first = [i for i in range(len(parameters)) if i not in parts]
        """The parameter, or the first of several, that each argument is for."""
        from tileir.backend.runtime.dispatch import STREAM  # compiling alone does not need it

        self.names = (*(self.parameters[i] for i in self.first), STREAM)
        self._variants: dict[tuple[frozenset[int], frozenset[int]], Module] = {}

    def __call__(self, _: Any, arguments: tuple[Any, ...], __: dict[str, Any]) -> KernelCall:
        values, parts, nan = dict[str, Any](), dict[str, Parts](), set[int]()
        for place, value in zip(self.first, arguments[:-1], strict=True):
            name, rank = self.parameters[place], self.ranks.get(place)
            if rank is None:
                values[name] = value
                continue
            numbers = self.parameters[place + 1 : place + 1 + 2 * rank]
            passed = (value.base, *value.shape, *value.strides)
            values |= dict(zip((name, *numbers), passed, strict=True))
            constants = ("padding",) if hasattr(value, "padding") else ()
            parts[name] = descriptor_parts(value, name, numbers[:rank], numbers[rank:-1], constants)
            if pads_with_nan(value):
                nan.add(place)
        multiples = frozenset(
            i for i in self.extents if values[self.parameters[i]] % LONGEST_VECTOR == 0
        )
        every = frozenset(self.parameters)
        plain = every - {self.parameters[i] for i in self.extents}
        module = self._variant(frozenset(nan), multiples)
        return KernelCall(module, self.name, values, {}, self.options, plain, parts, every)

    def _variant(self, nan: frozenset[int], multiples: frozenset[int]) -> Module:
        """The module whose kernel makes its descriptors, those at `nan` with NaN as padding, of
        extents of which those at `multiples` are multiples of a vector."""
        if (nan, multiples) not in self._variants:
            variant = with_made_descriptors(self.module, self.name, self.ranks, nan)
            self._variants[nan, multiples] = with_multiples(variant, self.name, multiples)
        return self._variants[nan, multiples]


def read_ttir(
    text: str, name: str, options: Mapping[str, Any], fused: bool, overlapped: bool = False
) -> Module:
    """The module of a kernel's TTIR, compiled with these `num_warps` and `num_stages`. `fused` is
    the option `enable_fp_fusion`. Raises `TileirError`."""
    return ttir.read(
        text, f"{name}.ttir", overlapped=overlapped, num_stages=options["num_stages"],
        num_warps=options["num_warps"], enable_fp_fusion=fused,
    )  # fmt: skip


def is_fused(options: Any) -> bool:
    """Whether multiplications and additions of a kernel are fused, by its options or metadata."""
    return bool(getattr(options, "enable_fp_fusion", True))
