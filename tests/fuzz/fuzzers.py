"""The fuzzers: each makes the program of a seed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from random import Random
from typing import Final

from tests.conformance.random_programs import in_place
from tests.conformance.random_programs.builder import OPERATIONS
from tests.conformance.random_programs.programs import Program, dims_at_edges, program
from tests.fuzz.judge import Case

Fuzzer = Callable[[int], Case]
# Operations of a program.
_SHORT: Final = 6
_PAIR: Final = 3


def _case(p: Program) -> Case:
    return Case(p.text, p.arguments(), p.exact, p.judged)


def exact(seed: int) -> Case:
    """Every operation, on integers and floats that are small whole numbers: the interpreter judges, bit for bit."""
    return _case(program(Random(seed)))


def large(seed: int) -> Case:
    """The same with arrays of thousands of elements, which run on several threads and in libraries."""
    return _case(program(Random(seed), large=True))


def short(seed: int) -> Case:
    """A few operations of any kind: a fifth of the time of ``exact``."""
    return _case(program(Random(seed), _SHORT))


def pairs(seed: int) -> Case:
    """Two or three operations of any kind: half of the time of ``short``, and as much found in the same time."""
    return _case(program(Random(seed), _PAIR))


def edges(seed: int) -> Case:
    """A few operations on arrays whose dimensions are whole vectors and blocks of kernels, or nearly."""
    chances = Random(seed)
    return _case(program(chances, _SHORT, large=True, dims=dims_at_edges(chances)))


def edges_floats(seed: int) -> Case:
    """The same with any floats and functions of them."""
    chances = Random(seed)
    return _case(program(chances, _SHORT, large=True, exact=False, dims=dims_at_edges(chances)))


def updates(seed: int) -> Case:
    """Arrays that are updated from their own elements, in loops and out of them, donated and kept."""
    return _case(program(Random(seed), 12, [*in_place.UPDATES * 10, *OPERATIONS]))


def floats(seed: int) -> Case:
    """Any floats and functions of them, linear algebra and normalisations, within tolerances."""
    return _case(program(Random(seed), exact=False))


def large_floats(seed: int) -> Case:
    """The same with larger arrays."""
    return _case(program(Random(seed), 12, large=True, exact=False))


def jax(seed: int) -> Case:
    """Functions of JAX, as it lowers them; XLA:CPU judges too."""
    from tests.fuzz import jax_functions

    return jax_functions.make(seed)


def loops(seed: int) -> Case:
    """Loops of JAX whose states are handed on, kept, swapped and written into arrays, in small whole numbers."""
    from tests.fuzz import loop_functions

    return loop_functions.make(seed)


def exchanges(seed: int) -> Case:
    """Loops of JAX whose large states swap, rotate and are read around, in small whole numbers."""
    from tests.fuzz import exchange_functions

    return exchange_functions.make(seed)


def stacks(seed: int) -> Case:
    """Loops of JAX that read stacks of rows which others have written, and what reads them last, in whole numbers."""
    from tests.fuzz import stack_functions

    return stack_functions.make(seed)


def sums(seed: int) -> Case:
    """Loops of JAX that add products of each step to an array, and what is nearly such a loop, in whole numbers."""
    from tests.fuzz import sum_functions

    return sum_functions.make(seed)


def products(seed: int) -> Case:
    """Products and convolutions of JAX with what is before and behind them, and their gradients, in whole numbers."""
    from tests.fuzz import product_functions

    return product_functions.make(seed)


def quantised(seed: int) -> Case:
    """Products by quantised weights, with scales and zero points of groups and codes in words, bit for bit."""
    from tests.fuzz import quantised_functions

    return quantised_functions.make(seed)


def attentions(seed: int) -> Case:
    """Attention in every order of dimensions, what is nearly attention, and their gradients, within tolerances."""
    from tests.fuzz import attention_functions

    return attention_functions.make(seed)


def heads(seed: int) -> Case:
    """Attention layers as models have them, with projections, rotations, caches and gradients, within tolerances."""
    from tests.fuzz import head_functions

    return head_functions.make(seed)


def transforms(seed: int) -> Case:
    """Fourier transforms of every length along any axes, with what is before and behind them, within tolerances."""
    from tests.fuzz import transform_functions

    return transform_functions.make(seed)


def stencils(seed: int) -> Case:
    """Stencils of stencils on grids, of which several loops become one kernel, in small whole numbers."""
    from tests.fuzz import stencil_functions

    return stencil_functions.make(seed)


def convolutions(seed: int) -> Case:
    """Convolutions in groups, depthwise, dilated and padded, in any order of dimensions, and their gradients."""
    from tests.fuzz import convolution_functions

    return convolution_functions.make(seed)


def slices(seed: int) -> Case:
    """Slices, updates, gathers and scatters in all modes, with places inside of arrays and far outside, exactly."""
    from tests.fuzz import slice_functions

    return slice_functions.make(seed)


def factors(seed: int) -> Case:
    """Factorisations, solves and inverses of matrices and batches, and their gradients, judged in higher precision."""
    from tests.fuzz import factor_functions

    return factor_functions.make(seed)


def bounded(seed: int) -> Case:
    """Arrays whose sizes depend on values."""
    from tests.fuzz import bounded as programs

    return programs.make(seed)


def tensorflow(seed: int) -> list[str]:
    """Functions of TensorFlow on XPU, eagerly, as functions and compiled, beside its CPU: what is wrong with one."""
    from tests.fuzz import tensorflow_functions

    return tensorflow_functions.findings(seed)


def torch(seed: int) -> list[str]:
    """Functions of PyTorch on PyTorch/XLA's device, in three ways, beside PyTorch's CPU: what is wrong with one."""
    from tests.fuzz import torch_functions

    return torch_functions.findings(seed)


def callbacks(seed: int) -> list[str]:
    """Loops and conditionals of JAX that call back, beside NumPy, which says what callbacks are told and how often."""
    from tests.fuzz import callback_functions

    return callback_functions.findings(seed)


def hlo(seed: int) -> list[str]:
    """HloModuleProtos that no StableHLO becomes: what is wrong with one."""
    from tests.fuzz import hlo_modules

    return hlo_modules.findings(seed)


FUZZERS: Final[dict[str, Fuzzer]] = {
    f.__name__: f
    for f in (
        pairs,
        short,
        edges,
        edges_floats,
        exact,
        updates,
        floats,
        jax,
        loops,
        exchanges,
        stacks,
        sums,
        products,
        quantised,
        attentions,
        heads,
        transforms,
        stencils,
        convolutions,
        slices,
        factors,
        bounded,
        large,
        large_floats,
    )
}

# Fuzzers that run what they make by themselves, and the package that each needs.
_BY_THEMSELVES: Final = {
    hlo: "jaxlib",
    callbacks: "jax",
    tensorflow: "tensorflow",
    torch: "torch_xla",
}
# Those whose package is installed.
FRAMEWORKS: Final[dict[str, Callable[[int], list[str]]]] = {
    f.__name__: f for f, package in _BY_THEMSELVES.items() if importlib.util.find_spec(package)
}
