"""Calls of the frameworks' own functions on ``xpu``, beside the framework's CPU: ``make scan``.

A scan is a module with a table of calls (:mod:`.scans`). A call computes one function for the arguments of the table,
for other ones that are made of them (:mod:`.arguments`: empty, of another rank, far out of range) or for numbers that
are infinite or NaN. Its results are compared with those of the framework's CPU, and with those of float64 where both
differ (:mod:`.judge`). Calls run in child processes, so that one that ends its process or hangs is seen
(:mod:`.running`). Differences that are known are in ``known_differences.toml`` with their reasons; the list may only
shrink: what no longer differs must leave it (:mod:`.known`).
"""

from __future__ import annotations
