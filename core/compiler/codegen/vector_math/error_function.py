"""erf.

    |x| < a:  erf x = x + x P(x^2)
    |x| >= a: erf x = 1 - exp(-Q(|x|))       (Q approximates -log erfc, which is smooth)

with a = 0.9 (float) or 1 (double); both sides are computed and one is chosen. P is minimax for the
relative error of erf, Q for the error of exp(-Q) relative to erf (Remez exchange in 180-bit
arithmetic). Approximation errors: float 2^-26.0 and 2^-29.1, double 2^-55.0 and 2^-56.3.
"""

from __future__ import annotations

from typing import Final

from ...targets.target import Target
from ..llvm_ir import Builder, Value
from .arithmetic import Arithmetic
from .exponential import exp_normal

_SMALL: Final = {
    "float": (
        0.12837915122509003, -0.3761250376701355, 0.11281921714544296, -0.026770493015646935, 0.004998959135264158,
        -0.0006020799046382308,
    ),
    "double": (
        0.12837916709551256, -0.3761263890318352, 0.11283791670944185, -0.026866170643111406, 0.005223977606117845,
        -0.0008548325929287242, 0.0001205529357625962, -1.4924712293343331e-05, 1.6447131506311547e-06,
        -1.6206313539973557e-07, 1.3710980457224525e-08, -7.779470111648537e-10,
    ),
}  # fmt: skip
_LARGE: Final = {
    "float": (
        0.00016645905270706862, 1.1277971267700195, 0.636976420879364, 0.10411322861909866, -0.022314906120300293,
        0.0030653863213956356, -0.0001982058020075783,
    ),
    "double": (
        5.031069963839165e-07, 1.128374087029624, 0.6366436388950415, 0.1027034100777239, -0.01899012345901168,
        -0.0004107043167859944, 0.0019160233801687433, -0.0007707082392391998, 0.00013509184168391546,
        2.0245793417645898e-05, -2.2814223801386388e-05, 8.664589526409223e-06, -2.1350573254512706e-06,
        3.7318958434652705e-07, -4.6407724654185335e-08, 3.932860108921448e-09, -2.0441674763551567e-10,
        4.926528530763418e-12,
    ),
}  # fmt: skip
# (where the second formula takes over, where erf rounds to 1)
_BOUNDS: Final = {"float": (0.9, 3.93), "double": (1.0, 5.95)}


def erf(builder: Builder, target: Target, x: Value) -> Value:
    """The error function. float: below 1.4 ulp; double: below 2.5 ulp. NaN goes the first way."""
    m = Arithmetic(builder, target, x.type)
    threshold, limit = _BOUNDS[m.scalar]
    a = m.absolute(x)
    small = m.fma(x, m.polynomial(m.mul(x, x), _SMALL[m.scalar]), x)
    q = m.polynomial(m.at_most(a, limit), _LARGE[m.scalar])
    large = m.copysign(m.sub(1.0, exp_normal(m, m.negate(q))), x)
    return m.select(m.compare("ult", a, threshold), small, large)
