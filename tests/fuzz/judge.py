"""A program with its arguments, and what is wrong with its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np
from tripont.core.compiler import pipeline, targets
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import Module
from tripont.core.compiler.observe import pass_checks
from tripont.core.compiler.reference import evaluate, stochastic

from tests.conformance import device, reference
from tests.conformance.programs import tensor
from tests.conformance.random_programs.programs import unequal
from tests.fuzz import other_target, ways

# Compiling takes most of a program's time, so each program is compiled once and a share of them again: for these shares
# the passes are checked on data, the program is compiled in another way, and (of those that the interpreter judges) the
# evaluator is judged too.
_PASSES: Final = 1 / 12
_OTHER_WAY: Final = 1 / 3
_EVALUATOR: Final = 1 / 8
# Of those that XLA:CPU can judge, which takes as long as all of the rest.
_XLA: Final = 1 / 4

Differences = Callable[[Sequence[np.ndarray]], list[str]]


@dataclass
class Case:
    """StableHLO text and its arguments.

    ``exact``: every bit of the results is known. ``judged``: the text that the interpreter takes in place of ``text``,
    empty if it cannot or is too slow. ``xla``: whether XLA:CPU's results are compared too. ``meaning``: another
    program with the same results, which the evaluator knows; empty if it knows ``text``. ``own``: what is wrong with
    results, said by a judge that the program brings along; it can be pickled.
    """

    text: str
    arguments: list[np.ndarray]
    exact: bool = True
    judged: str = ""
    xla: bool = False
    meaning: str = ""
    own: Differences | None = None


@dataclass
class Checks:
    """Which checks the program of a seed gets, each where it applies: those of the evaluator, of XLA:CPU (and then
    nothing more) and of the passes; ``way`` draws the other way in which it is compiled, or is None.
    """

    evaluator: bool
    xla: bool
    passes: bool
    way: Random | None


def checks_of(seed: int) -> Checks:
    """The generators begin with ``Random(seed)``: other numbers, so that programs of every shape get every check."""
    chances = Random(f"judge {seed}")
    evaluator, xla = chances.random() < _EVALUATOR, chances.random() < _XLA
    share = chances.random()
    return Checks(
        evaluator, xla, share < _PASSES, chances if share <= _PASSES + _OTHER_WAY else None
    )


def findings(case: Case, seed: int) -> list[str]:
    """What is wrong: lines that begin with the way in which the program was compiled or run.

    ``seed`` chooses the way. Raises CompileError for a program that the evaluator does not know.
    """
    options = device.OPTIONS
    checks = checks_of(seed)
    module = read_program((case.meaning or case.text).encode(), "mlir")
    # What is compiled is what the judge reads: compiling leaves a module as it is, and reading takes time.
    program = case.text if case.meaning else module
    try:
        executable = ways.load(program, options)
    except CompileError as error:
        if case.meaning and error.code in ("UNIMPLEMENTED", "INVALID_ARGUMENT"):
            return []  # sizes that depend on values are refused by name where there is no rule for them
        raise
    differences = _judge(case, module, seed, exact_quotients=True)
    found = []

    def compare(way: str, results: Sequence[np.ndarray]) -> None:
        found.extend(f"{way}: {line}" for line in differences(results))

    if case.judged and checks.evaluator:
        compare("evaluated", evaluate.evaluate(module, case.arguments))
    compare("compiled", ways.run(executable, case.arguments))
    compare("donated", ways.run(executable, case.arguments, donate=True))
    if found:
        return found
    if case.xla and checks.xla:
        results = ways.run_xla(case.text, case.arguments)
        if differences(results):  # XLA:CPU multiplies by the reciprocals of constants, too
            differences = _judge(case, _written_out(case), seed, exact_quotients=False)
        compare("XLA:CPU", results)
        return found
    if checks.passes and not case.meaning:
        target = targets.from_options(options)
        report = pass_checks.check(module, pipeline.named(pipeline.PASSES, target))
        return [f"after the pass {line}" for line in report.wrong]
    if checks.way is None:
        return found
    way, make = ways.other_way(checks.way, case.text, None if case.meaning else module)
    try:
        results = ways.run(make(), case.arguments)
        if way == "as HLO" and not case.exact and "chlo." in case.text and differences(results):
            differences = _judge(case, _written_out(case), seed, exact_quotients=True)
        compare(way, results)
    except CompileError:
        raise
    except other_target.RefusedError:  # as GPUs without 64-bit floats are
        pass
    except Exception as error:
        if (
            way != "as HLO" or "Tripont" in type(error).__module__
        ):  # XLA does not convert everything
            raise
    return found


def _written_out(case: Case) -> Module:
    """The program as XLA hands it over: it writes functions out, by formulas that round elsewhere. That of lgamma loses
    digits beside the zeros, for instance.
    """
    return read_program(device.as_hlo(case.text), "hlo")


def _judge(case: Case, module: Module, seed: int, *, exact_quotients: bool) -> Differences:
    if case.own is not None:
        return case.own
    if not case.exact:
        try:
            return stochastic.Expectation(
                module, case.arguments, seed, exact_quotients=exact_quotients
            ).differences
        except (
            stochastic.TooLongError
        ):  # a sort of many elements, for instance: that it runs is all that is seen
            return lambda results: []
    if case.judged:
        shapes = [r.shape for r in module.entry.results]
        types = [tensor(p.shape.dtype, *p.shape.dims) for p in module.entry.parameters]
        expected = reference.interpret(case.judged, case.arguments, shapes, types=types)
    else:
        expected = evaluate.evaluate(module, case.arguments)
    return lambda results: unequal(results, expected)


def kind_of(finding: str) -> str:
    """The way and the sort of a finding, without numbers: two findings of one kind may have one cause."""
    head, _, rest = finding.partition(": ")
    if rest.startswith("result "):
        return f"{head}: wrong"
    return finding[:60]
