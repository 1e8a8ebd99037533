"""erf_inv.

With w = -log(1 - x^2), erf_inv(x) / x is smooth in w where w is small and in sqrt(w) where it is large:

    float:   w < 5 and the rest
    double:  w < 6.25, sqrt(w) < 4 and the rest

each a minimax polynomial for the relative error (benchmarks/minimax.py: 2^-23.6 and 2^-26.1; 2^-54.8, 2^-54.5 and
2^-55.0). 1 - x^2 is (1 - |x|)(1 + |x|), whose first factor is exact where it matters.
"""

from __future__ import annotations

from typing import Final

from ...targets.target import Target
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, Arithmetic
from .logarithm import log

_COEFFICIENTS: Final = {
    "float": (
        (
            1.5014092922210693, 0.24664027988910675, -0.00417732447385788,
            -0.0012527048820629716, 0.00021826356532983482, -4.998758868168807e-06,
            -3.426012881391216e-06, 4.796984285349026e-07, 1.645735636657264e-08,
            -1.1023141510690948e-08, 4.3702272356505034e-10, 1.3285447741928635e-10,
        ),
        (
            2.832976818084717, 1.0016752481460571, 0.009445580653846264, -0.007643279153853655,
            0.005684222560375929, -0.003563410835340619, 0.001490138005465269,
            -0.0001326658675679937, -0.0003040623851120472, 0.00018168713722843677,
            -1.291213629883714e-05, -1.3560769730247557e-05,
        ),
    ),
    "double": (
        (
            1.6536545626831027, 0.2401581824255883, -0.0060336708714269, -0.0007407025341543209,
            0.00018673420802005114, -1.3882523394981835e-05, -1.3654691763344229e-06,
            4.2347881833070493e-07, -2.9070390826813553e-08, -4.112661679928185e-09,
            1.0512231162558346e-09, -5.414240038612314e-11, -1.297870928700626e-11,
            2.6303166964991436e-12, -8.074256591537571e-14, -3.997312970015386e-14,
            6.5251053909163314e-15, -4.648843121606373e-17, -1.2255961843394015e-16,
            1.6225861480480646e-17, 6.348475431045528e-19, -3.9349858028540615e-19,
            1.8927436941692925e-20, 4.9166946444984514e-21, -3.411641920265822e-22,
            -2.828698511836127e-23,
        ),
        (
            3.0838856104922208, 1.0052589676941655, 0.00537091455355509, -0.0037512085082238083,
            0.0024914420979534383, -0.0016882755354779633, 0.0009532893416629095,
            -0.00035503781336942704, 2.4031511867579217e-05, 6.82871141767351e-05,
            -4.732067384768362e-05, 1.2465042826166374e-05, 2.9325502237193665e-06,
            -3.985746003357892e-06, 1.481669902404683e-06, -2.755187720293354e-08,
            -2.456092113291264e-07, 1.3152846565193543e-07, -2.0820114195316798e-08,
            -1.5283578970245183e-08, 7.646135492324291e-09,
        ),
        (
            4.849906401408584, 1.0103004648645448, -0.00013871931838008216,
            -0.0002150301197990816, 7.59952780953429e-05, -1.9681771197823497e-05,
            4.526052537115756e-06, -9.93025481609585e-07, 2.2905278456990774e-07,
            -6.757277942908201e-08, 2.9018666858881677e-08, -1.521360928971613e-08,
            7.821544442672022e-09, -3.5341388130136686e-09, 1.3157541040291087e-09,
            -3.808577243819072e-10, 6.97576718494234e-11, 1.4805875270496324e-11,
            -2.0444976628683476e-11, 5.858768615586965e-12,
        ),
    ),
}  # fmt: skip
# The middles of the polynomials' ranges, the first of w, the others of sqrt(w); and where sqrt(w) leaves a range.
_MIDDLES: Final = {"float": (2.5, 3.0), "double": (3.125, 3.25, 5.0)}
_ENDS: Final = {"float": (2.23606797749979,), "double": (2.5, 4.0)}


def erf_inv(builder: Builder, target: Target, x: Value) -> Value:
    """The inverse of the error function. float, double: below 4 ulp. +-1 -> +-inf, beyond -> NaN."""
    m = Arithmetic(builder, target, x.type)
    a = m.absolute(x)
    w = m.negate(log(builder, target, m.mul(m.sub(1.0, a), m.add(a, 1.0))))
    root = m.sqrt(m.at_least(w, 0.0))
    first, *others = zip(_COEFFICIENTS[m.scalar], _MIDDLES[m.scalar], strict=True)
    factor = m.polynomial(m.sub(w, first[1]), first[0])
    for (coefficients, middle), end in zip(others, _ENDS[m.scalar], strict=True):
        beyond = m.polynomial(m.sub(root, middle), coefficients)
        factor = m.select(m.compare("olt", root, end), factor, beyond)
    return m.mul(m.select(m.compare("oeq", a, 1.0), INFINITY, factor), x)
