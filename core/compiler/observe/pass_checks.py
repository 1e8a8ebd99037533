"""Every pass checked on data: with ``TRIPONT_CHECK_PASSES=1`` a pass that changes a program's numbers is named.

The program is evaluated on random arguments before the passes and after each of them (:mod:`..reference.evaluate`). How
far a pass may move results, as it may round at other places, is measured (:mod:`..reference.stochastic`). Passes that
make calls (of libraries, of the user's functions, between devices) are left out of the list, because the evaluator does
not know these calls, and the passes behind them would not be checked. Code and libraries are compared with the
evaluator by the tests of whole programs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..ir.errors import CompileError, internal
from ..ir.hlo import Module
from ..reference.stochastic import Expectation, TooLongError, evaluate_within, random_arguments

# Passes that make instructions without a reference evaluation.
LEFT_OUT: Final = frozenset(
    (
        "arrange_collectives",
        "match_collectives",
        "lay_out_custom_calls",
        "match_custom_calls",
        "match_library",
        "hoist_packing",
    )
)
# Arguments that a program is evaluated on: numbers of the size of one, then also infinities, NaN and ends of ranges.
_SEEDS: Final = ((0, False), (1, True))


def enabled() -> bool:
    """Whether TRIPONT_CHECK_PASSES asks for the checks."""
    return os.environ.get("TRIPONT_CHECK_PASSES", "") not in ("", "0")


@dataclass
class Report:
    """What checking a program came to.

    ``wrong``: a line for each pass that changed numbers. ``checked``: how many passes were checked. ``unknown``: why
    the program (or what a pass made of it) was not evaluated.
    """

    wrong: list[str]
    checked: int = 0
    unknown: str = ""


class _Check:
    """What a module is expected to give on some arguments."""

    def __init__(self, module: Module, seed: int, special: bool) -> None:
        self.seed = seed
        self.arguments = random_arguments([p.shape for p in module.entry.parameters], seed, special)
        self.expected = Expectation(module, self.arguments, seed)

    def differences(self, module: Module) -> list[str]:
        """How another module differs. Raises CompileError if it cannot be evaluated."""
        return self.expected.differences(evaluate_within(module, self.arguments))


def _begin(
    module: Module, seeds: list[tuple[int, bool]], checks: list[_Check], report: Report
) -> None:
    """Begin those checks of ``seeds`` that can begin at ``module``, and take them off the list."""
    report.unknown = ""
    for seed, special in list(seeds):
        try:
            checks.append(_Check(module, seed, special))
            seeds.remove((seed, special))
        except CompileError as error:
            report.unknown = str(error)
            if isinstance(error, TooLongError):
                seeds.remove((seed, special))


def _signature(module: Module) -> list[object]:
    return [v.shape for v in (*module.entry.parameters, *module.entry.results)]


def check(
    module: Module,
    steps: Iterable[tuple[str, Callable[[Module], Module]]],
    seeds: Sequence[tuple[int, bool]] = _SEEDS,
) -> Report:
    """Run ``steps``, names and passes, and compare what each makes of ``module`` on random arguments.

    A pass that raises, raises here too.
    """
    report = Report([])
    checks: list[_Check] = []
    unknown: list[tuple[int, bool]] = list(seeds)
    _begin(module, unknown, checks, report)
    for name, step in steps:
        if name in LEFT_OUT:
            continue
        previous, module = module, step(module)
        if module is previous:
            continue
        if _signature(module) != _signature(
            previous
        ):  # sizes or layouts of the caller's became other arrays
            checks.clear()
            unknown = list(seeds)
        if unknown:  # operations without a reference, which passes may have expanded by now
            _begin(module, unknown, checks, report)
        report.checked += bool(checks)
        for c in list(checks):
            try:
                wrong = c.differences(module)
            except CompileError as error:
                report.unknown = f"after {name}: {error}"
                if not isinstance(error, TooLongError):
                    checks.remove(c)
                continue
            if wrong:
                report.wrong.append(f"{name}, arguments of seed {c.seed}: {'; '.join(wrong)}")
                return report
    return report


def verify(module: Module, steps: Iterable[tuple[str, Callable[[Module], Module]]]) -> None:
    """Raise CompileError (INTERNAL), naming the pass, if one of ``steps`` changes the numbers of ``module``."""
    report = check(module, steps)
    if report.wrong:
        raise internal(f"a pass changed the program's numbers: {report.wrong[0]}")


__all__ = ["LEFT_OUT", "Report", "check", "enabled", "verify"]
