"""The incomplete gamma and beta functions of generated code: against decimal arithmetic, of parameters of every size
against values of mpmath, and where nothing but the kind of a result is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.codegen.vector_math import FUNCTIONS
from tripont.core.compiler.reference import incomplete as evaluate_incomplete

from tests.core.compiler.codegen.native import elementwise, without_double
from tests.core.compiler.codegen.test_vector_math import INF, NAN, Array, check

KINDS = ["float", "double", "float alone"]


def native(name: str, kind: str) -> tuple[Callable[..., Array], Any]:
    """(the function on arrays, their dtype); "float alone": for a device that has no double."""
    scalar, dtype = ("double", np.float64) if kind == "double" else ("float", np.float32)
    cpu = without_double() if kind == "float alone" else "host"
    return elementwise(FUNCTIONS[name], scalar, 3 if name == "betainc" else 2, cpu), dtype


# name: reference, correctly rounded; largest error of float (computed in double), of double, of float alone.
INCOMPLETE: dict[str, tuple[Callable[..., float], float, float, float]] = {
    "igamma": (evaluate_incomplete.igamma, 0.51, 10, 10),
    "igammac": (evaluate_incomplete.igammac, 0.51, 24, 24),
    "igamma_grad_a": (evaluate_incomplete.igamma_grad_a, 0.51, 40, 40),
    "betainc": (evaluate_incomplete.betainc, 0.51, 16, 16),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", INCOMPLETE)
def test_incomplete_functions(name: str, kind: str) -> None:
    """Small and large parameters, both series and both fractions; the values of zeros and infinities in other lanes."""
    reference, *bounds = INCOMPLETE[name]
    function, dtype = native(name, kind)
    generator = np.random.default_rng(12)
    a, b = np.exp(generator.uniform(np.log(0.02), np.log(300), (2, 160)))
    a[:40] = np.exp(generator.uniform(-9, 0, 40))
    b[40:80] = a[40:80] * generator.uniform(0.9, 1.1, 40)
    x = generator.uniform(0.01, 0.94, 160)
    arguments = [v.astype(dtype) for v in (a, b, x)[: 3 if name == "betainc" else 2]]
    limits = np.array([0, 0.5, 1, INF, -1, NAN], dtype)
    grid = np.stack(np.meshgrid(*[limits] * len(arguments))).reshape(len(arguments), -1)
    arguments = [np.concatenate([v, w]) for v, w in zip(arguments, grid, strict=True)]
    got = function(*arguments)
    exact = np.array([reference(*map(float, v)) for v in zip(*arguments, strict=True)])
    bound = bounds[KINDS.index(kind)]
    counted = ~((np.abs(exact) < np.finfo(dtype).tiny) & (exact != 0))  # those may be rounded twice
    check(name, got[counted], exact[counted], bound, arguments[0][counted])


# By mpmath with 50 digits: the functions' own series where they end, Temme's expansion for a from 3000 on.
VALUES = [
    ("igamma", (64.0, 60.0), 0.31956677546431816),
    ("igammac", (64.0, 60.0), 0.6804332245356819),
    ("igamma_grad_a", (64.0, 60.0), -0.04525475753909522),
    ("igamma", (100.0, 143.5), 0.9999467009308945),
    ("igammac", (100.0, 143.5), 5.3299069105452323e-05),
    ("igamma_grad_a", (100.0, 143.5), -2.059991599568478e-05),
    ("igamma", (3000.0, 2900.0), 0.032859991921120976),
    ("igammac", (3000.0, 2900.0), 0.967140008078879),
    ("igamma_grad_a", (3000.0, 2900.0), -0.0013470386615686632),
    ("igamma", (1000000.0, 1000500.0), 0.6915504757714972),
    ("igammac", (1000000.0, 1000500.0), 0.3084495242285028),
    ("igamma_grad_a", (1000000.0, 1000500.0), -0.0003519920296234105),
    ("igamma", (100000000.0, 100000000.0), 0.5000132980760141),
    ("igammac", (100000000.0, 100000000.0), 0.49998670192398587),
    ("igamma_grad_a", (100000000.0, 100000000.0), -3.989422807338846e-05),
    ("igamma", (3000000000.0, 3000300000.0), 0.9999999783761374),
    ("igammac", (3000000000.0, 3000300000.0), 2.1623862585377814e-08),
    ("igamma_grad_a", (3000000000.0, 3000300000.0), -2.230204860691576e-12),
    ("igamma", (1000000000000.0, 999998000000.0), 0.0227500779571857),
    ("igammac", (1000000000000.0, 999998000000.0), 0.9772499220428144),
    ("igamma_grad_a", (1000000000000.0, 999998000000.0), -5.3990876528152376e-08),
    ("igamma", (1000000000000000.0, 1000000100000000.0), 0.9992172986159877),
    ("igammac", (1000000000000000.0, 1000000100000000.0), 0.0007827013840122948),
    ("igamma_grad_a", (1000000000000000.0, 1000000100000000.0), -8.500369010957693e-11),
    ("igamma", (1000000000000000.0, 999999700000000.0), 1.1907893688485716e-21),
    ("igammac", (1000000000000000.0, 999999700000000.0), 1.0),
    ("igamma_grad_a", (1000000000000000.0, 999999700000000.0), -3.611224903246521e-28),
    ("betainc", (1500.0, 2500.0, 0.37), 0.25732452206474676),
    ("betainc", (1500.0, 2500.0, 0.4), 0.9994065726649455),
    ("betainc", (100000.0, 300000.0, 0.2492), 0.12126259948801091),
    ("betainc", (100000.0, 300000.0, 0.26), 1.0),
    ("betainc", (2000000.0, 30000000.0, 0.0627), 0.9999984900950896),
    ("betainc", (1000000000.0, 3000000000.0, 0.25), 0.5000024278854014),
    ("betainc", (1000000000.0, 3000000000.0, 0.25005), 0.9999999999998589),
    ("betainc", (1000000000000.0, 1000000000000.0, 0.5), 0.5),
    ("betainc", (1000000000000.0, 1000000000000.0, 0.500001), 0.9976611325100887),
    ("betainc", (5.0, 10000000000000.0, 4e-13), 0.3711630648204391),
    ("betainc", (5.0, 10000000000000.0, 2e-12), 0.9999830552560702),
    ("betainc", (40.0, 1000000000.0, 6e-08), 0.9974518105369273),
    ("betainc", (10000000000000.0, 0.3, 0.9999999999998863), 0.06928047021320154),
    ("betainc", (10000000000000.0, 7.0, 0.9999999999990905), 0.19826845045458558),
    ("betainc", (300.0, 0.02, 0.9999), 0.057790297099371515),
    ("betainc", (0.7, 1e-09, 0.9999999990686774), 2.143722307494354e-08),
    ("betainc", (1e-12, 1e-07, 0.3), 0.9999900000991517),
    ("betainc", (1e-300, 2e-300, 0.4), 0.6666666666666666),
    ("betainc", (1e-09, 50.0, 1e-05), 0.99999999296579),
]  # fmt: skip


@pytest.mark.parametrize("name", INCOMPLETE)
def test_parameters_of_every_size(name: str) -> None:
    """In double, and float of the same arguments."""
    rows = [(arguments, value) for n, arguments, value in VALUES if n == name]
    arguments = [np.array(column) for column in zip(*(row[0] for row in rows), strict=True)]
    exact = np.array([row[1] for row in rows])
    double, _ = native(name, "double")
    check(name, double(*arguments), exact.astype(np.longdouble), 5, *arguments)
    shorter = [a.astype(np.float32) for a in arguments]
    usable = shorter[0] > 0
    if name == "betainc":
        usable &= (shorter[1] > 0) & (shorter[2] < 1)
    shorter = [a[usable] for a in shorter]
    exact = double(*[a.astype(np.float64) for a in shorter])
    check(name, native(name, "float")[0](*shorter), exact, 0.51, *shorter)
    check(name, native(name, "float alone")[0](*shorter), exact, 12, *shorter)


def sizes(dtype: Any) -> Array:
    form = np.finfo(dtype)
    least, largest = float(form.smallest_subnormal), float(form.max)
    middle = [1e-30, 1e-5, 0.3, 0.5, 1, 2.5, 30, 64, 100, 1e4, 1e6, 1e9, 1e12, 1e15, 1e20, 1e30]
    return np.array([least, 7 * least, form.tiny, *middle, largest / 4, largest], dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_extremes_of_gamma(kind: str) -> None:
    """P and Q are from 0 to 1, their sum is 1, P grows with x and falls with a."""
    lower, dtype = native("igamma", kind)
    values = sizes(dtype)
    a, x = (v.ravel() for v in np.meshgrid(values, values))
    p, q, slope = (
        lower(a, x),
        native("igammac", kind)[0](a, x),
        native("igamma_grad_a", kind)[0](a, x),
    )
    assert np.all((p >= 0) & (p <= 1) & (q >= 0) & (q <= 1))
    assert np.abs(p + q - 1).max() < 8 * np.finfo(dtype).eps
    assert np.all(np.isfinite(slope) & (slope <= 0))
    table = p.reshape(values.size, values.size)
    some = 4 * np.finfo(dtype).eps
    assert np.diff(table, axis=0).min() >= -some
    assert np.diff(table, axis=1).max() <= some
    # The median of the gamma distribution is a - 1/3 and something.
    assert np.all((np.diag(table) >= 0.5) | (values < 1e-5))


@pytest.mark.parametrize("kind", KINDS)
def test_extremes_of_beta(kind: str) -> None:
    """I is from 0 to 1, grows with x, falls with a, grows with b."""
    function, dtype = native("betainc", kind)
    values = sizes(dtype)
    below = values[values < 1]
    places = np.unique(np.concatenate([below, (1 - below).astype(dtype)]))
    places = places[places < 1]
    grid = np.array(list(itertools.product(values, values, places)), dtype)
    table = function(*grid.T.copy()).reshape(values.size, values.size, places.size)
    some = 64 * np.finfo(dtype).eps
    assert np.all((table >= 0) & (table <= 1 + some))
    assert np.diff(table, axis=0).max() <= some
    assert np.diff(table, axis=1).min() >= -some
    assert np.diff(table, axis=2).min() >= -some


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("igamma", (1e9, 1e9)), ("igammac", (1e-300, 0.3)), ("betainc", (1e-300, 1e-300, 1e-30))],
)
def test_what_is_no_constant(name: str, arguments: tuple[float, ...]) -> None:
    """The decimal series refuse what they would get wrong; what is asked for then is the generated code's."""
    with pytest.raises(evaluate_incomplete.NotEvaluatedError):
        getattr(evaluate_incomplete, name)(*arguments)
