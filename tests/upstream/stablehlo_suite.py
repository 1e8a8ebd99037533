"""The tests of StableHLO's own reference interpreter, and the programs that JAX once made for it, on our devices.

    python -m tests.upstream.stablehlo_suite                        clones StableHLO, and runs all of them
    python -m tests.upstream.stablehlo_suite --stablehlo ~/stablehlo reduce_window.mlir
    python -m tests.upstream.stablehlo_suite --folded               constants are constants: the compiler computes all

Each program computes something of constants and says what it should be: ``check.expect_eq_const %r, dense<...>``, or a
custom call of such a name. We return both sides, and compare them here. The constants stand behind an optimization
barrier, or the compiler would compute everything. TRIPONT_CONFORMANCE_TARGET chooses the target, as everywhere.

Equal means equal. Where StableHLO's tests want two floats close to each other, the expected ones are another
implementation's, with its own errors: they may be apart by 64 units in the last place of the largest number that is
expected; where it is ``almost_eq``, by 1e-4 too, as there. Our own bounds are those of tests/conformance.

Nothing of StableHLO is kept here. The exit status is 0 if no result was wrong; what is refused is listed.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
from tripont.core._tripont import StatusError
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.errors import CompileError

from tests.conformance import device

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/openxla/stablehlo"
FOLDERS = ("stablehlo/tests/interpret", "stablehlo/testdata")
#: Tests of the interpreter's own tools.
LEFT_OUT = ("check.mlir", "printing.mlir", "probe.mlir", "api_input_arguments.mlir")

_CONSTANT = re.compile(r"(\s*)%(\w+) = stablehlo\.constant (.*) : (tensor<.*>)\s*")
_CHECKS = (
    # check.expect_eq_const %r, dense<1> : tensor<i64>
    re.compile(r'check\.(?P<kind>\w+_const) (?P<left>%[\w#]+), (?P<value>.*) :\s+(?P<type>tensor<.*>)$'),
    # "check.expect_eq_const"(%r) <{value = dense<1> : tensor<i64>}> : (tensor<i64>) -> ()
    re.compile(r'"check\.(?P<kind>\w+_const)"\((?P<left>%[\w#]+)\) <\{value = (?P<value>.*) :\s+'
               r'(?P<type>tensor<.*>)\}> :'),
    # check.expect_eq %r, %s : tensor<i64>
    re.compile(r'check\.(?P<kind>\w+) (?P<left>%[\w#]+), (?P<right>%[\w#]+) :\s+(?P<type>tensor<.*>)$'),
    # stablehlo.custom_call @check.expect_eq(%r, %s) {has_side_effect = true} : (tensor<i64>, tensor<i64>) -> ()
    re.compile(r'(?:%\w+ = )?stablehlo\.custom_call @check\.(?P<kind>\w+)\((?P<left>%[\w#]+), (?P<right>%[\w#]+)\).* : '
               r'\((?P<type>tensor<.*>), (?P=type)\) ->'),
)  # fmt: skip


class LeftOutError(Exception):
    """A program that is no test, or cannot be one of a single device."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A program that returns the two sides of each check, one after the other."""

    text: str
    checks: tuple[str, ...]


def checkout(folder: Path) -> Path:
    """StableHLO's sources, cloned into ``folder`` unless they are there."""
    path = folder / "stablehlo"
    if not path.exists():
        command = ["git", "clone", "--quiet", "--depth", "1", REPOSITORY, str(path)]
        subprocess.run(command, check=True)
    return path


def programs(path: Path) -> Iterator[tuple[str, str]]:
    """The programs of a file, with their names."""
    for number, text in enumerate(path.read_text().split("// -----")):
        if text.strip():
            yield f"{path.name}:{number}", text


