"""A program that is compared: its inputs, what it is in each framework, how exact it is, and what it must
at least do.

Programs stand in ``benchmarks/rivals/programs`` and ``benchmarks/complaints``, a file for each kind. A file
is read by every rival's process, so it imports nothing but NumPy at its top: what needs a framework is
imported by the function that makes the program.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

import numpy as np

PACKAGES: Final = ("benchmarks.rivals.programs", "benchmarks.complaints")
Inputs = tuple[Any, ...]
Make = Callable[[], Callable[..., Any]]  # imports the framework, returns the program


@dataclass(frozen=True)
class Arrangement:
    """How a framework's users hold the arrays of a program: ``inputs`` makes theirs of the program's, ``results`` the
    program's of theirs. Neither is timed.
    """

    inputs: Callable[[Sequence[Any]], Sequence[Any]]
    results: Callable[[list[np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True)
class Program:
    """``makers``: framework -> what makes the program: "jax", "numpy", "torch", "tensorflow"; "llama.cpp"; "onnx" makes
    a model's bytes.

    ``bytes`` and ``flops``: the least that any implementation moves to and from memory, and computes (additions
    and multiplications count one each); ``unit``: the element type whose peak limits the arithmetic. ``terms``:
    additions in the longest sum, from which the tolerance follows (rivals/agreement.py). ``tolerance``: the
    relative error that an adaptive method is asked for, on top. ``wide``: whether the
    reference is computed in double precision; False for programs that draw random numbers, whose numbers differ
    then. ``comparable``: makes of the results what is compared (signs of eigenvectors are anybody's).
    ``arrangements``: by framework, where its users have other orders of dimensions than JAX's. ``rounding``: the
    name of the element type in which it computes, where that is not the inputs'. ``check``: says what is wrong with
    results where no comparison makes sense (samplers); "" if nothing is.
    ``jit``: whether the JAX function is compiled as a whole; False: it is Python that compiles parts of itself.
    ``x64``: JAX's 64-bit types are on. ``source``: the complaint it stands for.
    """

    name: str
    kind: str
    module: str
    description: str
    inputs: Callable[[np.random.Generator], Inputs]
    makers: dict[str, Make]
    bytes: float = 0.0
    flops: float = 0.0
    unit: str = "f32"
    terms: int = 1
    tolerance: float = 0.0
    wide: bool = True
    comparable: Callable[[list[np.ndarray]], list[np.ndarray]] | None = None
    check: Callable[[list[np.ndarray]], str] | None = None
    arrangements: dict[str, Arrangement] = field(default_factory=dict)
    rounding: str = ""
    jit: bool = True
    x64: bool = False
    source: str = ""

    def make_inputs(self, seed: int = 0) -> Inputs:
        """The same in every process: NumPy's generators keep their streams from version to version."""
        return self.inputs(np.random.Generator(np.random.PCG64(seed)))


@dataclass
class Registry:
    """The programs of one file, in their order. ``module``: the file's ``__name__``."""

    kind: str
    module: str
    programs: dict[str, Program] = field(default_factory=dict)

    def add(
        self,
        name: str,
        description: str,
        inputs: Callable[[np.random.Generator], Inputs],
        **settings: Any,
    ) -> None:
        """The keywords that name a framework are makers, the others fields of :class:`Program`."""
        assert name not in self.programs, name
        frameworks = ("jax", "numpy", "torch", "tensorflow", "onnx", "llama.cpp")
        makers = {key: settings.pop(key) for key in frameworks if key in settings}
        self.programs[name] = Program(
            name, self.kind, self.module, description, inputs, makers, **settings
        )


def modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        try:
            folder = importlib.import_module(package)
        except ModuleNotFoundError:
            continue
        for entry in sorted(pkgutil.iter_modules(folder.__path__), key=lambda e: e.name):
            yield importlib.import_module(f"{package}.{entry.name}")


def programs(more: tuple[str, ...] = ()) -> dict[str, Program]:
    """All programs by name. ``more``: names of further modules (the tests have one)."""
    found: dict[str, Program] = {}
    for module in (*modules(), *(importlib.import_module(name) for name in more)):
        registry = getattr(module, "PROGRAMS", None)
        if isinstance(registry, Registry):
            for name, program in registry.programs.items():
                assert name not in found, name
                found[name] = program
    return found
