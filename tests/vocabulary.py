"""The words that this repository does not use, and where they still stand.

Code, docstrings and documentation use the terms of LLVM, MLIR, CUTLASS, PTX and Triton. `WORDS`
lists the private words that these terms replaced, `ALLOWED` the uses of such words in an ordinary
sense. There are no others (`test_vocabulary.py`).

    python -m tests.vocabulary               every use, and the term of the field
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests import sources
from tests.sources import ROOT

FOLDERS = (
    "tileir",
    "textual",
    "builder",
    "backend",
    "frontends",
    "tools",
    "testing",
    "tileir_triton",
    "examples",
    "benchmarks",
    "docs",
)
"""Folders whose Python and Markdown files are scanned, and README.md."""

GENERATED = (
    "docs/reference/api/*", "docs/reference/commands.md", "docs/reference/errors.md",
    "docs/reference/limits.md", "docs/reference/ops.md", "docs/reference/options.md",
    "docs/reference/passes.md", "docs/reference/profiles.md",
)  # fmt: skip
"""Pages made from the docstrings and data of scanned files."""


class Word(NamedTuple):
    """A private word: its forms, the field's term, and the kinds of text in which it is private."""

    forms: tuple[str, ...]
    instead: str
    kinds: tuple[str, ...] = ("identifier", "prose")


NAME = ("name",)
"""Whole identifiers only: ordinary English in prose, and no description of a variable."""

MESSAGE = ("message",)
"""Strings that are no docstrings, such as errors and remarks."""

IDENTIFIER = ("identifier",)
"""Parts of identifiers: ordinary English in prose."""

WORDS = {
    "factor": Word(("factor", "factors"), "operand; operand A and operand B of a dot"),
    "sums": Word(("sums",), "accumulator"),
    "sum": Word(("sum",), "accumulator; `total` for numbers", IDENTIFIER),
    "product": Word(("product", "products"), "matmul, dot; wgmma or mma for the instruction"),
    "round": Word(("round", "rounds"), "iteration; rounding of numbers keeps the word"),
    "turn": Word(("turn", "turns"), "alternate, ping-pong, interleave"),
    "room": Word(("room", "rooms"), "shared-memory allocation; range for its bytes"),
    "home": Word(("home", "homes"), "defining block; buffer assignment; layout of a value"),
    "held": Word(("held", "holder", "holders"), "owned elements; live in registers; owner"),
    "meet": Word(("meet", "meets", "met", "meeting"), "synchronize, barrier; conflict"),
    "lie": Word(("lie", "lies", "lying"), "is laid out, is placed at, is in"),
    "beside": Word(("beside",), "asynchronous, concurrent; next to"),
    "behind": Word(("behind",), "after; epilogue"),
    "across": Word(("across",), "cluster, distributed shared memory", IDENTIFIER),
    "crew": Word(("crew", "crewman", "yard"), "roles, coroutine, scheduler"),
    "slot": Word(("slot", "slots"), "stage of a circular buffer"),
    "agree": Word(("agree", "agrees"), "uniform", IDENTIFIER),
    "apart": Word(("apart",), "disjoint; split", IDENTIFIER),
    "piece": Word(("piece", "pieces"), "chunk of a strip-mined tile; box of a TMA copy"),
    "wanted": Word(("wanted",), "requested, required; expected"),
    "early": Word(("early", "late"), "prefetch, sink, by what is moved", IDENTIFIER),
    "again": Word(("again", "anew"), "cached, repeated, reused", IDENTIFIER),
    "anew": Word(("anew",), "from scratch; say what is repeated", ("prose",)),
    "noticed": Word(("noticed", "unnoticed"), "detected; killed, of mutants"),
    "nobody": Word(("nobody",), "no op, no thread, no reader: name it"),
    "said": Word(("said",), "attributes, stated", IDENTIFIER),
    "found": Word(("found",), "the noun of what it is", NAME),
    "made": Word(("made",), "the noun of what it is", NAME),
    "given": Word(("given",), "the noun of what it is", NAME),
    "known": Word(("known",), "the noun of what it is", NAME),
    "asked": Word(("asked", "told"), "requested, stated; the noun of what it is", NAME),
    "taken": Word(("taken",), "used, selected; the noun of what it is", NAME),
    "who": Word(("who", "whom", "carrier"), "the noun of what it is", NAME),
    "holds": Word(("holds",), "is true; contains, has; owns", MESSAGE),
    "thin": Word(("thin", "hold", "claim"), "remove_redundant, map, assign", NAME),
    "seed": Word(tuple(f"seed 00{n}" for n in range(5)), "author, title, section"),
    "participle": Word((), "a verb for a transformation, is_/may_/can_ for a predicate"),
}
"""`participle` counts functions whose whole name is a past participle."""

