"""The fuzzers: a few programs of each, what they can make, and the machinery around them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from random import Random
from types import SimpleNamespace
from typing import Final

import jax
import numpy as np
import pytest
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir.hlo import Instruction, Module
from tripont.core.compiler.reference import evaluate
from tripont.core.compiler.reference.stochastic import Expectation
from tripont.core.compiler.targets import code_cache
from tripont.core.compiler.targets.host import target as host_target
from tripont.core.compiler.targets.host.target import HostTarget

from tests.conformance import device, registry
from tests.conformance.random_programs import in_place
from tests.conformance.random_programs.programs import dims_at_edges, program, unequal
from tests.fuzz import __main__ as fuzz
from tests.fuzz import children, distinct, faults, hlo_modules, other_target, shrink, ways
from tests.fuzz.fuzzers import FUZZERS
from tests.fuzz.judge import Case, checks_of, findings
from tests.starter import run_with_jax

# Operations that no random program has, and why. What stands here has configurations of its own in tests/conformance.
WITHOUT_GENERATOR: Final[dict[str, str]] = {
    **registry.WITHOUT_CASES,
    **dict.fromkeys(["after_all", "create_token"], "tokens only order side effects"),
    **dict.fromkeys(["infeed", "outfeed", "recv", "send"], "needs another side"),
    **dict.fromkeys(
        ["custom_call", "composite", "tuple", "get_tuple_element"],
        "names and wrapping, no arithmetic",
    ),
    **dict.fromkeys(
        ["broadcast", "dot", "einsum", "unary_einsum"],
        "older names of operations that are generated",
    ),
    **dict.fromkeys(
        ["cross-replica-sum", "partition_id"], "older names of operations that are generated"
    ),
    **dict.fromkeys(["rng", "rng_bit_generator"], "the evaluator does not know their numbers"),
    **dict.fromkeys(
        ["dynamic_conv", "dynamic_gather"], "to be written: other dynamic operations are generated"
    ),
    "chlo.ragged_dot": "to be written",
    **dict.fromkeys(
        ["chlo.bessel_i1e", "chlo.polygamma", "chlo.zeta"], "too slow in the evaluator"
    ),
    **dict.fromkeys(
        ["chlo.constant", "chlo.constant_like", "chlo.scan"], "short forms that the reader expands"
    ),
    "chlo.mulhi": "to be written",
}


def _without_generator(op: str) -> bool:
    # chlo.broadcast_add is a broadcast and an add, which are generated.
    return op in WITHOUT_GENERATOR or op.startswith("chlo.broadcast_")


def test_every_operation_has_a_generator_or_a_reason():
    made: set[str] = set()
    # Which takes a second for each.
    made_by_jax = (
        "jax",
        "loops",
        "exchanges",
        "stacks",
        "sums",
        "products",
        "quantised",
        "attentions",
        "heads",
        "transforms",
        "stencils",
        "convolutions",
        "slices",
        "factors",
    )
    makers = [f for name, f in FUZZERS.items() if name not in made_by_jax]
    texts = [f(seed).text for f in makers for seed in range(200)]
    texts += [program(Random(seed), together=True).text for seed in range(100)]
    for text in texts:
        made.update(re.findall(r"(?:stablehlo|chlo)\.[a-z_0-9]+", text))
    known = {name.removeprefix("stablehlo.") for name in made}
    missing = [
        o for o in registry.dialect_operations() if o not in known and not _without_generator(o)
    ]
    assert not missing


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow) if "large" in n else n
        for n in [*FUZZERS, "hlo", "callbacks"]
    ],
)
def test_programs_of_each_fuzzer(name, tmp_path):
    """In a process that has not used XLA yet: a fork of one that has may wait for ever for XLA's threads."""
    command = ["--only", name, "--seed", "0", "--count", "3", "--no-shrink", "--folder"]
    program = f"""
import sys
from tests.fuzz import __main__ as fuzz
sys.argv = ["fuzz", *{command}, {str(tmp_path)!r}]
sys.exit(fuzz.main())
"""
    done = run_with_jax(program, os.environ | {"TRIPONT_VERIFY": "1"}, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name}: 3 programs, 0 wrong" in done.stdout


