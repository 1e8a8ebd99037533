"""Random programs that have one right answer: that of StableHLO's reference interpreter, bit for bit.

Integers and truth values wrap, and floats and complex numbers stay small whole numbers (:meth:`builder.Builder.tame`),
so that no order of operations and no number of extra digits changes a result. Long chains over shared values with
several results, so that fusions, buffers and loops meet in ways that nobody thought of.

``python -m tests.conformance.random_programs --seed 1000 --count 500`` tries other programs than the test suite does.
"""

from __future__ import annotations