IRREGULAR = re.compile(
    "made|found|given|known|held|kept|met|said|sent|shown|taken|told|written|built|brought|broken"
    "|chosen|drawn|driven|laid|lent|lost|seen"
)
NOT_PARTICIPLES = ("need", "feed", "seed", "embed", "shed", "speed", "exceed", "proceed")


class Allowed(NamedTuple):
    """A use in an ordinary sense: in files that match `path`, where `pattern` matches the
    identifier or the line of text."""

    word: str
    path: str
    pattern: str
    reason: str


ALLOWED = (
    Allowed("product", "*", r"^product$", "itertools.product"),
    Allowed("product", "*", r"^scaled_dot_product_attention$", "a function of torch"),
    Allowed("factor", "*", r"^scale_factor$", "a parameter of torch"),
    Allowed("sum", "benchmarks/public/*", r"^moe_sum_reduce(_triton)?$", "a function of sglang"),
    Allowed("early", "benchmarks/public/*", r"^late_interaction_", "a package"),
    Allowed("sums", "benchmarks/public/*", r"^flash_sinkhorn__log_sums$", "sums of exponentials"),
    Allowed("factor", "frontends/*", r"^loop_unroll_factor$", "a parameter of Triton's range"),
    Allowed("round", "frontends/*", r"^round_f32_to_tf32$", "a field of Triton's descriptors"),
    Allowed("round", "tileir_triton/*", r"^round_f32_to_tf32$", "a field of Triton's descriptors"),
    Allowed("sum", "*", r"^(cum)?sum$", "the built-in function, the reduction"),
    Allowed("sum", "*", r"^reduce_sum$", "a function of TileLang"),
    Allowed("round", "*", r"^round$", "the built-in function"),
    Allowed(
        "round",
        "*",
        r"(?i)rounds? (to|up|down|half|ties|toward|away|once|twice|every|each|the)"
        r"|round_(up|down|to|half)"
        r"|\.rnd|`round`|round-?_?\s?trips?|round[ -]robin|_round_f|numpy.round"
        r"|round_(tf32|magnitude)|FRound|_rounds_down|rounds operands",
        "rounding of numbers; round trips",
    ),
    Allowed(
        "factor", "*", r"(?i)(scale|scaling|split|split-K|unroll\w*|time|by a) factors?", "a number"
    ),
    Allowed(
        "turn",
        "*",
        r"(?i)\bin turn\b|turns? (\w+ )?(\w+ )?(in)?to\b|turn(s|ed)? (on|off)",
        "English",
    ),
    Allowed("slot", "tileir/interp/program*.py", ".", "slots of a frame of the interpreter"),
    Allowed("slot", "tileir/interp/closures.py", ".", "slots of a frame of the interpreter"),
    Allowed("slot", "tileir/interp/execute.py", ".", "slots of a frame of the interpreter"),
    Allowed("slot", "tileir/interp/lanes.py", ".", "slots of a frame of the interpreter"),
    Allowed("product", "builder/contraction/*.py", "`(sum )?product[ `]", "a kind of reduction"),
    Allowed("meet", "tileir/analysis/alignment*.py", "^meet$", "the meet of a lattice"),
    Allowed("product", "tileir/layout*.py", ".", "the algebra of layouts"),
    Allowed("product", "tileir/analysis/polynomial.py", ".", "products of symbols"),
    Allowed("product", "tileir/machine/[dfi]*.py", ".", "products of numbers"),
    Allowed("product", "tileir/machine/error_free.py", ".", "products of numbers"),
    Allowed("product", "tileir/ops/arith.py", ".", "products of numbers"),
    Allowed("product", "tileir/ops/floats.py", ".", "products of numbers"),
    Allowed("product", "tileir/ops/math.py", ".", "products of numbers"),
    Allowed("slot", "*", "stack slots?", "stack slots of LLVM's register allocator"),
    Allowed("slot", "docs/*", "issue slots", "a term of Nsight Compute"),
    Allowed("round", "docs/reference/frontends/tile.md", "pow round sigmoid", "a function of Tile"),
    Allowed("round", "docs/reference/std.md", "philox", "rounds of the generator Philox"),
    Allowed("slot", "*", r"__slots__|^slots$|slots=(True|False)|weakref_slot", "slots of a class"),
    Allowed("factor", "tileir/analysis/polynomial.py", ".", "coefficients of a polynomial"),
    Allowed("factor", "tileir/ops/warpgroup.py", ".", "the multiplier of an accumulator"),
    Allowed("factor", "frontends/te/schedule.py", "factor", "an argument of TVM's split and tile"),
    Allowed("round", "frontends/ttir/arithmetic.py", r"^math\.round$", "an op of MLIR"),
    Allowed("factor", "*", r"(?i)prime.?factors?|left factor", "factors of numbers and layouts"),
    Allowed("sum", "*", r"^(two|fast)_sum$", "error-free transformations (Dekker, Knuth)"),
    Allowed("product", "*", r"(?i)cartesian product", "a product of sets"),
    Allowed("product", "*", r"^two_product$", "an error-free transformation (Dekker)"),
    Allowed("product", "tileir/machine/matmul.py", ".", "exact products of numbers"),
    Allowed("sums", "tileir/machine/*.py", ".", "sums of numbers"),
    Allowed("sums", "backend/codegen/libm/*.py", ".", "sums of numbers"),
    Allowed("product", "backend/codegen/libm/*.py", ".", "products of numbers"),
    Allowed("sums", "backend/*", "correctly rounded sums", "the title of a paper"),
    Allowed("factor", "frontends/decoupled/[gs]*.py", r"^factor$|`factor`", "splits of `map`"),
    Allowed(
        "factor",
        "frontends/decoupled/[or]*.py",
        r"(?i)^_?rescale_?factor$|^factors?$|\b(a|the) factor\b",
        "what a running total is rescaled by",
    ),
    Allowed("round", "frontends/triton/*", "^n_rounds$", "an argument of triton.language.rand"),
    Allowed("sum", "frontends/triton/*", "^(xor_sum|sum_)$", "functions of triton.language"),
    Allowed("participle", "frontends/triton/runtime/warm.py", "^shared$", "an attribute of Triton"),
    Allowed("factor", "backend/codegen/rules/*.py", "^factor$", "the multiplier of an accumulator"),
    Allowed("home", "backend/runtime/disk_store.py", r"^home$", "Path.home"),
    Allowed("holds", "backend/runtime/launcher/*.py", "^; ", "comments of the launcher's IR"),
    Allowed("holds", "testing/mutation/planted_bugs*.py", ".", "code, and descriptions of bugs"),
    Allowed("across", "*", r"across_(threads|lanes|warps)$", "reductions across lanes and warps"),
)


