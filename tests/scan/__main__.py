"""``python -m tests.scan``: all scans; or ``--only jax_updates --match "get of*" --every 10``.

Writes each difference that is not known, and each known one that is gone, and ends with 1 if there is one. Of
``--every 10`` one call in ten is tried, by its place in the table, and of ``--every 10 --first 3`` another tenth.
``--way eager`` leaves out the other ways of a call. ``--all`` shows known differences too. ``--record FOLDER`` keeps
what was found in a file for each scan, and a run that was stopped goes on behind it.
"""

from __future__ import annotations

import argparse
import fnmatch
import time
from collections.abc import Sequence
from pathlib import Path

from tests.scan import known
from tests.scan.call import Call
from tests.scan.running import SECONDS, WHOLE, findings
from tests.scan.scans import SCANS, calls_of, installed


def scan(
    name: str,
    calls: Sequence[Call],
    every: int,
    seconds: float,
    show_known: bool,
    record: Path | None = None,
) -> int:
    """Tries the calls, and returns how many differences are not as the list says."""
    differences = known.read()
    begin, differed, failed = time.monotonic(), [], 0
    for of, what in findings(calls, seconds, record):
        of = f"{name}: {of}"
        differed.append(of)
        reason = differences.reason(of)
        failed += reason is None
        if reason is None or show_known:
            print(f"{of}: {what}" + (f" (known: {reason})" if reason else ""), flush=True)
    tried = [f"{name}: {call.name} [{way}]" for call in calls for way in (*call.ways, WHOLE)]
    gone = differences.gone(differed, tried) if every == 1 else []
    for pattern in gone:
        print(f"{pattern} is in {known.FILE.name} and differs no more", flush=True)
    spent = time.monotonic() - begin
    print(
        f"{name}: {len(calls)} calls, {failed} new differences, {len(differed) - failed} known, {spent:.0f} s",
        flush=True,
    )
    return failed + len(gone)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scan", description=__doc__)
    parser.add_argument("--only", action="append", choices=SCANS, help="a scan; repeatable")
    parser.add_argument("--match", default="*", help="a pattern of calls")
    parser.add_argument("--every", type=int, default=1, help="one call in so many")
    parser.add_argument("--first", type=int, default=0, help="the place of the first call")
    parser.add_argument("--way", action="append", help="a way of a call; repeatable")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="a call takes at most, of the CPU"
    )
    parser.add_argument("--all", action="store_true", help="show known differences too")
    parser.add_argument("--record", type=Path, help="a folder, to go on where a run was stopped")
    options = parser.parse_args()
    if options.record:
        options.record.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in options.only or installed():
        matched = [c for c in calls_of(name) if fnmatch.fnmatch(c.name, options.match)]
        calls = [c.in_ways(options.way) for c in matched[options.first :: options.every]]
        whole = options.match == "*" and options.way is None and options.first == 0
        every = options.every if whole else 0
        record = options.record / f"{name}.jsonl" if options.record else None
        failed += scan(name, calls, every, options.seconds, options.all, record)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
