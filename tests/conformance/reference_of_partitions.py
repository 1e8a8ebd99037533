"""The judge of programs that exchange arrays: StableHLO's reference interpreter, with a thread for each partition.

Its threads share an MLIR context, which therefore has locks, unlike the compiler's: without them two threads that ask
for a new type at once crash. The interpreter also ends its process where one partition waits three seconds for another,
as may happen on a busy machine. So it runs in a child process, which this module is the program of, and a child that
ends is followed by another one.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir
from tripont.core.compiler.ir.hlo import Shape

from tests.conformance import reference
from tests.conformance.programs import tensor

_ROOT: Final = Path(__file__).parents[2]
# How many children try a program before it is said that they end.
_CHILDREN: Final = 3


def interpret(
    program: str, arguments: Sequence[Sequence[np.ndarray]], results: Sequence[Shape]
) -> list[np.ndarray]:
    """What ``main`` gives on each of several partitions: the first one's results, then the second's, and so on.

    ``results``: the shapes of all of these. Raises MLIRError or ValueError for a program that the interpreter refuses, and
    RuntimeError, which names the program, for one that ends the interpreter's process.
    """
    own = reference.parameter_types(program)
    given = own * len(arguments)
    kinds = [tensor(s.dtype, *s.dims) for s in results]
    names = [f"%p{n}" for n in range(len(given))]
    parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, given, strict=True))
    programs = ", ".join("@each" for _ in arguments)
    left = f"%v:{len(kinds)}" if len(kinds) > 1 else "%v"
    values = [f"%v#{n}" for n in range(len(kinds))] if len(kinds) > 1 else ["%v"]
    outer = (
        f"func.func @main({parameters}) -> ({', '.join(kinds)}) {{\n"
        f'{left} = "interpreter.run_parallel"({", ".join(names)}) {{programs = [[{programs}]]}}'
        f" : ({', '.join(given)}) -> ({', '.join(kinds)})\nreturn {', '.join(values)} : {', '.join(kinds)}\n}}\n"
    )
    each = program.replace("func.func @main", "func.func @each")
    everything = [a for every in arguments for a in every]
    return reference.interpret(each + outer, everything, results, _evaluate)


class _Child:
    """A process that evaluates one module after another, until the pipe to it is closed."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, module: str, arguments: Sequence[str]) -> Any:
        """The answer. Raises EOFError or OSError if the process ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((module, list(arguments)), self._process.stdin)
        self._process.stdin.flush()
        return pickle.load(self._process.stdout)

    def status(self) -> int:
        """The exit status of a process that ends."""
        return self._process.wait(60)


_child: _Child | None = None


def _evaluate(module: str, arguments: Sequence[str]) -> list[np.ndarray]:
    global _child
    statuses = []
    for _ in range(_CHILDREN):
        _child = _child or _Child()
        try:
            arrays, refusal = _child.ask(module, arguments)
        except (EOFError, OSError, pickle.UnpicklingError):
            statuses.append(_child.status())
            _child = None
            continue
        if refusal:
            raise ValueError(refusal)
        return arrays
    raise RuntimeError(f"StableHLO's interpreter ends its process ({statuses}) at\n{module}")


def main() -> None:
    """Answer each module of stdin with its results or a refusal, both pickled, on what was stdout."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print
    reference.context().enable_multithreading(True)
    while True:
        try:
            module, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = (reference.evaluate(module, arguments), "")
        except (ir.MLIRError, ValueError) as error:
            answer = ([], str(error))
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
