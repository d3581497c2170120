"""Written by `python -m tileir.builder.stubs` from the fields of the ops."""

from collections.abc import Callable, Sequence
from inspect import Signature
from typing import Any, Literal, TypeAlias

from tileir.builder.arguments import MethodSignature
from tileir.builder.builder import Builder
from tileir.builder.expr import Expr
from tileir.errors import Location
from tileir.op import Op
from tileir.types import Type
from tileir.values import Constant, Undef, Value

Number: TypeAlias = int | float | bool
Item: TypeAlias = Expr | Value | Constant | Undef | Number
Names: TypeAlias = str | tuple[str, ...] | None
AtomicKind: TypeAlias = Literal[
    "and",
    "or",
    "xor",
    "add",
    "fadd",
    "smax",
    "smin",
    "umax",
    "umin",
    "fmax",
    "fmin",
    "xchg",
    "inc",
    "dec",
]
CastRounding: TypeAlias = Literal["rn", "rz", "rm", "rp"]
Combiner: TypeAlias = Literal[
    "add",
    "mul",
    "and",
    "or",
    "xor",
    "smin",
    "smax",
    "umin",
    "umax",
    "fadd",
    "fmul",
    "fminimum",
    "fmaximum",
    "fminnum",
    "fmaxnum",
]
DivRounding: TypeAlias = Literal["zero", "floor", "ceil"]
Eviction: TypeAlias = Literal["normal", "first", "last"]
FastMath: TypeAlias = Literal["none", "contract", "approx", "fast"]
FloatPredicate: TypeAlias = Literal[
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
]
IntegerPredicate: TypeAlias = Literal[
    "eq",
    "ne",
    "slt",
    "sle",
    "sgt",
    "sge",
    "ult",
    "ule",
    "ugt",
    "uge",
]
LoadCache: TypeAlias = Literal["none", "ca", "cg", "cs", "lu", "cv"]
MemoryScope: TypeAlias = Literal["cta", "gpu", "sys"]
NanMode: TypeAlias = Literal["all", "none"]
OperandFormat: TypeAlias = Literal["e4m3", "e5m2", "e2m1", "bf16", "f16"]
Order: TypeAlias = Literal["relaxed", "acquire", "release", "acq_rel"]
Overflow: TypeAlias = Literal["none", "nsw", "nuw", "nsw_nuw"]
Padding: TypeAlias = Literal["zero", "nan"]
Precision: TypeAlias = Literal["ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"]
RemRounding: TypeAlias = Literal["zero", "floor"]
Rounding: TypeAlias = Literal["rn", "rz", "rm", "rp"]
StoreCache: TypeAlias = Literal["none", "wb", "cg", "cs", "wt"]

def method_name(mnemonic: str) -> str: ...
def signature(plan: MethodSignature) -> Signature: ...
def insert(
    builder: Builder, plan: MethodSignature, arguments: tuple[Any, ...], named: dict[str, Any]
) -> Any: ...
def insert_fields(
    builder: Builder, kind: type[Op], fields: dict[str, Any], location: Any, extras: dict[str, Any]
) -> Op: ...
def wrap_results(builder: Builder, results: tuple[Value, ...]) -> Any: ...