ALLOWED_IN_TESTS = (
    Allowed("agree", "*", "agree", "executors agree: two of them give the same results"),
    Allowed("sum", "*", "sum", "totals of numbers"),
    Allowed("sums", "*", "(?i)sums", "totals of numbers"),
    Allowed("early", "*", "early", "early returns and exits"),
    Allowed("again", "*", "_again_|_again$", "code that is generated, assembled or run again"),
    Allowed("given", "*", "^given$", "the decorator of Hypothesis"),
    Allowed("home", "*", "HOME", "a variable of the environment"),
    Allowed("holds", "*", "holds", "names of values and of variables that are truth values"),
    Allowed("product", "*", "[%@]", "names of functions and values of IR"),
    Allowed("factor", "*", "[%@]", "names of values of IR"),
    Allowed("round", "*", "[%@]", "names of functions of IR"),
    Allowed("slot", "*", "[%@]", "names of values of IR"),
    Allowed("turn", "*", "[%@]", "names of values of IR"),
    Allowed("held", "*", "[%@]", "names of values of IR"),
    Allowed(
        "round",
        "*",
        r"(?i)rounds?([;.]|_as_|_fraction|_left_)|rounds_\w*once|`mode` rounds",
        "rounding of numbers",
    ),
    Allowed("round", "*", "Folding literals rounds|would round|that rounds", "rounding of numbers"),
    Allowed("round", "*", "(?i)philox|rounds on words|10 rounds", "rounds of the generator Philox"),
    Allowed("round", "*", "_rounds_(to|additions)_|as the kernels round", "rounding of numbers"),
    Allowed("round", "*", "^round_f32_to_tf32$", "a field of Triton's descriptors"),
    Allowed("product", "*/test_layout_*.py", ".", "the algebra of layouts"),
    Allowed("product", "*", "cartesian_products", "products of sets"),
    Allowed("product", "tests/backend/figures/*.py", "^products?,?$", "keys of recorded figures"),
    Allowed("factor", "tests/backend/figures/*.py", "^factor$", "a key of recorded figures"),
    Allowed("factor", "tests/frontends/decoupled/*.py", "factor$", "splits of `map`"),
    Allowed("factor", "tests/frontends/te/*.py", "^factor$", "an argument of TVM's split"),
    Allowed("slot", "tests/interp/test_closures.py", ".", "slots of a frame of the interpreter"),
    Allowed("across", "*", "^ACROSS_WARPS$", "reductions across lanes and warps"),
    Allowed("apart", "*", "a_stride_apart", "a distance"),
    Allowed("turn", "*", "^Turn additions", "English"),
)
"""Uses in the tests; those of `ALLOWED` are allowed there too."""


