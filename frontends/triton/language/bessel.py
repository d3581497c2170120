"""Bessel functions of the orders 0 and 1, as libdevice has them, computed in the type of their
operand.

Up to 8 by a Chebyshev series, J of float32 by differences from its zeros, I of float32 by a
polynomial in x^2; beyond, as an amplitude and a phase (DLMF 10.17) or an exponential (DLMF 10.40),
by Chebyshev series in 1 / x.
Errors are about 1e-15 of the function's amplitude, of float32 3e-7, and up to 8 at most 7 ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tileir.builder import Builder, Expr
from tileir.frontends.triton.language.special32 import (
    constant_like as number,
    is_float32,
    polynomial,
)
from tileir.types import F32, F64

_I0_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06,
    -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09,
    -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12,
    -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15,
    -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18,
)  # fmt: skip
"""exp(-x) I0(x) by x / 4 - 1, for x from 0 to 8: Chebyshev coefficients, as are all here."""
_I0_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11,
    -1.7941785315068062e-12, 7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14,
    -4.150569347287222e-14, -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15,
    -3.4254856196772195e-16, -2.8276239805165836e-16, 3.461222867697477e-17, 4.465621420296738e-17,
    -4.830504485944371e-18, -7.233180487873652e-18,
)  # fmt: skip
"""exp(-x) sqrt(x) I0(x) by 16 / x - 1, for x from 8."""
_I1_NEAR = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499,
    0.024726449030626516, -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532,
    0.0005122859561685758, -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05,
    3.4702513081376785e-06, -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08,
    9.381537386495773e-09, -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11,
    1.1736186298890901e-11, -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14,
    7.600684294735408e-15, -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17,
    2.7779141127610464e-18,
)  # fmt: skip
"""exp(-x) I1(x) / x."""
_I1_FAR = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09,
    -5.589743462196584e-10, -1.8974958123505413e-11, 3.2526035830154884e-11,
    1.4125807436613782e-11, 2.0356285441470896e-12, -7.198551776245908e-13,
    -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15,
    3.3082023109209285e-16, 2.96262899764595e-16, -3.2095259219934404e-17, -4.650305368489336e-17,
    4.414348323071889e-18, 7.51729631084099e-18,
)  # fmt: skip
"""exp(-x) sqrt(x) I1(x)."""
_J0_NEAR = (
    0.15772797147489012, -0.008723442352852221, 0.2651786132033368, -0.37009499387264977,
    0.15806710233209725, -0.034893769411408884, 0.004819180069467605, -0.00046062616620627504,
    3.246032882100508e-05, -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09,
    7.848696314479465e-11, -1.9438346867370164e-12, 4.125320595634374e-14, -7.588508125447546e-16,
    1.2218515873961411e-17,
)  # fmt: skip
"""J0(x) by x^2 / 32 - 1, for x from 0 to 8."""
_Y0_NEAR = (
    -0.03314611320328494, -0.2744743055297453, 0.17903431407718265, 0.26156734625504663,
    -0.17730201278114358, 0.04719668959576339, -0.007287962479552079, 0.0007531135932577742,
    -5.632079141056987e-05, 3.206532537654801e-06, -1.44072332740187e-07, 5.248794787330516e-09,
    -1.5837552541812015e-10, 4.02633081830612e-12, -8.747341203310769e-14, 1.6434898714919468e-15,
    -2.6977881152566837e-17,
)  # fmt: skip
"""Y0(x) - 2/pi ln(x) J0(x)."""
_P0 = (
    0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
    1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
    4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16, -1.0011513723467786e-16,
    1.6305919233744186e-17,
)  # fmt: skip
"""P of J0(x) = sqrt(2 / (pi x)) (P cos(x - pi/4) - 8/x Q sin(x - pi/4)) by 128 / x^2 - 1, for x
from 8."""
_Q0 = (
    -0.015555854605337009, 6.838519942611649e-05, -7.414498411060647e-07, 1.7972457247968992e-08,
    -7.27191593686632e-10, 4.2201219046687385e-11, -3.206747420996635e-12, 3.006145125351706e-13,
    -3.336328185322427e-14, 4.255225040245461e-15, -6.09993013164005e-16, 9.662128970303257e-17,
    -1.6686065214378146e-17, 3.1082440486738143e-18, -6.191115787358143e-19,
)  # fmt: skip
"""Q of the same."""
_J1_NEAR = (
    0.08104484632565812, -0.1489751450676521, 0.1609992623572097, -0.08268049176681791,
    0.022213639654966037, -0.003646940600769276, 0.0004050337728354822, -3.255554866857259e-05,
    1.9858774049915165e-06, -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10,
    3.160154580348003e-12, -7.221755239651773e-14, 1.4232144003513942e-15, -2.4441972916190464e-17,
)  # fmt: skip
"""J1(x) / x."""
_Y1_NEAR = (
    0.0025380132357417816, -0.01608717304766875, -0.09591204536083074, 0.08445197259652346,
    -0.028328123944594365, 0.005289897544167113, -0.0006414551451326356, 5.505982873338744e-05,
    -3.53808001868935e-06, 1.7707804556154404e-07, -7.11055004989928e-09, 2.344337905911516e-10,
    -6.4651518414115946e-12, 1.51429151205002e-13, -3.0511859694473254e-15, 5.34668038572867e-17,
)  # fmt: skip
"""(Y1(x) - 2/pi (ln(x) J1(x) - 1 / x)) / x."""
_P1 = (
    1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08,
    -1.8718907491063067e-09, 8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13,
    -4.6842237839904895e-14, 5.452674896044717e-15, -7.221180842274018e-16, 1.0667689114335412e-16,
    -1.7312313216116335e-17,
)  # fmt: skip
"""P of J1(x), whose phase is x - 3 pi/4."""
_Q1 = (
    0.04677778706953532, -9.62772354915708e-05, 9.138615257955454e-07, -2.0959781384083424e-08,
    8.229193327650554e-10, -4.686363688176945e-11, 3.5152187949686082e-12, -3.2643156743279e-13,
    3.5967765829165294e-14, -4.5612523950772974e-15, 6.508282957783384e-16,
    -1.0269147531823243e-16, 1.767635548776479e-17, -3.2834519872981614e-18, 6.524081149589258e-19,
)  # fmt: skip
"""Q of the same."""


_ZEROS = {
    False: (
        (2.40482545, 1.08705905e-07), (5.52007818, -7.19341458e-08), (8.65372753, 3.81477918e-07),
    ),
    True: ((3.83170605, -7.68505899e-08), (7.01558685, -1.83211725e-07)),
}  # fmt: skip
"""Zeros of J0 and of J1, in two parts of float32."""
_QUOTIENT = {
    False: (
        -6.05675412e-23, 3.35606206e-20, -1.22207639e-17, 3.54403159e-15, -7.88928764e-13,
        1.28071317e-10, -1.40856349e-08, 9.22904917e-07, -2.66629413e-05,
    ),
    True: (
        1.63491359e-21, -6.95011006e-19, 2.27609426e-16, -5.92686233e-14, 1.16748911e-11,
        -1.65039604e-09, 1.5488304e-07, -8.42975805e-06, 0.000194989363,
    ),
}  # fmt: skip
"""J0(x) and J1(x) / x divided by x^2 - z^2 for these zeros z, by x^2 - 32: by least squares, for x
from 0 to 8."""
_SMALLEST, _SMALLEST_OF_WIDE = 2.0**-27, 2.0**-50
"""Coefficients below this, relative to the largest, do not change a float32; the second where
numbers of float64 cancel."""

_MODIFIED = {
    False: (
        1.30996367e-19, 2.12251815e-17, 9.91578696e-15, 2.38188917e-12, 4.71437112e-10,
        6.78103902e-08, 6.78172773e-06, 0.000434027665, 0.015625, 0.25, 1.0,
    ),
    True: (
        2.69687246e-18, 3.64602076e-16, 1.60244403e-13, 3.32716805e-11, 5.65916691e-09,
        6.7807747e-07, 5.42539965e-05, 0.00260416558, 0.0625, 0.5,
    ),
}  # fmt: skip
"""I0(x) and I1(x) / x by x^2, for x from 0 to 8: the relative errors are 5e-10 and 3e-9. The
coefficients are rounded one after the other (Lawson's iteration), after the first two of the power
series."""


def _series(b: Builder, t: Expr, coefficients: Sequence[float]) -> Expr:
    """The Chebyshev series of `coefficients` at `t`, by Clenshaw's recurrence."""
    double, last, before = t + t, number(t, 0.0), number(t, 0.0)
    for c in reversed(coefficients[1:]):
        last, before = b.fma(double, last, number(t, c) - before), last
    return b.fma(t, last, number(t, coefficients[0]) - before)


def _modified_bessel(odd: bool, near: Sequence[float], far: Sequence[float]) -> Callable[..., Expr]:
    def formula(b: Builder, x: Expr) -> Expr:
        """The modified function of the first kind."""
        size = b.fabs(x)
        # Far out, e^5.5 is taken apart: the function overflows later than e^x.
        is_near, beyond = size < number(x, 8.0), size - 5.5
        root = b.rsqrt(size)
        inverse = b.fma(root * 16.0, root, number(x, -1.0))
        if is_float32(x):
            power, low = b.exp(beyond), polynomial(b, size * size, _MODIFIED[odd])
            low = low * size if odd else low
            high = _short_series(b, inverse, far) * root
        else:
            power = b.exp(b.select(is_near, size, beyond))
            low = _series(b, size * 0.25 - 1.0, near) * power
            low = low * size if odd else low
            high = _series(b, inverse, far) * root
        # At infinity the exponential is infinite and the reciprocal root is 0.
        high = b.select(size == number(x, math.inf), size, high * math.exp(5.5) * power)
        value = b.select(is_near, low, high)
        return b.copysign(value, x) if odd else value

    return formula


def _short_series(b: Builder, t: Expr, coefficients: Sequence[float]) -> Expr:
    """The Chebyshev series of `coefficients` at `t`, as a polynomial: few terms change a result of
    float32."""
    smallest = _SMALLEST if is_float32(t) else _SMALLEST_OF_WIDE
    limit = smallest * max(map(abs, coefficients))
    powers = np.polynomial.chebyshev.cheb2poly([c for c in coefficients if abs(c) > limit])
    return polynomial(b, t, [float(c) for c in reversed(powers)])


def _phase(b: Builder, x: Expr, odd: bool) -> tuple[Expr, Expr]:
    """Cosine and sine of x - pi/4; of x - 3 pi/4 for the odd function."""
    cosine, sine = b.cos(x) * math.sqrt(0.5), b.sin(x) * math.sqrt(0.5)
    return (sine - cosine, -(sine + cosine)) if odd else (sine + cosine, sine - cosine)


_SERIES = {False: (_J0_NEAR, _Y0_NEAR, _P0, _Q0), True: (_J1_NEAR, _Y1_NEAR, _P1, _Q1)}


def _far(b: Builder, x: Expr, odd: bool, second: bool) -> Expr:
    """J or Y of x from 8."""
    *_, p, q = _SERIES[odd]
    series = _short_series if is_float32(x) else _series
    root, (cosine, sine) = b.rsqrt(x), _phase(b, x, odd)
    inverse = root * root * 8.0
    t = inverse * inverse * 2.0 - 1.0
    p, q = series(b, t, p), series(b, t, q) * inverse
    value = p * sine + q * cosine if second else p * cosine - q * sine
    value = value * root * math.sqrt(2 / math.pi)
    return b.select(x == number(x, math.inf), number(x, 0.0), value)


def _by_zeros(b: Builder, x: Expr, odd: bool) -> Expr:
    """J of float32 up to 8: exact differences from its zeros keep the digits near them."""
    value = polynomial(b, b.fma(x, x, number(x, -32.0)), _QUOTIENT[odd])
    for first, rest in _ZEROS[odd]:
        value = value * (((x - first) - rest) * (x + first))
    return value * x if odd else value


def _first(odd: bool) -> Callable[..., Expr]:
    def formula(b: Builder, x: Expr) -> Expr:
        """The function of the first kind."""
        size = b.fabs(x)
        if is_float32(x):
            near = _by_zeros(b, size, odd)
        else:
            near = _series(b, size * size * (1 / 32) - 1.0, _SERIES[odd][0])
            near = near * size if odd else near
        value = b.select(size < number(x, 8.0), near, _far(b, size, odd, False))
        return b.select(x < number(x, 0.0), -value, value) if odd else value

    return formula


def _second(odd: bool) -> Callable[..., Expr]:
    def formula(b: Builder, x: Expr) -> Expr:
        """The function of the second kind: minus infinity at 0, undefined below. Of float32 it is
        computed in float64 up to 8, for the digits near its zeros."""
        zero = number(x, 0.0)
        if is_float32(x):
            near = _second_near(b, x.to(F64), odd, _short_series).to(F32)
        else:
            near = _second_near(b, x, odd, _series)
        value = b.select(x < number(x, 8.0), near, _far(b, x, odd, True))
        value = b.select(x == zero, number(x, -math.inf), value)
        return b.select(x < zero, number(x, math.nan), value)

    return formula


def _second_near(b: Builder, x: Expr, odd: bool, series: Callable[..., Expr]) -> Expr:
    """Y up to 8, by `series`."""
    t = x * x * (1 / 32) - 1.0
    first, second = series(b, t, _SERIES[odd][0]), series(b, t, _SERIES[odd][1])
    if odd:
        singular = b.log(x) * first * x - number(x, 1.0) / x
        return b.fma(singular, number(x, 2 / math.pi), second * x)
    return b.fma(b.log(x) * first, number(x, 2 / math.pi), second)


FORMULAS: dict[str, Callable[..., Expr]] = {
    "cyl_bessel_i0": _modified_bessel(False, _I0_NEAR, _I0_FAR),
    "cyl_bessel_i1": _modified_bessel(True, _I1_NEAR, _I1_FAR),
    "j0": _first(False), "j1": _first(True), "y0": _second(False), "y1": _second(True),
}  # fmt: skip
"""The formulas, by their names in libdevice."""
