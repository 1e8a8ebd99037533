"""Programs with other numbers: ``python -m tests.integration.memory_safety.numbers --seed 1 --count 2000``.

Numbers of valid programs (sizes, bounds, dimensions, attributes, types' shapes) are replaced. Most results are
invalid and must be refused; those that are compiled must keep to their own memory. A program that does not is written
to ``--folder``.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import time
from pathlib import Path
from random import Random
from typing import Final

from tests.integration.memory_safety.outcomes import WRONG, like_a_user, outcome

SEEDS: Final = Path(__file__).parent / "seeds"
_NUMBER: Final = re.compile(r"(?<![\w.%#@])\d+(?![\w]*\.)")
_VALUES: Final = (0, 1, 2, 3, 5, 8, 100, 100_000, 1 << 32, (1 << 63) - 1, -1)


def changed(text: str, random: Random) -> str:
    """``text`` with one to three numbers replaced, each at one place or everywhere on its line."""
    for _ in range(random.choice((1, 1, 2, 3))):
        places = list(_NUMBER.finditer(text))
        place = random.choice(places)
        old = int(place[0])
        new = str(random.choice((*_VALUES, old + 1, max(0, old - 1), 2 * old)))
        if random.random() < 0.7:
            text = text[: place.start()] + new + text[place.end() :]
            continue
        begin = text.rfind("\n", 0, place.start()) + 1
        end = text.find("\n", place.end())
        end = len(text) if end < 0 else end
        same = re.compile(rf"(?<![\w.%#@]){old}(?![\w.])")
        text = text[:begin] + same.sub(new, text[begin:end]) + text[end:]
    return text


def program(number: int, seeds: list[str]) -> str:
    """Program ``number``: the same one each time."""
    random = Random(number)
    return changed(random.choice(seeds), random)


def seed_programs() -> list[str]:
    return [path.read_text() for path in sorted(SEEDS.glob("*.mlir"))]


def main() -> int:
    parser = argparse.ArgumentParser(prog="numbers", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="number of the first program")
    parser.add_argument("--count", type=int, default=1000, help="how many programs")
    parser.add_argument("--minutes", type=float, default=0, help="stop after this time")
    parser.add_argument("--folder", type=Path, help="where programs that fail are written")
    given = parser.parse_args()
    like_a_user()
    seeds = seed_programs()
    assert seeds
    tally: collections.Counter[str] = collections.Counter()
    begin = time.monotonic()
    for number in range(given.seed, given.seed + given.count):
        if given.minutes and time.monotonic() - begin > 60 * given.minutes:
            break
        text = program(number, seeds)
        kind, details = outcome(text.encode())
        tally[kind] += 1
        if kind != WRONG:
            continue
        print(f"program {number}: {details[:300]}", flush=True)
        if given.folder is not None:
            given.folder.mkdir(parents=True, exist_ok=True)
            (given.folder / f"{number}.mlir").write_text(text)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.items()))
    print(f"{tally.total()} programs in {time.monotonic() - begin:.0f} s: {counts}")
    return 1 if tally[WRONG] else 0


if __name__ == "__main__":
    sys.exit(main())