@pytest.mark.parametrize("seed", ["700", ""])
def test_turns_go_on_where_the_last_one_stopped(seed, monkeypatch, tmp_path):
    begun = []

    def turn(corpus, name, first, count, until, small):
        begun.append(first)
        return 0, first + 5

    monkeypatch.setattr(fuzz, "_turn", turn)
    monkeypatch.setattr(fuzz, "time", SimpleNamespace(monotonic=iter(range(1000)).__next__))
    given = ["--seed", seed] if seed else []
    command = ["fuzz", *given, "--minutes", "0.2", "--only", "short", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    assert fuzz.main() == 0
    start = int(seed or 1_000_000)
    assert begun == list(range(start, start + 5 * len(begun), 5))
    assert len(begun) > 2


def test_programs_of_every_shape_get_every_check():
    """A program's families of dtypes are the first thing that ``program`` draws, and its rank what ``dims_at_edges``
    does.
    """
    shapes = set()
    met: dict[str, set[tuple[str, int]]] = {}
    for seed in range(6000):
        shape = {("family", Random(seed).randrange(4)), ("rank", len(dims_at_edges(Random(seed))))}
        shapes |= shape
        checks = checks_of(seed)
        names = [n for n in ("evaluator", "xla", "passes") if getattr(checks, n)]
        if checks.way is not None:
            way, _ = ways.other_way(checks.way, "")
            way = re.sub("for .* with the costs of .*", "with other costs", way)
            names.append(re.sub("with .* (twice|left out)", r"with a pass \1", way))
        for name in names or ["none"]:
            met.setdefault(name, set()).update(shape)
    assert len(shapes) == 7
    ways_of_all = {"written short", "as HLO", "with a pass twice", "evaluator", "passes"}
    assert ways_of_all <= met.keys()
    assert "with other costs" in met or not ways.levels()
    assert {name: sorted(shapes - seen) for name, seen in met.items() if seen != shapes} == {}


def _is_wrong(case: Case) -> bool:
    module = read_program(case.text.encode(), "mlir")
    results = ways.run(ways.load(case.text, {}), case.arguments)
    return bool(unequal(results, evaluate.evaluate(module, case.arguments)))


def test_functions_that_xla_writes_out_are_judged_as_it_does():
    """Beside the zero of lgamma, XLA's formula is off by thousands of units in the last place."""
    text = """func.func @main(%x: tensor<64xf64>) -> tensor<64xf64> {
      %y = chlo.lgamma %x : tensor<64xf64> -> tensor<64xf64>
      return %y : tensor<64xf64>
    }"""
    case = Case(text, [np.linspace(0.999, 1.001, 64)], exact=False)
    ours = Expectation(read_program(text.encode(), "mlir"), case.arguments)
    (results,) = ways.run(ways.load(device.as_hlo(text), device.OPTIONS), case.arguments)
    assert ours.differences([results])
    seeds = [s for s in range(200) if _way(s) == "as HLO"]
    assert seeds
    assert findings(case, seeds[0]) == []
    off = [results + 1e-12]
    with pytest.MonkeyPatch.context() as patch:
        run = ways.run
        patch.setattr(
            ways, "run", lambda e, a, donate=False: off if e is None else run(e, a, donate)
        )
        patch.setattr(ways, "other_way", lambda chances, text, _: ("as HLO", lambda: None))
        assert findings(case, seeds[0])


def _described(module: Module) -> list[object]:
    """All of a module but names, with numbers in the place of instructions."""
    numbers: dict[Instruction, int] = {}
    for computation in module.computations():
        for instruction in computation.instructions:
            numbers.setdefault(instruction, len(numbers))
    return [
        (
            i.opcode,
            str(i.shape),
            [numbers[o] for o in i.operands],
            [len(c.instructions) for c in i.called],
            repr(sorted(i.attributes.items())),
        )
        for i in numbers
    ]


@pytest.mark.parametrize("name", ["exact", "floats", "updates"])
def test_compiling_leaves_what_was_read_as_it_is(name):
    """The judge's module is the one that is compiled, in two ways."""
    for seed in range(20):
        module = read_program(FUZZERS[name](seed).text.encode(), "mlir")
        before = _described(module)
        ways.load(module, device.OPTIONS)
        with ways.written_short():
            ways.load(module, {**device.OPTIONS, "xla_allow_excess_precision": "false"})
        assert _described(module) == before


def test_a_program_is_judged_and_compiled_as_it_was_read_once(monkeypatch):
    read = []

    def counted(program, format):
        read.append(format)
        return read_program(program, format)

    monkeypatch.setattr("tests.fuzz.judge.read_program", counted)
    monkeypatch.setattr(ways, "read_program", counted)
    for seed in range(40):
        read.clear()
        assert findings(FUZZERS["pairs"](seed), seed) == []
        assert read.count("mlir") == 1  # and once more as HLO


def test_programs_that_are_the_same_count_once(tmp_path):
    tried = distinct.Tried(tmp_path / "pairs")
    assert tried.count() == 0
    for text in ("a", "b", "a", "c", "b"):
        tried.add(text)
    assert distinct.Tried(tmp_path / "pairs").count() == 3


def _works(seed: int) -> str:
    begin = time.process_time()
    while time.process_time() < begin + 0.3:
        pass
    if seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return ""


def test_children_lower_programs_beside_a_process_that_has() -> None:
    """JAX checks the functions of a program in threads, which a forked child lacks."""

    def lowered(seed: int) -> str:
        called = [jax.jit(lambda x, n=n: x + n) for n in range(8)]
        x = np.zeros(seed, np.float32)
        return jax.jit(lambda x: sum(f(x) for f in called)).lower(x).as_text()[:6]

    assert lowered(3) == "module"
    assert list(children.outcomes(range(3, 5), lowered, 20.0)) == [(3, "module"), (4, "module")]


def test_what_children_use_is_counted():
    """Of one that ends by itself, of one that crashes, and of one that nobody wants any more."""
    work = children.Work()
    assert len(list(children.outcomes(range(3), _works, work=work))) == 3
    assert work.seconds >= 0.9
    told = children.outcomes(range(2, 9), _works, work=work)
    next(told)
    told.close()
    assert work.seconds >= 1.2 - 2 / os.sysconf("SC_CLK_TCK")


def _way(seed: int) -> str:
    checks = checks_of(seed)
    return "" if checks.passes or checks.way is None else ways.other_way(checks.way, "")[0]


def test_a_program_is_made_small(monkeypatch):
    """An update that reads what it wrote, in a compiler that does not check where it puts values."""
    monkeypatch.setenv("TRIPONT_VERIFY", "0")
    drawn = program(Random(146), 3, in_place.UPDATES)
    case = Case(drawn.text, drawn.arguments())
    with faults.update_of_what_lives():
        small = shrink.shrunk(case, _is_wrong, most=40)
        assert _is_wrong(small)
    assert not _is_wrong(small)  # without the fault
    assert len(small.text.splitlines()) < 15 < 80 < len(case.text.splitlines())


def test_a_program_with_a_judge_of_its_own_stays_as_it_is():
    """It knows what the whole program means, and nothing of a part of it."""
    drawn = program(Random(146), 3)
    case = Case(drawn.text, drawn.arguments(), own=lambda results: [])
    assert shrink.shrunk(case, lambda c: True) is case


def test_other_costs_choose_other_code():
    """And the usual ones choose again behind them."""
    before = host_target.for_cpu().costs.convolutions
    with ways.costs_of("znver5"):
        assert host_target.for_cpu().costs.convolutions.point_rows == 512
    assert host_target.for_cpu().costs.convolutions == before


@pytest.mark.parametrize(("most", "seconds"), [(7, 1e9), (1000, 70.0)])
def test_making_small_ends(monkeypatch, most, seconds):
    """After so many smaller programs, or so many seconds: by a clock on which each takes ten."""
    asked = []
    monkeypatch.setattr(shrink.time, "monotonic", lambda: 10.0 * len(asked))
    drawn = program(Random(146), 12)
    case = Case(drawn.text, drawn.arguments())

    def fails(tried: Case) -> bool:
        asked.append(tried.text)
        return len(asked) == 1

    small = shrink.shrunk(case, fails, most, seconds)
    assert len(asked) == 7
    assert small.text == asked[0]


def test_a_smaller_program_that_never_ends_does_not_fail(monkeypatch):
    """Where it should say what the program said that it was made of."""

    def endless(case: Case, seed: int) -> list[str]:
        while not case.arguments:
            pass
        return ["compiled: result 0: 1"]

    monkeypatch.setattr(fuzz, "findings", endless)
    monkeypatch.setattr(fuzz, "_SECONDS_OF_SMALLER", 0.2)
    assert fuzz._still_fails(Case("", [np.zeros(1)]), 0, "compiled: wrong")
    assert not fuzz._still_fails(Case("", []), 0, "compiled: wrong")


# A fuzzer whose program XLA seems to get wrong as long as it has an addition. XLA runs it all the same.
WRONG_BY_XLA = """
import sys
from tests.fuzz import __main__ as fuzz, judge, ways

def make(seed):
    import jax.numpy as jnp, numpy as np
    from tests.fuzz.jax_functions import lowered
    arguments = [np.arange(3, dtype=np.int32), np.arange(3, 6, dtype=np.int32)]
    return judge.Case(lowered(lambda x, y: (x * 2, x + 1, y - x), arguments, ()), arguments, xla=True)

def run_xla(text, arguments):
    results = run(text, arguments)
    return [r + 1 if "add" in text else r for r in results]

run, ways.run_xla = ways.run_xla, run_xla
fuzz.FUZZERS["loops"] = make
seed = next(s for s in range(100) if judge.checks_of(s).xla)
sys.argv = ["fuzz", "--only", "loops", "--seed", str(seed), "--count", "1", "--folder", FOLDER]
sys.exit(fuzz.main())
"""


def test_what_xla_gets_wrong_is_made_small(tmp_path):
    """Smaller programs run in forks, which would wait for ever for the threads of an XLA that was started before."""
    program = WRONG_BY_XLA.replace("FOLDER", repr(str(tmp_path)))
    done = run_with_jax(program, {**os.environ}, timeout=280)
    (small,) = tmp_path.glob("*/small.mlir")
    assert "subtract" not in small.read_text(), done.stdout + done.stderr
    assert "add" in small.read_text()


def test_a_wrong_hlo_module_is_found(monkeypatch):
    text, arguments, expected = hlo_modules.make(3)
    monkeypatch.setattr(
        hlo_modules, "make", lambda seed: (text, arguments, [e + e.dtype.type(1) for e in expected])
    )
    assert hlo_modules.findings(3)


def test_a_program_runs_on_another_target():
    if not other_target.has_sycl():
        pytest.skip("there is no SYCL device here")
    text = (
        "func.func @main(%x: tensor<3xi32>) -> tensor<3xi32> {\n"
        "  %y = stablehlo.add %x, %x : tensor<3xi32>\n  return %y : tensor<3xi32>\n}"
    )
    numbers = Random(0)
    found = [ways.other_way(numbers, text) for _ in range(100)]
    make = dict(found)["on SYCL"]
    (result,) = ways.run(make(), [np.arange(3, dtype=np.int32)])
    assert result.tolist() == [0, 2, 4]
    with pytest.raises(other_target.RefusedError):
        ways.run(ways._Elsewhere(text.replace("add %x", "add %z")), [np.arange(3)])


def test_written_short_is_compiled_quickly(monkeypatch):
    """All of a program: of its first kernel, of one alone, and of three that are a part together."""
    seen = []
    compile_object = HostTarget.compile_object

    def observed(self, text, quick=False, *, dump=False):
        seen.append((text.count("define "), quick))
        return compile_object(self, text, quick, dump=dump)

    monkeypatch.setattr(HostTarget, "compile_object", observed)
    for count in (1, 3):
        code_cache.clear()
        lines = [f"%y{n} = stablehlo.tanh %p{n} : tensor<{n + 5}xf32>" for n in range(count)]
        types = ", ".join(f"tensor<{n + 5}xf32>" for n in range(count))
        text = (
            f"func.func @main({', '.join(f'%p{n}: tensor<{n + 5}xf32>' for n in range(count))}) -> ({types}) {{\n"
            + "\n".join(lines)
            + f"\nreturn {', '.join(f'%y{n}' for n in range(count))} : {types}\n}}"
        )
        with ways.written_short():
            ways.load(text, {})
    assert seen
    assert all(quick for _, quick in seen)
    assert max(functions for functions, _ in seen) >= 3


def test_no_function_of_code_written_short_calls_itself(monkeypatch):
    """The rare elements of a remainder were given to a function with the name of the whole one."""
    seen = []
    compile_object = HostTarget.compile_object

    def observed(self, text, quick=False, *, dump=False):
        seen.append(text)
        return compile_object(self, text, quick, dump=dump)

    monkeypatch.setattr(HostTarget, "compile_object", observed)
    code_cache.clear()
    array = "tensor<24xf32>"
    body = f"%r = stablehlo.remainder %x, %y : {array}\nreturn %r : {array}"
    with ways.written_short():
        ways.load(f"func.func @main(%x: {array}, %y: {array}) -> {array} {{\n{body}\n}}", {})
    functions = "".join(seen).split("\ndefine ")[1:]
    assert len(functions) >= 3
    for function in functions:
        name = function[function.index("@") : function.index("(")]
        assert f"{name}(" not in function[function.index("{") :]
    calls = {f[f.index("@") : f.index("(")]: f for f in functions}
    for name, function in calls.items():
        for callee, inner in calls.items():
            assert not (f"{callee}(" in function and f"{name}(" in inner and callee != name)


def test_processes_at_once_try_other_programs(tmp_path, monkeypatch):
    seen = tmp_path / "seen"

    def check(name: str, seed: int, tried: distinct.Tried) -> str:
        tried.add(f"{seed % 2}")
        with seen.open("a") as file:
            file.write(f"{seed}\n")
        return "wrong" if seed == 105 else ""

    monkeypatch.setattr(fuzz, "check", check)
    given = ["--only", "short", "--count", "3", "--no-shrink", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["fuzz", *given, "--seed", "100", "--jobs", "2"])
    assert fuzz.main() == 1  # the second one's
    assert sorted(map(int, seen.read_text().split())) == [100, 101, 102, 103, 104, 105]
    assert (tmp_path / "job1" / "short-105" / "what.txt").exists()
    assert fuzz.Corpus(tmp_path).tried("short").count() == 2  # those of both
    # From where they stand, and so far from each other that they do not meet.
    monkeypatch.setattr(sys, "argv", ["fuzz", *given, "--jobs", "2"])
    for first in (fuzz._FIRST_SEED, fuzz._FIRST_SEED + 3):
        seen.unlink()
        assert fuzz.main() == 0
        of_second = first + fuzz._SEEDS_OF_A_JOB
        expected = [*range(first, first + 3), *range(of_second, of_second + 3)]
        assert sorted(map(int, seen.read_text().split())) == expected


def _crash_or_hang(seed: int) -> str:
    if seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed == 3:
        time.sleep(60)
    if seed == 4:
        raise ValueError("of this seed")
    return ""


def test_who_waits_for_a_process_that_works_does_not_hang():
    work = "import time\nwhile time.process_time() < 0.4: pass"
    command = (
        f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {work!r}]);"
        "print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as waiting:
        assert waiting.stdin
        assert waiting.stdout
        waiting.stdout.readline()
        own = children._cpu_seconds(waiting.pid)
        deadline = time.monotonic() + 60
        while children._cpu_seconds(waiting.pid) < own + 0.2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert children._cpu_seconds(waiting.pid) >= own + 0.2
        waiting.stdin.write(b"\n")


def test_programs_that_crash_or_hang_are_told_and_the_next_ones_tried():
    told = dict(children.outcomes(range(6), _crash_or_hang, seconds=2))
    assert told == {
        0: "",
        1: "ends the process with -9",
        2: "",
        3: "hangs for 2 s",
        4: "ValueError: of this seed",
        5: "",
    }
