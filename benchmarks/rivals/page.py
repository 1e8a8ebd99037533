"""docs/performance.md: per CPU, every program beside its best rival and the machine's limit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import limits
from .environments import JAXLIBS, OURS, RIVALS
from .frameworks import function_of
from .measure import Rounds, median, minimum
from .program import Program, programs
from .reasons import MEMORY_REASONS, REASONS
from .store import Store

HEADER = """# Performance against what people run

`python -m benchmarks.rivals --write` measures this page ([development.md](development.md)). Every rival
runs in a process and an environment of its own: jaxlib 0.4.31 (the last release before XLA:CPU's thunk
runtime), 0.10.2 and the newest one, PyTorch eager and compiled, NumPy with SciPy, ONNX Runtime,
TensorFlow and, for language models, llama.cpp. All have the same inputs and the same number of threads, and
take turns of {turn}; those that wait are stopped. Results are compared with a reference in double
precision, within a tolerance that is
derived from it (`benchmarks/rivals/agreement.py`); a rival with a wrong result is named and left out.

The ratio is the best rival's time over ours, by minima (and by medians): above 1 we are faster. "Limit" is
the part of the machine's own limit that we reach: its measured bandwidth or arithmetic, whichever binds,
over our time. Programs for which neither says anything have none; peaks of element types that NumPy has no
fast products of are those of the fastest product by anybody. Above 100 % the limit was measured while other
work disturbed it more than the program, or the data was nearer than a copy of its size. "Compile" is the
time of the compiler alone, without caches, ours and that of the newest jaxlib, in a process that has compiled
a small program before. "Memory" is the most that inputs, temporaries and results take at
once, ours and that of the leanest jaxlib: how much more the process holds than before the inputs were placed,
when it has run the program before, so that code, threads and what the compiler left behind are there already.
It is measured in a process of its own, in which freed memory goes back to the system at once. A run that is asked
for some rivals only leaves the figures of the others as another run measured them.
"""

UNKNOWN = "not known yet"
COMPLAINTS = "benchmarks.complaints."  # the modules of programs that stand for users' complaints
SAME_JAX = "jaxlib-0.10.2"  # whose programs are ours to the last operation
COUNTED_BYTES = 1 << 18  # the kernel does not count a process's memory more exactly


@dataclass(frozen=True)
class Row:
    """A program's measurements, read for the page. Times in seconds."""

    program: Program
    ours: float
    ours_median: float
    best: str
    theirs: float
    theirs_median: float
    result: Mapping[str, Any]

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours

    @property
    def ratio_of_medians(self) -> float:
        return self.theirs_median / self.ours_median

    def against(self, names: Iterable[str]) -> float:
        """The best of the named rivals' times over ours; NaN if none of them ran."""
        rows = [self.result["rivals"].get(name) for name in names]
        times = [minimum(row) for row in rows if row and not row["error"]]
        return min(times) / self.ours if times else math.nan