class DerivedOps:
    def acos(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Arc cosine in 0 to pi; NaN beyond -1 and 1."""

    def acosh(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Inverse hyperbolic cosine; NaN below 1."""

    def add(
        self,
        lhs: Item,
        rhs: Item,
        *,
        overflow: Overflow = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Sum modulo 2^n."""

    def addrspacecast(
        self,
        value: Item,
        to: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """A pointer as one to the same pointee in another address space; one of the two is
        generic."""

    def and_(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Bitwise and."""

    def ashr(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Shift right, copies of the sign coming in. Traps on a shift count of n or more."""

    def asin(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Arc sine in -pi/2 to pi/2; NaN beyond -1 and 1."""

    def asinh(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Inverse hyperbolic sine."""

    def assert_(
        self,
        condition: Item,
        *,
        message: str = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Stop with `message` unless `condition` is true in all lanes."""

    def assume(
        self,
        condition: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Promise that `condition` is true in all lanes. The interpreter reports a false
        promise."""

    def atan(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Arc tangent in -pi/2 to pi/2."""

    def atan2(
        self,
        lhs: Item,
        rhs: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Angle of the point (`rhs`, `lhs`) in -pi to pi, signed zeros and infinities as in
        C."""

    def atanh(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Inverse hyperbolic tangent; NaN beyond -1 and 1."""

    def atomic_cas(
        self,
        pointer: Item,
        compare: Item,
        value: Item,
        mask: Item | None = None,
        *,
        sem: Order = ...,
        scope: MemoryScope = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Store `value` if the bits in memory equal `compare`, and return the old value. Lanes
        where `mask` is false do not access memory and are undefined."""

    def atomic_load(
        self,
        pointer: Item,
        mask: Item | None = None,
        *,
        sem: Order = ...,
        scope: MemoryScope = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Load atomically, with the memory order `sem`: relaxed or acquire."""

    def atomic_rmw(
        self,
        pointer: Item,
        value: Item,
        mask: Item | None = None,
        *,
        op: AtomicKind,
        sem: Order = ...,
        scope: MemoryScope = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Combine `value` with the value in memory, store the result, and return the old value.
        Lanes where `mask` is false do not access memory and are undefined. `fadd`, `fmax` and
        `fmin` take f16, bf16, f32 and f64, `inc` and `dec` i32, `xchg` elements and pointers of
        16, 32 and 64 bits, all others i32 and i64. Where GPUs add f32 in global memory, they
        take subnormals as zeros of their sign (PTX ISA, "atom", "red")."""

    def atomic_store(
        self,
        pointer: Item,
        value: Item,
        mask: Item | None = None,
        *,
        sem: Order = ...,
        scope: MemoryScope = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Store atomically, with the memory order `sem`: relaxed or release."""

    def barrier(
        self,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Synchronize all threads of the program instance. Since a program instance is one
        stream of tile ops, the op only orders memory accesses."""

    def bitcast(
        self,
        value: Item,
        to: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The same bits as another type of the same width; between pointers, another pointee in
        the same address space. Pointers and numbers are converted by `ptrtoint` and
        `inttoptr`."""

    def broadcast(
        self,
        value: Item,
        to: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Repeat dimensions of extent 1 to the extents of the result; the rank stays."""

    def cat(
        self,
        low: Item,
        high: Item,
        *,
        axis: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Two tiles one after the other along `axis`, order kept."""

    def cbrt(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Cube root, with the sign of the operand."""

    def ceil(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Smallest integer at or above the operand; a zero has the sign of the operand."""

    def clampf(
        self,
        value: Item,
        low: Item,
        high: Item,
        *,
        nan: NanMode = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """`value` clamped to `low` and `high`: fminnum(fmaxnum(value, low), high). With `nan =
        all` a NaN `value` stays NaN; with `nan = none` it becomes `low`."""

    def clock(
        self,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """A counter of cycles of the multiprocessor."""

    def clz(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Number of zero bits above the highest one bit; n for zero, modulo 2^n."""

    def constant_run(
        self,
        value: Item,
        *,
        values: Sequence[int],
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Promise that elements along each dimension form runs of `values` equal elements."""

    def contiguous(
        self,
        value: Item,
        *,
        values: Sequence[int],
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Promise that elements along each dimension form runs of `values` elements that
        increase by 1 (pointers: by one element)."""

    def copysign(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Magnitude of `lhs`, sign bit of `rhs`."""

    def cos(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Cosine of radians, of any size; NaN of infinities."""

    def cosh(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Hyperbolic cosine."""

    def ctpop(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Number of one bits, modulo 2^n."""

    def descriptor_gather(
        self,
        descriptor: Item,
        index: Item,
        column: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Load the rows `index` of a matrix from column `column` on; elements out of bounds are
        padded."""

    def descriptor_load(
        self,
        descriptor: Item,
        indices: Sequence[Item] | Item = ...,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Any:
        """Load the block that starts at `indices`; elements out of bounds are padded."""

    def descriptor_reduce(
        self,
        descriptor: Item,
        value: Item,
        indices: Sequence[Item] | Item = ...,
        *,
        op: AtomicKind,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Combine the block that starts at `indices` into memory, one relaxed atomic access per
        element, except elements outside the tensor. GPUs add f32 as by `atomic_rmw`."""

    def descriptor_scatter(
        self,
        descriptor: Item,
        value: Item,
        index: Item,
        column: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Store the rows `index` of a matrix from column `column` on; elements out of bounds
        are not written."""

    def descriptor_store(
        self,
        descriptor: Item,
        value: Item,
        indices: Sequence[Item] | Item = ...,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Store the block that starts at `indices`; elements out of bounds are not written."""

    def dot(
        self,
        a: Item,
        b: Item,
        c: Item,
        *,
        precision: Precision = ...,
        max_imprecise: int = ...,
        lhs_signed: bool = ...,
        rhs_signed: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The matmul `a` times `b` plus `c`: [M, K] by [K, N] onto [M, N], or batches of such
        matrices in a leading dimension. Elements are multiplied and accumulated at the
        precision of `c` or better, in any order. The error is at most (K + 1) half-ulps of |a|
        |b| + |c|, for operands rounded by `precision`. Integers wrap; each operand is signed or
        unsigned by itself. `max_imprecise` lets the hardware accumulate 8-bit floats at reduced
        precision for that many steps of K."""

    def dot_scaled(
        self,
        a: Item,
        b: Item,
        c: Item,
        a_scale: Item | None = None,
        b_scale: Item | None = None,
        *,
        lhs: OperandFormat,
        rhs: OperandFormat,
        lhs_k_pack: bool = ...,
        rhs_k_pack: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """`a` times `b` plus `c`, with operands in small formats and one scale per group of 16
        or 32 along K: `a_scale` is [M, K / group], `b_scale` is [N, K / group], a power of two
        (f8e8m0, or its bits in i8) or an f8e4m3. An absent scale is 1. e2m1 operands are
        f4e2m1, or i8 with two per byte, the first in the low bits, along K or (`lhs_k_pack`,
        `rhs_k_pack` false) along M or N. A scale of NaN makes its group NaN."""

    def erf(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Error function."""

    def erfc(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """1 - erf(`value`), accurate where erf is near 1."""

    def exp(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """e to the power of `value`."""

    def exp2(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """2 to the power of `value`."""

    def expand_dims(
        self,
        value: Item,
        *,
        axis: int,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """A new dimension of extent 1 before dimension `axis`."""

    def expm1(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """e to the power of `value`, less 1, accurate near 0."""

    def extern_elementwise(
        self,
        to: Type,
        values: Sequence[Item] | Item = ...,
        *,
        symbol: str,
        library: str = ...,
        pure: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Apply a scalar function of a device library, given by its `symbol`, elementwise to
        operands of one shape. A function that is not `pure` is never removed, repeated or
        moved. The interpreter runs the functions of libdevice that have an op here (`__nv_expf`
        and others)."""

    def extract_slice(
        self,
        value: Item,
        to: Type,
        offsets: Sequence[Item] | Item = ...,
        *,
        strides: Sequence[int] | None = None,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The part of a tile of the result's shape that starts at `offsets`, every `strides`-th
        element. Traps if the part is out of bounds."""

    def fabs(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The sign bit cleared, of NaNs too."""

    def fadd(
        self,
        lhs: Item,
        rhs: Item,
        *,
        fast: FastMath = ...,
        rounding: Rounding = ...,
        ftz: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Sum, rounded once."""

    def fcmp(
        self,
        lhs: Item,
        rhs: Item,
        *,
        predicate: FloatPredicate,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> tuple[Expr, Expr]:
        """Compare two floats: whether `predicate` is true, and the complement."""

    def fdiv(
        self,
        lhs: Item,
        rhs: Item,
        *,
        fast: FastMath = ...,
        rounding: Rounding = ...,
        ftz: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Quotient, rounded once. Division by zero gives an infinity, 0/0 a NaN."""

    def fence(
        self,
        *,
        sem: Order = ...,
        scope: MemoryScope = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Order the memory accesses of this instance before and after the fence, with the order
        `sem`, for all observers in `scope`."""

    def floor(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Largest integer at or below the operand; a zero has the sign of the operand."""

    def fma(
        self,
        a: Item,
        b: Item,
        c: Item,
        *,
        rounding: Rounding = ...,
        ftz: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """`a * b + c` with one rounding."""

    def fmaximum(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Larger of two floats; NaN if either is; 0.0 is above -0.0 (IEEE 754-2019 maximum)."""

    def fmaxnum(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Larger of two floats; if one is NaN, the other one; 0.0 is above -0.0 (IEEE 754-2019
        maximumNumber)."""

    def fminimum(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Smaller of two floats; NaN if either is; -0.0 is below 0.0 (IEEE 754-2019
        minimum)."""

    def fminnum(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Smaller of two floats; if one is NaN, the other one; -0.0 is below 0.0 (IEEE 754-2019
        minimumNumber)."""

    def fmul(
        self,
        lhs: Item,
        rhs: Item,
        *,
        fast: FastMath = ...,
        rounding: Rounding = ...,
        ftz: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Product, rounded once."""

    def fneg(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The sign bit flipped, of NaNs too."""

    def fpcast(
        self,
        value: Item,
        to: Type,
        *,
        rounding: CastRounding = ...,
        saturate: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Convert a float to any other format, 8-bit and 4-bit ones included, rounded once. In
        a format without infinity (f8e4m3), overflow becomes NaN, or the largest finite number
        with `saturate`. f4e2m1, which has no NaN either, always saturates and converts NaN to
        its largest number. f8e8m0 has only powers of two: it rounds to the nearest, ties up.
        Zero, negative numbers and NaN become NaN; with `saturate`, zero and negative numbers
        become its smallest number."""

    def fpext(
        self,
        value: Item,
        to: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """A float as a wider one: exact."""

    def fptosi(
        self,
        value: Item,
        to: Type,
        *,
        saturate: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """A float rounded to zero, as a signed integer. Out of range and NaN are undefined;
        with `saturate` they become the nearest end of the range and 0."""

    def fptoui(
        self,
        value: Item,
        to: Type,
        *,
        saturate: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """A float rounded to zero, as an unsigned integer. Out of range and NaN are undefined;
        with `saturate` they become the nearest end of the range and 0."""

    def fptrunc(
        self,
        value: Item,
        to: Type,
        *,
        rounding: CastRounding = ...,
        saturate: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """A float as a narrower one, rounded once."""

    def frem(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Remainder of the quotient rounded to zero, exact, with the sign of `lhs` (C's fmod).
        NaN where `lhs` is infinite or `rhs` is zero."""

    def frint(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Nearest integer, halves to even."""

    def fround(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Nearest integer, halves away from zero."""

    def fsub(
        self,
        lhs: Item,
        rhs: Item,
        *,
        fast: FastMath = ...,
        rounding: Rounding = ...,
        ftz: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Difference, rounded once."""

    def ftrunc(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Operand rounded to zero; a zero has the sign of the operand."""

    def gather(
        self,
        source: Item,
        index: Item,
        *,
        axis: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Elements of `source` at `index` along `axis`: result[i, j] = source[index[i, j], j]
        for rank 2 and axis 0. The other extents are equal. Traps on an index out of bounds."""

    def getelementptr(
        self,
        pointer: Item,
        index: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The pointer `index` elements further on; the index is signed, of any integer
        width."""

    def global_address(
        self,
        to: Type,
        name: str,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The address of a global of the module, in global memory or the constant address
        space."""

    def globaltimer(
        self,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """A clock of the GPU in nanoseconds."""

    def gpu_async_commit(
        self,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """End a group of copies."""

    def gpu_async_copy(
        self,
        pointer: Item,
        buffer: Item,
        stage: Item,
        mask: Item | None = None,
        *,
        offsets: Sequence[int] = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Start an asynchronous copy from `pointer` to the part of stage `stage` of `buffer`
        that begins at `offsets`, with zeros where `mask` is false. The data is visible after a
        wait for the group (PTX ISA, cp.async)."""

    def gpu_async_fence(
        self,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Order earlier accesses of this thread to shared memory before accesses of TMA and of
        `gpu.wgmma` that are ordered after the fence (PTX ISA, "Async proxy")."""

    def gpu_async_wait(
        self,
        *,
        pending: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Wait until at most the newest `pending` groups of copies are in flight. Each thread
        waits for its own copies; a barrier makes the data visible to all threads."""

    def gpu_barrier(
        self,
        *,
        warp: bool = ...,
        warpgroup: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Synchronize all threads of the block: earlier memory accesses of each thread are
        visible to all threads after the barrier. With `warp` each warp synchronizes by itself,
        with `warpgroup` each warpgroup of 4 warps."""

    def gpu_cluster_arrive(
        self,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Arrive at the cluster barrier, with all threads of the block. Earlier accesses are
        ordered before accesses of the other blocks after the matching `gpu.cluster_wait`. Only
        the kernel uses the op, and not while roles run; it may start roles before it waits."""

    def gpu_cluster_load(
        self,
        buffer: Item,
        stage: Item,
        rank: Item,
        row: Item,
        type: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Load, from the shared memory of block `rank` of the cluster, the part of stage
        `stage` of `buffer` that begins in row `row` and column 0. That block must not have
        exited."""

    def gpu_cluster_mbarrier_arrive(
        self,
        barrier: Item,
        index: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Synchronize the threads of the kernel or role, and arrive once at barrier `index` of
        every block of the cluster, including this block. Earlier accesses are visible to
        threads after `gpu.cluster_mbarrier_wait` for the phase."""

    def gpu_cluster_mbarrier_wait(
        self,
        barrier: Item,
        index: Item,
        parity: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Wait as `gpu.mbarrier_wait` does, for arrivals from all blocks of the cluster."""

    def gpu_cluster_rank(
        self,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The number of this block in its cluster, from 0 on."""

    def gpu_cluster_scatter(
        self,
        value: Item,
        buffer: Item,
        stage: Item,
        barrier: Item,
        index: Item,
        *,
        blocks: int,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Start asynchronous stores that scatter the rows of `value` over the `blocks` of the
        cluster: block r receives n rows from row r n on, in stage `stage` of its `buffer`. The
        bytes are counted at barrier `index` of that block, and are visible after a wait for the
        phase (PTX ISA, "st.async")."""

    def gpu_cluster_wait(
        self,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Wait until every block of the cluster has reached its `gpu.cluster_arrive` or has
        exited."""

    def gpu_conditional_row_max(
        self,
        value: Item,
        scale: Item,
        bound: Item,
        most: Item,
        exponent: Item,
        *,
        axis: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> tuple[Expr, Expr]:
        """Update the running row maximum of an online softmax. The first result is the maximum
        of `value` along `axis` (`fmaxnum`) times `scale` where that exceeds `bound`, and `most`
        elsewhere. The second result is the factor that rescales accumulators from the old
        maximum to the new one: 2 to the power of (`most` - new maximum) times `exponent`
        (`exp2` with `fast = approx`), and 1 elsewhere. A warp in which no element exceeds
        `bound` skips the rest."""

    def gpu_conditional_scale(
        self,
        value: Item,
        factor: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """`value` times `factor`, as `fmul`. A warp skips the multiplication if all its factors
        are 1."""

    def gpu_convert_layout(
        self,
        source: Item,
        *,
        layout: object,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The same tile in the layout `layout`."""

    def gpu_device_assert(
        self,
        condition: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """End the kernel with an error where `condition` is false."""

    def gpu_join(
        self,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Wait for all roles that were started."""

    def gpu_local_gather(
        self,
        buffer: Item,
        stage: Item,
        row: Item,
        column: Item,
        type: Type,
        *,
        rows: Sequence[int],
        columns: Sequence[int],
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Gather a tile from stage `stage` of `buffer`. The elements need be neither adjacent
        nor distinct: element (i, j, ...) is that in row `row` + i `rows[0]` + j `rows[1]` + ...
        and column `column` + i `columns[0]` + j `columns[1]` + ...."""

    def gpu_local_load(
        self,
        buffer: Item,
        stage: Item,
        type: Type,
        *,
        offsets: Sequence[int] = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Load the part of stage `stage` of `buffer` that begins at `offsets`."""

    def gpu_local_store(
        self,
        value: Item,
        buffer: Item,
        stage: Item,
        *,
        offsets: Sequence[int] = ...,
        columns: Sequence[int] = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Store `value` to the part of stage `stage` of `buffer` that begins at `offsets`.
        `columns` = [first, count] restricts the store to these columns of `value`."""

    def gpu_mbarrier_alloc(
        self,
        type: Type,
        *,
        count: int = ...,
        arrivals: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Allocate `count` barriers in shared memory. Each one is in its first phase, which
        ends after `arrivals` arrivals and after all expected bytes (PTX ISA, "mbarrier"). Only
        the ops below take the pointer. All threads see the initialized barriers after this
        op."""

    def gpu_mbarrier_arrive(
        self,
        barrier: Item,
        index: Item,
        condition: Item | None = None,
        *,
        cluster: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Arrive once per warp at barrier `index`, after all lanes of the warp reach the op.
        Earlier accesses of the warp are visible to threads that wait for the phase. The op does
        nothing where `condition` is false. With `cluster` the warp arrives at the barrier of
        every block of the cluster. This orders its reads before the copies of the other blocks,
        which may then overwrite the buffer; it does not make its writes visible to them."""

    def gpu_mbarrier_expect(
        self,
        barrier: Item,
        index: Item,
        *,
        bytes: int,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """One thread arrives at barrier `index` and adds `bytes` to the bytes that its phase
        waits for."""

    def gpu_mbarrier_wait(
        self,
        barrier: Item,
        index: Item,
        parity: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Wait until the phase of barrier `index` with parity `parity`, 0 or 1, has ended. The
        first phase has parity 0. A wait for parity 1 before the first phase ends returns at
        once."""

    def gpu_named_barrier_arrive(
        self,
        *,
        begin: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Let the next warpgroup pass its `gpu.named_barrier_sync`. With `begin` only the last
        warpgroup arrives, so that the first warpgroup starts."""

    def gpu_named_barrier_sync(
        self,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Order the warpgroups of a role round-robin: wait until the previous warpgroup has
        executed `gpu.named_barrier_arrive` as often as this one has executed this op. The first
        warpgroup waits for the last one."""

    def gpu_private_alloc(
        self,
        type: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Allocate a private buffer with undefined contents. Each execution discards the
        previous contents. Only the ops below take the buffer."""

    def gpu_private_load(
        self,
        buffer: Item,
        index: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Tile number `index` of a private buffer."""

    def gpu_private_store(
        self,
        buffer: Item,
        index: Item,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Write `value` as tile number `index` of a private buffer."""

    def gpu_role(
        self,
        callee: str,
        arguments: Sequence[Item] | Item = ...,
        *,
        first: int = ...,
        warps: int,
        registers: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Run function `callee` with `arguments` on `warps` warps from warp `first` on; the
        other warps continue. `registers` is the register count of each thread of the role, 0
        for that of the kernel. The next `gpu.join` waits for all roles. Only a kernel starts
        roles, and only on warps that run no role."""

    def gpu_schedule_barrier(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Schedule the computation of `value` before all later ops. This keeps ptxas from
        moving a wgmma wait above the code that should overlap with the MMAs."""

    def gpu_shared_alloc(
        self,
        type: Type,
        *,
        shape: Sequence[int],
        fast: int = ...,
        swizzle: int = ...,
        panel: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Allocate shared memory of `shape` = [stages, rows, columns]: a circular buffer of
        two-dimensional tiles. Rows are contiguous along dimension `fast` of the tile. The low
        `swizzle` bits of the row number permute the 16-byte chunks of a row, so that a column
        of 8 rows uses different banks. Only the ops below take the pointer. The allocation is
        valid for the whole program instance. `panel` splits rows into panels of that many
        elements; panels are stored one after the other, each as a tile."""

    def gpu_tensor_map(
        self,
        base: Item,
        to: Type,
        dimensions: Sequence[tuple[Item, Item]] = ...,
        *,
        padding: Padding = ...,
        swizzle: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """A descriptor, as `make_descriptor` makes, that the host encodes before the launch:
        its operands are computed from the kernel's parameters by scalar ops alone. Shared
        memory stores rows of the last dimension in panels of 16 << `swizzle` bytes (whole rows
        for 0). See "Tensor Map" of the CUDA driver API for what base, extents and strides it
        can describe."""

    def gpu_tma_load(
        self,
        descriptor: Item,
        buffer: Item,
        stage: Item,
        barrier: Item,
        index: Item,
        indices: Sequence[Item] | Item = ...,
        *,
        multicast: int = ...,
        axis: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Start a TMA copy of the block at `indices` to stage `stage` of `buffer`. Elements
        outside the tensor are padded. All dimensions but the last are rows. The bytes,
        including padding, are counted at barrier `index`. One thread issues the copy."""

    def gpu_tma_store(
        self,
        descriptor: Item,
        buffer: Item,
        stage: Item,
        indices: Sequence[Item] | Item = ...,
        *,
        axis: int = ...,
        warpgroup: bool = ...,
        add: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Start a TMA copy of stage `stage` of `buffer` to the block at `indices`. Elements
        outside the tensor are not written. A stage with n times the rows is copied to n
        consecutive blocks along `axis`. One thread issues the copy; with `warpgroup`, one
        thread of each warpgroup issues the copies of the blocks that are assigned to it round-
        robin. `gpu.tma_wait` waits for completion. With `add` each f32 is added to the
        destination by a relaxed atomic access (PTX ISA, cp.reduce.async.bulk.tensor)."""

    def gpu_tma_wait(
        self,
        *,
        pending: int = ...,
        warpgroup: bool = ...,
        complete: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Wait for TMA stores. The thread that issued them, or one thread of each `warpgroup`,
        waits until at most the newest `pending` stores still read shared memory. With
        `complete` it waits until all others are complete; later writes are then ordered after
        them (PTX ISA, cp.async.bulk.wait_group)."""

    def gpu_wgmma(
        self,
        a: Item,
        a_stage: Item,
        b: Item,
        b_stage: Item,
        c: Item,
        *,
        trans_a: bool = ...,
        trans_b: bool = ...,
        lhs_signed: bool = ...,
        rhs_signed: bool = ...,
        depth: Sequence[int] = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Start the asynchronous MMA `a` times `b` plus `c` (see `dot`). Each warpgroup of 4
        warps computes its own rows. `b` is a stage of a shared-memory buffer; `a` is a stage or
        a tile in registers. `trans_a` and `trans_b` mark operands that are stored transposed.
        If the rows of `b` are longer than N, the first N columns are used. `depth` = [first,
        count] restricts the MMA to these steps of K. The accumulator is available after
        `gpu.wgmma_wait`. Until then only another `gpu.wgmma` may use it, as `c`, and the stages
        must not be written."""

    def gpu_wgmma_wait(
        self,
        value: Item,
        *,
        pending: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Return the accumulator `value` once at most the newest `pending` groups of MMAs are
        in flight. Every `gpu.wgmma` is a group."""

    def histogram(
        self,
        value: Item,
        to: Type,
        mask: Item | None = None,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Count the elements of `value` that equal 0, 1, ..., up to the extent of the result.
        The elements are unsigned. Those out of range, and those where `mask` is false, are not
        counted."""

    def iabs(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Absolute value modulo 2^n: the smallest integer is its own."""

    def icmp(
        self,
        lhs: Item,
        rhs: Item,
        *,
        predicate: IntegerPredicate,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> tuple[Expr, Expr]:
        """Compare two integers or pointers: whether `predicate` is true, and the complement.
        Pointers compare as unsigned addresses; signed relations need integers."""

    def inline_asm(
        self,
        to: Type | Sequence[Type],
        values: Sequence[Item] | Item = ...,
        *,
        text: str,
        constraints: str,
        pure: bool = ...,
        pack: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Any:
        """Inline PTX as an elementwise op: `text` with operands `$0`, `$1`, ... under LLVM's
        `constraints`, applied to groups of `pack` elements. If the last group of a thread has
        fewer elements, its last element is repeated. Code that is not `pure` is never removed,
        repeated or moved. The interpreter and the simulator compute the PTX that has a meaning
        outside a GPU: arithmetic, logic and conversions, without memory, branches and special
        registers. The compiler needs a permission for the op."""

    def insert_slice(
        self,
        value: Item,
        small: Item,
        offsets: Sequence[Item] | Item = ...,
        *,
        strides: Sequence[int] | None = None,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """A tile with the part that starts at `offsets`, every `strides`-th element, replaced
        by `small`. Traps if the part is out of bounds."""

    def inttoptr(
        self,
        value: Item,
        to: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The pointer to an address; an integer narrower than 64 bits is extended by zeros."""

    def join(
        self,
        low: Item,
        high: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Two values of one type side by side in a new last dimension of extent 2."""

    def load(
        self,
        pointer: Item,
        mask: Item | None = None,
        other: Item | None = None,
        *,
        cache: LoadCache = ...,
        eviction: Eviction = ...,
        volatile: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Load the elements that `pointer` points to. Lanes where `mask` is false do not access
        memory; they are `other`, or undefined without it. A `volatile` load is never removed,
        repeated or moved over another access. i1 occupies one byte, 0 or 1."""

    def log(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Natural logarithm; NaN below 0, -inf at 0."""

    def log10(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Logarithm to base 10; NaN below 0, -inf at 0."""

    def log1p(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Natural logarithm of 1 + `value`, accurate near 0; NaN below -1."""

    def log2(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Logarithm to base 2; NaN below 0, -inf at 0."""

    def lshr(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Shift right, zeros coming in. Traps on a shift count of n or more."""

    def make_descriptor(
        self,
        base: Item,
        to: Type,
        dimensions: Sequence[tuple[Item, Item]] = ...,
        *,
        padding: Padding = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Make a descriptor of the tensor at `base`, with one pair of extent and stride per
        dimension, in elements. Elements out of bounds are read as zero bits, or as NaNs with
        `padding = nan`; writes to them are dropped."""

    def make_range(
        self,
        to: Type,
        *,
        start: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The integers `start`, `start + 1`, ... in a tile of one dimension."""

    def mul(
        self,
        lhs: Item,
        rhs: Item,
        *,
        overflow: Overflow = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Low n bits of the product."""

    def multiple_of(
        self,
        value: Item,
        *,
        values: Sequence[int],
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Promise that scalars, and the first element of each run of consecutive elements along
        each dimension, are multiples of `values`. A run is one that `contiguous` would state.
        If some dimension has runs, the promise does not apply to dimensions without runs.
        Pointers count in bytes."""

    def neg(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Negation modulo 2^n: the smallest integer is its own."""

    def num_programs(
        self,
        *,
        axis: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Number of program instances along `axis` of the grid."""

    def or_(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Bitwise or."""

    def pow(
        self,
        lhs: Item,
        rhs: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """`lhs` to the power of `rhs`, special cases as in C (IEEE 754-2019 9.2.1): 1 to
        anything and anything to 0 are 1; NaN for a finite negative base and a finite exponent
        that is not an integer."""

    def print(
        self,
        values: Sequence[Item] | Item = ...,
        *,
        prefix: str = ...,
        hex: bool = ...,
        unsigned: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Print `values` after `prefix`: integers in hexadecimal with `hex`, as unsigned ones
        with `unsigned` (hexadecimal ones are always unsigned)."""

    def program_id(
        self,
        *,
        axis: int = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Index of this program instance along `axis` of the grid."""

    def psi(
        self,
        arms: Sequence[tuple[Item, Item]] = ...,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Merge values, lane by lane: the last value whose predicate is true; undefined if none
        is. A predicate is a scalar i1 or an i1 tile of the values' shape."""

    def ptrtoint(
        self,
        value: Item,
        to: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The address of a pointer, its low bits for an integer narrower than 64 bits."""

    def reduce(
        self,
        values: Sequence[Item] | Item = ...,
        *,
        axis: int = ...,
        combiner: Combiner | str | Callable[..., Any],
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Any:
        """Combine all elements along `axis`, which is dropped. The combiner is associative and
        commutative. Floats may be added in any order: the error is at most (n - 1) half-ulps of
        the total of magnitudes. The interpreter's order is defined in `tileir.machine`:
        `reductions` for named combiners, `folds` for functions (the upper half onto the lower
        half until one element is left). Under a predicate only its lanes take part; if none
        does, the result is undefined."""

    def reshape(
        self,
        value: Item,
        to: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The same elements in row-major order under another shape of the same size."""

    def rsqrt(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """1 / sqrt(`value`); an infinity of the same sign for zeros, NaN below 0."""

    def scan(
        self,
        values: Sequence[Item] | Item = ...,
        *,
        axis: int = ...,
        combiner: Combiner | str | Callable[..., Any],
        reverse: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Any:
        """Combine each element with all elements before it along `axis`, or after it with
        `reverse`: inclusive prefixes. The combiner is associative; floats may be added in any
        order. The interpreter doubles the distance in each step (Hillis and Steele). Lanes
        whose predicate is false are skipped and undefined."""

    def sdiv(
        self,
        lhs: Item,
        rhs: Item,
        *,
        rounding: DivRounding = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Signed quotient, rounded to zero, down or up. Traps on a zero divisor; the smallest
        integer divided by -1 wraps to itself."""

    def select(
        self,
        condition: Item,
        then: Item,
        otherwise: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """`then` where `condition` is true, else `otherwise`. A lane is undefined only if its
        condition or the selected value is."""

    def sext(
        self,
        value: Item,
        to: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """An integer as a wider one, copies of the sign above (of i1: true becomes -1)."""

    def shl(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Shift left, zeros coming in. Traps on a shift count of n or more."""

    def sin(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Sine of radians, of any size; NaN of infinities."""

    def sinh(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Hyperbolic sine."""

    def sitofp(
        self,
        value: Item,
        to: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """A signed integer as a float, rounded once to nearest even (of i1: true is -1)."""

    def smax(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Larger of two signed integers (of i1, where true is -1, their and)."""

    def smin(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Smaller of two signed integers (of i1, where true is -1, their or)."""

    def smulhi(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """High n bits of the 2n-bit signed product."""

    def splat(
        self,
        value: Item,
        to: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """A tile with the scalar `value` everywhere."""

    def split(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> tuple[Expr, Expr]:
        """The two halves of a tile whose last dimension has extent 2; inverse of `join`."""

    def sqrt(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Square root, rounded once; NaN below 0; -0.0 at -0.0."""

    def srem(
        self,
        lhs: Item,
        rhs: Item,
        *,
        rounding: RemRounding = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Signed remainder: `lhs - rhs * sdiv(lhs, rhs)` with the same rounding. Traps on a
        zero divisor."""

    def store(
        self,
        pointer: Item,
        value: Item,
        mask: Item | None = None,
        *,
        cache: StoreCache = ...,
        eviction: Eviction = ...,
        volatile: bool = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> None:
        """Store `value` to the elements that `pointer` points to. Lanes where `mask` is false
        do not access memory. Lanes with the same address must store the same value. A
        `volatile` store is never removed, repeated or moved over another access."""

    def sub(
        self,
        lhs: Item,
        rhs: Item,
        *,
        overflow: Overflow = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Difference modulo 2^n."""

    def tan(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Tangent of radians, of any size; NaN of infinities."""

    def tanh(
        self,
        value: Item,
        *,
        fast: FastMath = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Hyperbolic tangent."""

    def trans(
        self,
        value: Item,
        *,
        order: Sequence[int],
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Permute dimensions: dimension d of the result is dimension `order[d]` of the
        operand."""

    def trunc(
        self,
        value: Item,
        to: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The low bits of an integer, as a narrower one."""

    def udiv(
        self,
        lhs: Item,
        rhs: Item,
        *,
        rounding: DivRounding = ...,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Unsigned quotient, rounded to zero, down or up. Traps on a zero divisor."""

    def uitofp(
        self,
        value: Item,
        to: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """An unsigned integer as a float, rounded once to nearest even."""

    def umax(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Larger of two unsigned integers."""

    def umin(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Smaller of two unsigned integers."""

    def umulhi(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """High n bits of the 2n-bit unsigned product."""

    def unsplat(
        self,
        value: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """The only element of a tile of one element."""

    def urem(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Unsigned remainder. Traps on a zero divisor."""

    def xor(
        self,
        lhs: Item,
        rhs: Item,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """Bitwise exclusive or; with -1 (`true` for i1) the complement."""

    def zext(
        self,
        value: Item,
        to: Type,
        *,
        result: Names = None,
        when: Expr | Value | None = None,
        location: Location | None = None,
    ) -> Expr:
        """An integer as a wider one, zeros above."""
