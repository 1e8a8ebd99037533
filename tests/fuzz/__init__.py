"""Programs that nobody wrote, judged by somebody else: ``make fuzz MINUTES=30`` or ``python -m tests.fuzz``.

A fuzzer (:mod:`.fuzzers`) makes a program of StableHLO and its arguments from a seed. A program is compiled in several
ways (:mod:`.ways`) and its results are compared with those of StableHLO's interpreter, or of the reference evaluator
within a tolerance that is derived (:mod:`tripont.core.compiler.reference.stochastic`). Programs run in child processes
(:mod:`.children`), as a wrong one may end its process. A program that fails is made small (:mod:`.shrink`) and written
to a folder with its arguments and the command that tries it again.
"""

from __future__ import annotations