NOT_IN_TESTS = re.compile(
    r"(?i)(?<![a-z])(anew|behind|beside|crew|nobody|(?:un)?noticed|seed[ _]00\d)(?![a-z])"
)
"""Words that the tests do not use either, wherever they stand."""


class Use(NamedTuple):
    """A private word in a file; `text` is the identifier or the line of prose."""

    word: str
    path: str
    line: int
    text: str


FORMS = {form: name for name, word in WORDS.items() for form in word.forms if " " not in form}
OF_KIND = {
    kind: {form: name for form, name in FORMS.items() if kind in WORDS[name].kinds}
    for kind in ("identifier", "name", "prose", "message")
}
OF_KIND["prose"]["anew"] = "anew"
PROSE = re.compile(r"(?i)\b(" + "|".join(sorted(OF_KIND["prose"])) + r")\b")
MESSAGES = re.compile(r"(?i)\b(" + "|".join(sorted(OF_KIND["message"])) + r")\b")
SEED = re.compile(r"(?i)\bseed[ _]?00\d")
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def in_prose(text: str) -> Iterator[tuple[str, int, str]]:
    """Private words of a text: word, line from zero, the line."""
    if not (PROSE.search(text) or SEED.search(text)):
        return
    for number, line in enumerate(text.split("\n")):
        for hit in PROSE.finditer(line):
            yield OF_KIND["prose"][hit[1].lower()], number, line.strip()
        for _ in SEED.finditer(line):
            yield "seed", number, line.strip()


def in_message(text: str) -> Iterator[tuple[str, int, str]]:
    """Words of a string that are private in messages alone: word, line from zero, the line."""
    if MESSAGES.search(text):
        for number, line in enumerate(text.split("\n")):
            for hit in MESSAGES.finditer(line):
                yield OF_KIND["message"][hit[1].lower()], number, line.strip()


@cache
def in_identifier(name: str) -> tuple[str, ...]:
    """Private words among the parts of an identifier, split at underscores and capitals."""
    in_full = OF_KIND["name"].get(name.strip("_"))
    parts = (OF_KIND["identifier"].get(part.lower()) for part in PARTS.findall(name))
    return tuple(word for word in (in_full, *parts) if word is not None)


def is_participle(name: str) -> bool:
    """Whether a function's whole name is a past participle."""
    name = name.strip("_")
    regular = re.fullmatch(r"[a-z]{3,}ed", name) is not None and name not in NOT_PARTICIPLES
    return regular or IRREGULAR.fullmatch(name) is not None


