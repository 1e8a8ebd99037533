"""Special functions of JAX at ordinary numbers and at the ends of the format, beside SciPy in double precision."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import jax.scipy.special as of_jax
import numpy as np
import scipy.special as of_scipy  # type: ignore[import-untyped]

from tests.scan.call import Call
from tests.scan.jax_ways import call

_TINY, _LARGE = 1.1754944e-38, 3.4028235e38
_ENDS: Final = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-45,
    _TINY,
    -_TINY,
    1e-6,
    0.3,
    0.5,
    0.99999994,
    1.0000001,
    2.0,
    -2.0,
    2.5,
    -2.5,
)
_FAR: Final = (
    10.0,
    -10.0,
    33.0,
    88.7,
    -88.7,
    1e3,
    -1e3,
    1e7,
    1e10,
    _LARGE,
    -_LARGE,
    np.inf,
    -np.inf,
    np.nan,
)
_X: Final = np.array([*_ENDS, *_FAR, *np.linspace(-6, 6, 40)], np.float32)
_POSITIVE: Final = np.array(sorted({abs(x) for x in _X if not np.isnan(x)}), np.float32)
_FEW: Final = np.array(
    [1e-30, 1e-6, 0.01, 0.5, 1.0, 2.5, 10.0, 100.0, 1e4, 1e8, 1e20, 1e38], np.float32
)
_UNIT: Final = np.array(
    [0.0, 1e-45, 1e-30, 1e-6, 0.1, 0.5, 0.9, 0.999999, 0.99999994, 1.0], np.float32
)

_OF_ONE: Final = [
    "bessel_jn",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "expi",
    "expit",
    "gammaln",
    "gammasgn",
    "gamma",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log_ndtr",
    "logit",
    "ndtr",
    "ndtri",
    "factorial",
    "spence",
    "sici",
    "dawsn",
    "fresnel",
    "wofz",
    "loggamma",
    "log_softmax",
    "exprel",
    "sinc",
    "ellipk",
    "ellipe",
]
_OF_TWO: Final = [
    "beta",
    "betaln",
    "gammainc",
    "gammaincc",
    "kl_div",
    "rel_entr",
    "xlog1py",
    "xlogy",
    "zeta",
    "polygamma",
    "poch",
    "multigammaln",
    "boxcox",
    "boxcox1p",
]


def _flat(*arrays: np.ndarray) -> list[np.ndarray]:
    """Every combination of their elements."""
    return [np.ravel(a) for a in np.meshgrid(*arrays)]


def _call(name: str, arrays: list[np.ndarray], wide: bool) -> Call | None:
    function, exact = getattr(of_jax, name, None), getattr(of_scipy, name, None)
    if function is None or exact is None:
        return None

    def precise() -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            values: Any = exact(*[a.astype(np.float64) for a in arrays])
            return [np.asarray(v) for v in (values if isinstance(values, tuple) else (values,))]

    arrays = [a.astype(np.float64) for a in arrays] if wide else arrays
    of = f"{name}, float{64 if wide else 32}"
    return call(of, function, arrays, wide=wide, precise=precise, each=True)


def calls() -> Iterator[Call]:
    made: list[Call | None] = []
    for wide in (False, True):
        made += [_call(name, [_X], wide) for name in _OF_ONE]
        signed = np.array([*_FEW, 0.0, -0.5, -3.0, np.inf, np.nan], np.float32)
        made += [
            _call(name, _flat(signed, signed), wide)
            for name in _OF_TWO
            if name not in ("multigammaln", "polygamma")
        ]
        orders = np.array([0.0, 1.0, 2.0, 7.0], np.float32)
        made.append(_call("polygamma", _flat(orders, signed), wide))
        for a, b in itertools.product(
            _FEW, _FEW
        ):  # one program, but a call of its own for each pair
            made.append(
                _call("betainc", [np.full_like(_UNIT, a), np.full_like(_UNIT, b), _UNIT], wide)
            )
        made.append(
            _call(
                "hyp1f1",
                _flat(
                    np.array([0.5, 2.5], np.float32),
                    np.array([1.5, 7.0], np.float32),
                    np.array([-30, -1, 0, 0.5, 20], np.float32),
                ),
                wide,
            )
        )
        made.append(_call("logsumexp", [np.array([1.0, np.inf, -np.inf, 5.0], np.float32)], wide))
        made.append(_call("softmax", [_X[np.isfinite(_X)]], wide))
    names: dict[str, int] = {}
    for one in made:
        if one is not None:
            names[one.name] = number = names.get(one.name, 0) + 1
            yield one if number == 1 else Call(f"{one.name}, {number}", *_rest(one))


def _rest(one: Call) -> tuple[Any, ...]:
    return one.cpu, one.ways, one.precise, one.peers, one.each
