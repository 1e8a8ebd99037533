"""The passes that a program may need before it can be read (:mod:`.legalize`), by name, and what asks for them."""

from __future__ import annotations

from typing import Final

CHLO: Final = "chlo"
DYNAMISM: Final = "dynamism"
BOUNDS: Final = "bounds"
QUANTIZATION: Final = "quantization"

# Operations of one operand that exist in MHLO (as operations, or as custom calls of that name), for chlo to expand.
UNARY = "acos acosh asin asinh atan atanh cosh sinh erf_inv erfc lgamma digamma bessel_i1e"
EXPANDED: Final = {
    **{f"mhlo.{name}": f"chlo.{name}" for name in UNARY.split()},
    "mhlo.ragged_dot": "chlo.ragged_dot",
    "mhlo.scan": "chlo.scan",
    "tripont.mulhi": "chlo.mulhi",  # the name that hlo_module gives to HLO's mulhi
}
