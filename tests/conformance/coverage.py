"""Runs every configuration and writes docs/op-coverage.md: ``python -m tests.conformance.coverage``.

With ``--outcomes FILE`` each outcome is written down as it comes, and those that are there already are not measured
again: a run over several hours (TRIPONT_CONFORMANCE_TARGET=sycl) can be cut off and goes on where it was. A
configuration that ended the process twice is not tried a third time. ``--again WORD`` measures those anew whose name
holds the word.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tripont.core._tripont import StatusError
from tripont.core.compiler.ir.errors import CompileError

from tests.conformance import device, programs, registry
from tests.conformance.registry import Case, Outcome

DOCUMENT = Path(__file__).parents[2] / "docs" / "op-coverage.md"
_MEASURED = Path(__file__).parent / "measured"

_HEAD = """# Operations

Made by `make conformance`: every operation of StableHLO and CHLO, on every element type that it takes, over the edges
of its attributes, shapes and values ({count} configurations of `tests/conformance`), against StableHLO's reference
interpreter or NumPy in higher precision. Operations called `hlo.` are HLO's own, which programs of TensorFlow and
PyTorch/XLA and XLA's dumps hold; every other configuration that HLO can say runs as an HloModuleProto too. Do not edit.

* *how*: code that we generate, or a call of the runtime's library.
* *distance*: the largest that was measured, in units in the last place of the result; for sums of the sum of absolute
  values. Element types without a number are exact.
* An operation that is refused fails to compile with UNIMPLEMENTED and a message that names it.

"""


class Notes:
    """Outcomes in a file, one a line. A line with no outcome says that a configuration was begun."""

    def __init__(self, path: Path | None, again: Sequence[str] = ()) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self._begun: dict[str, int] = defaultdict(int)
        self._file = None
        if path is None:
            return
        if path.exists():
            for line in path.read_text().splitlines():
                name, outcome = json.loads(line)
                if outcome is None:
                    self._begun[name] += 1
                else:
                    self.outcomes[name] = Outcome(**outcome)
        for name in [n for n in {**self.outcomes, **self._begun} if any(a in n for a in again)]:
            self.outcomes.pop(name, None)
            self._begun.pop(name, None)
        self._file = path.open("a")

    def begin(self, name: str) -> bool:
        """Whether to run a configuration; False if it ended the process twice."""
        if self._begun[name] >= 2:
            return False
        self._write(name, None)
        return True

    def end(self, name: str, outcome: Outcome) -> None:
        self.outcomes[name] = outcome
        self._write(name, dataclasses.asdict(outcome))

    def _write(self, name: str, outcome: object) -> None:
        if self._file is not None:
            self._file.write(json.dumps([name, outcome]) + "\n")
            self._file.flush()


def measure(cases: Sequence[Case], notes: Notes) -> list[tuple[Case, Outcome]]:
    """The outcome of each configuration; one that fails says so in ``detail``."""
    for case in cases:
        if case.name in notes.outcomes:
            continue
        if notes.begin(case.name):
            outcome = _measure(case)
        else:
            outcome = Outcome(detail="ends the process")
        notes.end(case.name, outcome)
    outcomes = [(case, notes.outcomes[case.name]) for case in cases]
    for case, outcome in outcomes:
        if outcome.detail:
            print(f"{case.name}: {outcome.detail}", file=sys.stderr)
    return outcomes


def _measure(case: Case) -> Outcome:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return registry.run_case(case)
        except CompileError as error:
            return Outcome(message=f"{error.code}: {error.message}", detail="refused")
        except StatusError as error:
            return Outcome(message=str(error), detail="fails")


def rows(outcomes: list[tuple[Case, Outcome]]) -> dict[str, dict[str, str]]:
    """For each op its columns: types, distance, how, refused."""
    table: dict[str, dict[str, str]] = {}
    by_op: dict[str, list[tuple[Case, Outcome]]] = defaultdict(list)
    for case, outcome in outcomes:
        by_op[case.op].append((case, outcome))
    order = [d.name for d in programs.ALL]
    for op, found in sorted(by_op.items()):
        ran = [(c, o) for c, o in found if not o.message]
        names = sorted({c.dtype for c, _ in ran}, key=order.index)
        far: dict[str, float] = defaultdict(float)
        how: set[str] = set()
        for c, o in ran:
            far[c.dtype] = max(far[c.dtype], o.distance)
            how |= {o.how.removeprefix("library: ")} if o.how else set()
        refused = {_short(o.message) for _, o in found if o.message}
        table[op] = {
            "types": _types(names),
            "distance": ", ".join(f"{n} {far[n]:.3g}" for n in names if far[n]),
            "how": ", ".join(sorted(how - {"copies"} or how)),
            "refused": "; ".join(sorted(refused)),
        }
    return table


def _types(names: list[str]) -> str:
    """Element types, whole families by one word, also where one type lacks."""
    families = {
        "integers": [d.name for d in programs.INTEGERS],
        "small floats": [d.name for d in programs.ALL if d.is_float and d.bits <= 8],
        "floats": ["f16", "bf16", "f32", "f64"],
        "complex": ["c64", "c128"],
    }
    rest = list(names)
    words = []
    for word, members in families.items():
        missing = [n for n in members if n not in rest]
        if not missing or (len(missing) == 1 and len(members) > 4):
            words.append(" but ".join([word, *missing]))
            rest = [n for n in rest if n not in members]
    return ", ".join(words + rest)


def _short(message: str) -> str:
    line = " ".join(message.split())
    return (line[:110] + "...") if len(line) > 110 else line


def document() -> str:
    """The page, from what was measured on each target."""
    targets = {f.stem: json.loads(f.read_text()) for f in sorted(_MEASURED.glob("*.json"))}
    text = _HEAD.format(count=len(registry.load()))
    for target, table in targets.items():
        text += f"## On {target}\n\n| operation | element types | distance | how | refused |\n|---|---|---|---|---|\n"
        for op, row in table.items():
            cells = [row["types"], row["distance"], row["how"], row["refused"]]
            text += f"| `{op}` | " + " | ".join(c.replace("|", "\\|") for c in cells) + " |\n"
        text += "\n"
    text += "## Without a configuration\n\n| operation | why |\n|---|---|\n"
    for op, why in registry.WITHOUT_CASES.items():
        text += f"| `{op}` | {why} |\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outcomes", type=Path, help="where outcomes are kept")
    parser.add_argument("--again", action="append", default=[], help="part of a name")
    arguments = parser.parse_args()
    outcomes = measure(registry.load(), Notes(arguments.outcomes, arguments.again))
    _MEASURED.mkdir(exist_ok=True)
    table = json.dumps(rows(outcomes), indent=1, sort_keys=True) + "\n"
    (_MEASURED / f"{device.TARGET}.json").write_text(table)
    DOCUMENT.write_text(document())
    wrong = sum(bool(o.detail) for _, o in outcomes)
    print(
        f"{len(outcomes)} configurations on {device.TARGET}, {wrong} wrong or refused; {DOCUMENT.name} written"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