def seconds(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return ""
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if value * factor < 1000:
            return f"{value * factor:.3g} {unit}"
    return f"{value:.2f} s"


def good(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {name: row for name, row in rows.items() if not row["error"] and row.get("seconds")}


def row_of(program: Program, result: Mapping[str, Any]) -> Row | None:
    """None if we, or all rivals, have no result."""
    rows = good(result["rivals"])
    others = {name: minimum(row) for name, row in rows.items() if name != OURS}
    if OURS not in rows or not others:
        return None
    best = min(others, key=others.__getitem__)
    return Row(
        program,
        minimum(rows[OURS]),
        median(rows[OURS]),
        best,
        others[best],
        median(rows[best]),
        result,
    )


def line(program: Program, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """For the terminal: every rival's fastest call."""
    times = good(rows)
    parts = [f"{name} {seconds(minimum(row))}" for name, row in times.items()]
    wrong = [f"{name}: {row['error']}" for name, row in rows.items() if row["error"]]
    row = row_of(program, {"rivals": rows})
    ratio = f"{row.ratio:5.2f}x" if row else "   -  "
    return (
        f"{ratio} {program.name:28} "
        + ", ".join(parts)
        + "".join(f"\n       {text}" for text in wrong)
    )


def megabytes(size: int) -> str:
    return f"{size / 2**20:.{0 if size >= 100 * 2**20 else 1}f}"


def peaks_of(result: Mapping[str, Any]) -> dict[str, int]:
    """Rival -> peak bytes."""
    rows = good(result["rivals"])
    return {name: row["peak_bytes"] for name, row in rows.items() if "peak_bytes" in row}


def memory_line(program: Program, peaks: Mapping[str, Mapping[str, Any]]) -> str:
    """For the terminal: every rival's peak."""
    return f"{program.name:28} " + ", ".join(
        f"{name} {row.get('error') or megabytes(row['peak_bytes']) + ' MB'}"
        for name, row in peaks.items()
    )


def memory_excesses(rows: Iterable[Row]) -> list[str]:
    """The table of programs that take more memory than with XLA:CPU, from the same JAX."""
    found = []
    for row in rows:
        peaks = peaks_of(row.result)
        ours, theirs = peaks.get(OURS), peaks.get(SAME_JAX)
        if ours is not None and theirs is not None and ours > theirs + COUNTED_BYTES:
            reason = MEMORY_REASONS.get(row.program.name, UNKNOWN)
            found.append((ours - theirs, row.program.name, ours, theirs, reason))
    return [
        f"| `{name}` | {megabytes(ours)} MB | {megabytes(theirs)} MB | {reason} |"
        for _, name, ours, theirs, reason in sorted(found, reverse=True)
    ]


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values if value > 0 and math.isfinite(value)]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def section(store: Store) -> tuple[str, str]:
    """The CPU's name and its part of the page."""
    machine = store.read("limits")
    assert machine is not None, "nothing was measured on this machine"
    limit = limits.read(machine["limits"]).filled(product_rates(store))
    rows: list[Row] = []
    failures: list[str] = []
    loads = []
    versions: dict[str, str] = {}
    commits = set()
    unmeasured: dict[str, int] = {}
    without: list[str] = []
    for program in programs().values():
        result = store.read(program.name)
        if result is None:
            without.append(f"`{program.name}`")
            continue
        loads.append(result["load"])
        commits.add(result["commit"])
        for name, rival in RIVALS.items():
            if function_of(rival.framework) in program.makers and name not in result["rivals"]:
                unmeasured[name] = unmeasured.get(name, 0) + 1
        for name, entry in result["rivals"].items():
            if entry.get("version"):
                versions[name] = entry["version"]
            if entry["error"]:
                failures.append(f"| `{program.name}` | {name} | {entry['error']} |")
        if (row := row_of(program, result)) is not None:
            rows.append(row)
    text = [f"## {machine['cpu']}, {machine['threads']} threads", ""]
    text.append(f"Instructions: {machine['instructions']}. " + summary(rows))
    text.append(
        f"Other work was running: the load of the {machine['threads']} cores was {min(loads):.1f} to {max(loads):.1f} "
        "while this was measured (our own processes are about 1 of it). Minima and ratios mean more than medians."
        if loads and max(loads) > 1.5 else "The machine was quiet."
    )  # fmt: skip
    text += ["", "Limits, measured: " + described(limit) + ".", ""]
    text += ["Versions: " + "; ".join(f"{name}: {version}" for name, version in sorted(versions.items()))
             + f". Commits of tripont: {', '.join(sorted(commits))}.", ""]  # fmt: skip
    if machine.get("left_out"):
        text += ["Rivals that could not be installed: "
                 + "; ".join(f"{n}: {reason}" for n, reason in machine["left_out"].items()) + ".", ""]  # fmt: skip
    if unmeasured:
        parts = (f"{name} on {count} programs" for name, count in sorted(unmeasured.items()))
        text += [f"Not measured, though they could have been: {', '.join(parts)}.", ""]
    if without:
        text += [f"Programs that have not been measured on this CPU: {', '.join(without)}.", ""]
    for kind in dict.fromkeys(row.program.kind for row in rows):
        text += [
            f"### {kind[0].upper()}{kind[1:]}",
            "",
            *table([r for r in rows if r.program.kind == kind], limit),
            "",
        ]
    text += ["### Ratios below 1", ""]
    slower = sorted((row for row in rows if row.ratio < 1), key=lambda row: row.ratio)
    if slower:
        text += ["| program | ratio | best rival | reason |", "|---|---|---|---|"]
        text += [
            f"| `{row.program.name}` | {row.ratio:.2f} | {row.best} | {REASONS.get(row.program.name, UNKNOWN)} |"
            for row in slower
        ]
    else:
        text.append("None.")
    text += ["", f"### Memory above {SAME_JAX}'s", ""]
    if excesses := memory_excesses(rows):
        text += ["| program | ours | theirs | reason |", "|---|---|---|---|", *excesses]
    else:
        text.append("None.")
    if failures:
        text += ["", "### Left out", "", "| program | rival | why |", "|---|---|---|", *failures]
    return machine["cpu"], "\n".join(text) + "\n"


def product_rates(store: Store) -> dict[str, float]:
    """Operations a second of the fastest large product by anybody, for the element types that NumPy has no fast
    product of.
    """
    rates = {}
    for program in programs().values():
        result = store.read(program.name)
        if program.name.startswith("product_") and result:
            times = [minimum(row) for row in good(result["rivals"]).values()]
            rates[program.unit] = max(
                rates.get(program.unit, 0.0), *(program.flops / time for time in times)
            )
    return rates


def summary(rows: list[Row]) -> str:
    if not rows:
        return "Nothing was measured."
    jaxlibs = [(row, row.against(JAXLIBS)) for row in rows]
    newest = [ratio for row in rows if math.isfinite(ratio := row.against(["jaxlib-newest"]))]
    below = sum(row.ratio < 1 for row in rows)
    text = (
        f"{len(rows)} programs: {geometric_mean(r.ratio for r in rows):.2f}x the best rival of each in the "
        f"geometric mean, {below} slower than it; {geometric_mean(v for _, v in jaxlibs):.2f}x the best of "
        "the three jaxlibs."
    )
    if newest:
        twice = sum(ratio >= 2 for ratio in newest) / len(newest)
        text += f" {geometric_mean(newest):.2f}x the newest jaxlib, and at least twice as fast in {twice:.0%}."
    return text + complaints(rows)


def complaints(rows: list[Row]) -> str:
    """How far the programs that stand for users' complaints are from their goal: none slower than the best of the three
    jaxlibs, four in five at least twice as fast as the newest.
    """
    theirs = [row for row in rows if row.program.module.startswith(COMPLAINTS)]
    least = [(r, row) for row in theirs if math.isfinite(r := row.against(JAXLIBS))]
    newest = [r for row in theirs if math.isfinite(r := row.against(["jaxlib-newest"]))]
    if not least or not newest:
        return ""
    slowest, at = min(least, key=lambda entry: entry[0])
    twice = sum(r >= 2 for r in newest)
    return (
        f" Users' complaints (`benchmarks/complaints`): {twice} of {len(newest)} ({twice / len(newest):.1%}) at least "
        f"twice as fast as the newest jaxlib, none below {math.floor(slowest * 100) / 100:.2f}x the best of the three "
        f"(`{at.program.name}`)."
    )


def described(limit: limits.Limits) -> str:
    copies = ", ".join(
        f"{rate / 1e9:.0f} GB/s at {size / 2**20:g} MB" for size, rate in limit.copied
    )
    return f"copying {copies}; " + ", ".join(
        f"{unit} {rate / 1e9:.0f} G/s" for unit, rate in limit.flops.items()
    )


def table(rows: list[Row], limit: limits.Limits) -> Iterable[str]:
    columns = ("program", "what it does", "ours", "best rival", "ratio (medians)", "newest jaxlib")
    yield "| " + " | ".join((*columns, "limit", "compile", "memory")) + " |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        entries = row.result["rivals"]
        mine = entries[OURS]
        newest = good(entries).get("jaxlib-newest", {})
        least = limit.least_seconds(row.program.bytes, row.program.flops, row.program.unit)
        peaks = peaks_of(row.result)
        least_peak = min((peaks[name] for name in JAXLIBS if name in peaks), default=None)
        compiling = seconds(mine["compile_seconds"]) if mine["compile_seconds"] is not None else ""
        if compiling and newest.get("compile_seconds") is not None:
            compiling += f" / {seconds(newest['compile_seconds'])}"
        against = row.against(["jaxlib-newest"])
        cells = [
            f"`{row.program.name}`",
            row.program.description + (f" ({row.program.source})" if row.program.source else ""),
            seconds(row.ours),
            f"{seconds(row.theirs)} {row.best}",
            f"{row.ratio:.2f} ({row.ratio_of_medians:.2f})",
            f"{against:.2f}" if math.isfinite(against) else "",
            f"{least / row.ours:.0%}" if least else "",
            compiling,
            " / ".join(megabytes(p) for p in (peaks.get(OURS), least_peak) if p is not None)
            + " MB",
        ]
        yield "| " + " | ".join(cells) + " |"


def write(path: Path, store: Store) -> None:
    """This CPU's section is written anew, those of others stay."""
    cpu, text = section(store)
    others = []
    if path.exists():
        parts = re.split(r"(?m)^(?=## )", path.read_text())[1:]
        others = [part.rstrip() + "\n" for part in parts if not part.startswith(f"## {cpu},")]
    header = HEADER.format(turn=f"{Rounds().turn:g} s")
    path.write_text("\n".join([header, text, *others]).rstrip() + "\n")