def read(text: str, barriers: bool) -> Program:
    """The program with what it checks as results. Raises LeftOutError."""
    lines = _lines(text)
    if any("interpreter." in line for line in lines):
        raise LeftOutError("runs several programs at once")
    checks = [i for i, line in enumerate(lines) if "check." in line]
    if not checks:
        raise LeftOutError("checks nothing")
    functions = [i for i, line in enumerate(lines) if line.lstrip().startswith("func.func")]
    main = max(i for i in functions if i < checks[0])
    end = min((i for i in functions if i > main), default=len(lines))
    if checks[-1] > end or "()" not in lines[main]:
        raise LeftOutError("checks in a function of arguments")
    result: list[str] = []
    kinds: list[str] = []
    sides: list[tuple[str, str]] = []
    for i, line in enumerate(lines):
        if i in checks:
            check = next((m for m in (p.match(line.strip()) for p in _CHECKS) if m), None)
            if check is None:
                raise LeftOutError(f"a check of another form: {line.strip()[:60]}")
            right = check["right"] if "right" in check.groupdict() else f"%expected_{i}"
            if "value" in check.groupdict():
                result.append(f"{right} = stablehlo.constant {check['value']} : {check['type']}")
            kinds.append(check["kind"].removesuffix("_const"))
            sides += [(check["left"], check["type"]), (right, check["type"])]
        elif main < i < end and re.match(r"\s*(func\.)?return\b", line):
            names, types = (", ".join(column) for column in zip(*sides, strict=True))
            result.append(f"return {names} : {types}")
        elif barriers and (constant := _CONSTANT.fullmatch(line)):
            indent, name, value, kind = constant.groups()
            result.append(f"{indent}%behind_{name} = stablehlo.constant {value} : {kind}")
            result.append(
                f"{indent}%{name} = stablehlo.optimization_barrier %behind_{name} : {kind}"
            )
        else:
            result.append(line)
        if i == main:
            result[-1] = ""
    types = ", ".join(kind for _, kind in sides)
    result[main] = f"func.func public @main() -> ({types}) {{"
    return Program("\n".join(result), tuple(kinds))


def _lines(text: str) -> list[str]:
    """The lines without comments; a check that takes several is one."""
    lines: list[str] = []
    for line in text.split("\n"):
        if line.lstrip().startswith("//"):
            continue
        unfinished = lines and lines[-1].lstrip().startswith("check.")
        if unfinished and not re.search(r" :\s+tensor<[^=]*>\s*$", lines[-1]):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    return lines


def difference(kind: str, result: np.ndarray, expected: np.ndarray) -> str:
    """What is wrong with a result; empty for nothing."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return f"{result.dtype}{result.shape} for {expected.dtype}{expected.shape}"
    dtype = dtypes.from_numpy(result.dtype)
    if not (dtype.is_float or dtype.is_complex) or not result.size:
        wrong = result != expected
    else:
        wide = np.complex128 if dtype.is_complex else np.float64
        a, b = result.astype(wide), expected.astype(wide)
        bound = 1e-4 if kind == "expect_almost_eq" else 0.0
        if kind in ("expect_almost_eq", "expect_close"):
            largest = np.abs(b[np.isfinite(b)]).max(initial=0.0)
            bound = max(bound, 64 * float(ml_dtypes.finfo(result.dtype).eps) * largest)
        with np.errstate(invalid="ignore"):
            near = np.abs(a - b) <= bound
            equal = (a == b) | (np.isnan(a) & np.isnan(b))
        wrong = ~(equal | near)
    if not wrong.any():
        return ""
    first = tuple(np.argwhere(wrong)[0])
    return (
        f"{wrong.sum()} of {wrong.size}, such as {result[first]} for {expected[first]} at {first}"
    )


def run(path: Path, barriers: bool, counts: Counter[str]) -> None:
    """Run the programs of a file, and show what is not right."""
    for name, text in programs(path):
        try:
            program = read(text, barriers)
            results = device.run(device.compile_program(program.text), [])
        except LeftOutError as reason:
            counts[f"left out: {reason}"] += 1
            continue
        except (CompileError, StatusError) as error:
            counts["refused"] += 1
            print(f"{name}: refused: {str(error).splitlines()[0][:200]}", flush=True)
            continue
        problems = [
            problem
            for kind, left, right in zip(program.checks, results[::2], results[1::2], strict=True)
            if (problem := difference(kind, left, right))
        ]
        counts["wrong" if problems else "right"] += 1
        for problem in problems:
            print(f"{name}: WRONG: {problem}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", help="names of files, all without")
    parser.add_argument("--stablehlo", type=Path, help="a checkout of StableHLO")
    parser.add_argument("--folded", action="store_true", help="no barriers behind the constants")
    options = parser.parse_args(arguments)
    source = options.stablehlo or checkout(ROOT / "build")
    counts: Counter[str] = Counter()
    for folder in FOLDERS:
        for path in sorted((source / folder).rglob("*.mlir")):
            if path.name in LEFT_OUT or (options.files and path.name not in options.files):
                continue
            run(path, not options.folded, counts)
    for outcome, count in sorted(counts.items()):
        print(f"{count:6} {outcome}")
    return 1 if counts["wrong"] or not counts["right"] else 0


if __name__ == "__main__":
    sys.exit(main())