IDENTIFIERS = {
    ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name", ast.ClassDef: "name", ast.keyword: "arg", ast.alias: "asname",
    ast.MatchAs: "name", ast.MatchStar: "name",
}  # fmt: skip
"""By type of node, the field that has an identifier, or None."""

SPELLING = (*IDENTIFIERS, ast.Constant, ast.Expr)
"""Nodes with an identifier or a text."""


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments of Python source and their lines. Source without a private word in what could be a
    comment is not tokenized."""
    candidates = (line.partition("#")[2] for line in source.split("\n") if "#" in line)
    if not any(PROSE.search(line) or SEED.search(line) for line in candidates):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def python_uses(path: str, source: str, nodes: Iterable[ast.AST] = ()) -> Iterator[Use]:
    """Private words in the identifiers, strings and comments of a Python file, whose `nodes` are
    those of its syntax tree."""
    nodes = list(nodes or ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for word, offset, text in in_prose(node.value):
                yield Use(word, path, line + offset, text)
            for word, offset, text in in_message(node.value) if id(node) not in docstrings else ():
                yield Use(word, path, line + offset, text)
        name = getattr(node, IDENTIFIERS.get(type(node), ""), None)
        for word in () if name is None else in_identifier(name):
            yield Use(word, path, line, name)
        if isinstance(node, ast.FunctionDef) and is_participle(node.name):
            yield Use("participle", path, line, node.name)
    for line, comment in comments(source):
        for word, _, text in in_prose(comment):
            yield Use(word, path, line, text)


def files() -> Iterator[Path]:
    """The scanned files."""
    yield ROOT / "README.md"
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md") and not any(
                fnmatch(path.relative_to(ROOT).as_posix(), pattern) for pattern in GENERATED
            ):
                yield path


@cache
def all_uses_in(path: Path) -> tuple[Use, ...]:
    """Private words in a file and in its name, the allowed uses too."""
    name = path.relative_to(ROOT).as_posix()
    uses = [Use(word, name, 0, path.stem) for word in in_identifier(path.stem)]
    text = path.read_text()
    if path.suffix == ".py":
        uses += python_uses(name, text, sources.nodes(path, *SPELLING))
    else:
        uses += [Use(word, name, line + 1, text) for word, line, text in in_prose(text)]
    return tuple(uses)


def lines_of_tests() -> Iterator[str]:
    """Lines of the tests that have a word of `NOT_IN_TESTS`, with their places."""
    for path in test_files():
        text = path.read_text()
        for number, line in enumerate(text.split("\n") if NOT_IN_TESTS.search(text) else (), 1):
            if NOT_IN_TESTS.search(line):
                yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def test_files() -> Iterator[Path]:
    """The Python files of the tests without the lists of words and their own tests."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.name not in ("vocabulary.py", "test_vocabulary.py"):
            yield path


def allows(entry: Allowed, use: Use) -> bool:
    """Whether an entry of `ALLOWED` allows a use."""
    fits = entry.word == use.word and fnmatch(use.path, entry.path)
    return fits and re.search(entry.pattern, use.text) is not None


def is_allowed(use: Use) -> bool:
    """Whether `ALLOWED` has an entry for a use."""
    return any(allows(entry, use) for entry in ALLOWED)


def uses_in(path: Path) -> list[Use]:
    """Private words in a file and in its name, without the allowed uses."""
    return [use for use in all_uses_in(path) if not is_allowed(use)]


def uses() -> Iterator[Use]:
    """Private words in all scanned files, without the allowed uses."""
    return (use for path in files() for use in uses_in(path))


def uses_in_tests() -> Iterator[Use]:
    """Private words in the tests, without the allowed uses."""
    for path in test_files():
        for use in uses_in(path):
            if not any(allows(entry, use) for entry in ALLOWED_IN_TESTS):
                yield use


def line_of(use: Use) -> str:
    """A use, and the term of the field."""
    return f"{use.path}:{use.line}: {use.word}: {WORDS[use.word].instead}: {use.text}"


if __name__ == "__main__":
    print(*map(line_of, (*uses(), *uses_in_tests())), sep="\n")
