"""The scans: a sample of each; the judge, the list of known differences and the children find what is wrong."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.scan import __main__ as of_scans
from tests.scan import arguments, known
from tests.scan.call import Call
from tests.scan.judge import Outcome, differences
from tests.scan.running import findings
from tests.scan.scans import SCANS

_ROOT = Path(__file__).parents[2]
# One call in so many of each scan: about ten of TensorFlow's, and twenty of JAX's and PyTorch's.
_EVERY = {
    "tensorflow_gradients": 263,
    "tensorflow_loops": 79,
    "tensorflow_functions": 307,
    "tensorflow_raw_ops": 2111,
    "jax_updates": 257,
    "jax_images": 41,
    "jax_draws": 67,
    "jax_special": 19,
    "jax_sizes": 31,
    "jax_gradients": 97,
    "torch_op_db": 1999,
    "torch_windows": 89,
    "torch_places": 199,
    "torch_layers": 167,
}


@pytest.mark.slow
@pytest.mark.parametrize("scan", SCANS)
def test_a_sample_has_no_new_difference(scan: str) -> None:
    if importlib.util.find_spec(SCANS[scan]) is None:
        pytest.skip(f"{SCANS[scan]} is not installed")
    command = [sys.executable, "-m", "tests.scan", "--only", scan, "--every", str(_EVERY[scan])]
    ran = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-2000:]
    assert " 0 new differences" in ran.stdout


# Of an op without a kernel for XPU, as this process may have no device: arguments come from the definition alone.
_DERIVED = """
from tensorflow.python.framework import op_def_registry
from tests.scan.raw_op_registry import RawOp
from tests.scan.tensorflow_raw_ops import variants
for op in ("Mod", "Sum", "CumulativeLogsumexp", "GatherV2"):
    for name, variant in variants(RawOp(op_def_registry.get(op), {})):
        arrays = [leaf.array for leaf in variant.leaves]
        print(name, [f"{a.dtype}{list(a.shape)}" for a in arrays], dict(variant.attributes))
"""


@pytest.mark.slow
def test_arguments_of_raw_ops_come_from_their_definitions() -> None:
    pytest.importorskip("tensorflow")
    # TensorFlow is imported without plugins there.
    ran = subprocess.run(
        [sys.executable, "-c", _DERIVED], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    lines = ran.stdout.splitlines()
    assert "Mod ['float32[3, 37]', 'float32[3, 37]'] {}" in lines
    assert "Mod, T int64 nonzero special ['int64[324]', 'int64[324]'] {}" in lines
    assert "Mod, y empty along 1 ['float32[3, 37]', 'float32[3, 0]'] {}" in lines
    assert "Sum ['float32[3, 37]', 'int32[1]'] {}" in lines
    assert "Sum, keep_dims is True ['float32[3, 37]', 'int32[1]'] {'keep_dims': True}" in lines
    assert (
        "GatherV2 3, batch_dims is -1 ['float32[2, 5, 3]', 'int32[2, 4]', 'int32[]'] {'batch_dims': -1}"
        in lines
    )
    assert (
        "GatherV2, indices first -2147483648 ['float32[5, 3]', 'int32[2, 4]', 'int32[]'] {}"
        in lines
    )


def _outcome(*values: object) -> Outcome:
    return Outcome([np.asarray(v) for v in values])


_X = np.array([1.0, -2.0, np.inf, np.nan], np.float32)


@pytest.mark.parametrize(
    ("actual", "word"),
    [
        (_outcome(_X.astype(np.float64)), "float64[4] instead of float32[4]"),
        (_outcome(_X[:3]), "float32[3] instead of float32[4]"),
        (_outcome(_X, _X), "2 results instead of 1"),
        (_outcome(np.array([1.0, -2.0, -np.inf, np.nan], np.float32)), "-inf instead of inf"),
        (_outcome(np.array([1.0, -2.0, np.inf, 0.0], np.float32)), "0.0 instead of nan"),
        (_outcome(np.array([1.0001, -2.0, np.inf, np.nan], np.float32)), "1 of 4 differ"),
        (Outcome(error="ValueError: no"), "refuses: ValueError"),
    ],
)
def test_the_judge_sees_what_differs(actual: Outcome, word: str) -> None:
    assert word in differences(actual, _outcome(_X))
    assert not differences(_outcome(_X), _outcome(_X))


def test_the_judge_lets_roundings_and_better_results_pass() -> None:
    rounded = np.array([1.000001, -2.0], np.float32)
    assert not differences(_outcome(rounded), _outcome(np.array([1.0, -2.0], np.float32)))
    cpu, better = np.array([0.9, -2.0], np.float32), np.array([1.0, -2.0], np.float32)
    assert differences(_outcome(better), _outcome(cpu))
    assert not differences(_outcome(better), _outcome(cpu), _outcome(np.array([1.0, -2.0])))


def test_the_judge_of_each_element_sees_small_ones() -> None:
    cpu, actual = np.array([1e6, 1e-3], np.float32), np.array([1e6, 2e-3], np.float32)
    assert not differences(_outcome(actual), _outcome(cpu))
    assert differences(_outcome(actual), _outcome(cpu), each=True)


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "bfloat16"])
def test_the_judge_knows_short_floats(name: str) -> None:
    x = np.array([1.0, np.nan, 0.5]).astype(np.dtype(getattr(ml_dtypes, name)))
    assert not differences(_outcome(x), _outcome(x))
    assert "2 of 3 differ" in differences(_outcome(x), _outcome(-x), each=True)


def test_an_element_may_be_as_any_of_the_frameworks_ways_has_it() -> None:
    cpu, other = _outcome(np.array([1.0, np.nan])), _outcome(np.array([np.inf, 2.0]))
    actual = _outcome(np.array([1.0, 2.0]))
    assert differences(actual, cpu)
    assert differences(actual, other)
    assert not differences(actual, cpu, others=[other])
    assert "1 of 2 differ" in differences(_outcome(np.array([3.0, 2.0])), cpu, others=[other])
    refused = Outcome(error="ValueError: no")
    assert not differences(refused, cpu, others=[refused])
    assert "accepts" in differences(actual, refused, others=[refused])
    assert "1 of 2 differ" in differences(actual, refused, others=[cpu])


def test_the_judge_of_bits_sees_the_sign_of_a_zero() -> None:
    zeros, kinds_of_nan = np.zeros(2, np.float32), np.array([-1.0, np.nan], np.float32)
    assert not differences(_outcome(zeros), _outcome(-zeros))
    assert "2 of 2 differ" in differences(_outcome(zeros), _outcome(-zeros), bits=True)
    assert differences(_outcome(zeros + 0j), _outcome(-(zeros + 0j)), bits=True)
    assert not differences(
        _outcome(kinds_of_nan), _outcome(np.copysign(kinds_of_nan, -zeros)), bits=True
    )


def test_an_error_on_one_side_alone_is_a_difference() -> None:
    refused = Outcome(error="InvalidArgumentError: no")
    assert "accepts what the CPU refuses" in differences(_outcome(_X), refused)
    assert not differences(Outcome(error="another"), refused)


def _end() -> Outcome:
    os.kill(os.getpid(), signal.SIGKILL)
    return Outcome()


def _refuse() -> Outcome:
    return Outcome(error="ValueError: no")


def _hang() -> Outcome:
    while True:
        signal.pause()


def test_calls_that_end_or_hang_are_found_and_others_run() -> None:
    right, two = (lambda: _outcome(1)), {"eager": lambda: _outcome(2)}
    calls = [
        Call("right", right, {"eager": right}),
        Call("ends", right, {"eager": _end}),
        Call("wrong", right, {"eager": right, "compiled": lambda: _outcome(2)}),
        Call("hangs", right, {"eager": _hang}),
        Call("ends on the CPU", _end, {"eager": right}),
        Call("as its peer", right, two, peers={"eager": [right, two["eager"]]}),
        Call("both end", _end, {"eager": _end}, shared=", shared"),
        Call("one way ends", right, {"eager": right, "compiled": _end}, shared=", shared"),
        Call("as its peer's", right, two, peers={"eager": [two["eager"]]}, shared=", shared"),
        Call("nobody's", _refuse, {"eager": _refuse}, must_run=True),
        Call("the CPU's", right, {"eager": right}, must_run=True),
        Call("as another's", right, two, peers={"eager": [right], "compiled": [two["eager"]]}),
    ]
    assert dict(findings(calls, seconds=1.0)) == {
        "ends [whole]": "ends the process with -9",
        "wrong [compiled]": "result 0: 1 of 1 differ: 2 instead of 1 at []",
        "hangs [whole]": "hangs for 1 s",
        "both end [eager, shared]": "ends the process with -9",
        "one way ends [compiled]": "ends the process with -9",
        "as its peer's [eager, shared]": "result 0: 1 of 1 differ: 2 instead of 1 at []",
        "nobody's [arguments]": "nobody takes these arguments: ValueError: no",
        "as another's [eager]": "result 0: 1 of 1 differ: 2 instead of 1 at []",
    }


def _take_all() -> Outcome:
    blocks = [np.ones(1 << 26, np.uint8) for _ in range(64)]
    return _outcome(len(blocks))


def _end_when_refused() -> Outcome:
    try:
        return _take_all()
    except MemoryError:
        os._exit(6)


def test_a_call_that_takes_all_memory_is_refused_it() -> None:
    right = lambda: _outcome(64)
    calls = [
        Call("takes all", right, {"eager": _take_all}),
        Call("ends then", right, {"eager": _end_when_refused}),
        Call("ends on the CPU", _end_when_refused, {"eager": right}),
        Call("right", right, {"eager": right}),
    ]
    found = dict(findings(calls, memory=2 << 30))
    assert found.pop("takes all [whole]").startswith("MemoryError")
    assert found == {"ends then [whole]": "ends the process with 6"}


def test_a_run_that_was_stopped_goes_on_behind_its_record(tmp_path: Path) -> None:
    right, record = (lambda: _outcome(1)), tmp_path / "a.jsonl"
    wrong = Call("wrong", right, {"eager": lambda: _outcome(2)})
    first = list(findings([wrong], record=record))
    assert [of for of, _ in first] == ["wrong [eager]"]
    record.write_text(record.read_text() + '["half')  # the run was stopped while it wrote
    again = Call("wrong", right, {"eager": right})  # is not tried again, but found in the record
    assert list(findings([again, Call("ends", right, {"eager": _end})], record=record)) == [
        *first,
        ("ends [whole]", "ends the process with -9"),
    ]
    assert len(list(findings([again, Call("ends", right, {"eager": right})], record=record))) == 2


def test_a_run_tries_its_part_of_the_calls_in_its_ways(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = lambda: _outcome(2)
    calls = [
        Call(f"call {n}", lambda: _outcome(1), {"eager": other, "compiled": other})
        for n in range(7)
    ]
    monkeypatch.setattr(of_scans, "calls_of", lambda name: calls)
    options = ["--only", "jax_sizes", "--every", "3", "--first", "1", "--way", "compiled"]
    monkeypatch.setattr(sys, "argv", ["scan", *options])
    assert of_scans.main() == 1
    *found, summary = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[1] for line in found] == ["call 1 [compiled]", "call 4 [compiled]"]
    assert summary.startswith("jax_sizes: 2 calls, 2 new differences, 0 known")


def test_the_list_of_known_differences_may_only_shrink(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text(
        '[[difference]]\nreason = "XLA"\ncalls = ["a: of [[1, 2]*", "a: gone *"]\n'
        '[[difference]]\nreason = "memory"\nnot_always = true\ncalls = ["a: chance *"]\n'
    )
    listed = known.read(file)
    tried = ["a: of [[1, 2] [eager]", "a: gone 1 [eager]", "a: chance 1 [eager]"]
    assert listed.reason(tried[0]) == "XLA"
    assert listed.reason("a: other [eager]") is None
    assert listed.gone(tried[:1], tried) == ["a: gone *"]
    assert listed.gone(tried[:1], tried[:1]) == []  # a part of the calls says nothing about others


def test_arguments_are_changed_one_at_a_time() -> None:
    x = arguments.normal(2, 3)
    others = dict(arguments.changed([x, 1, [4, 5], "SAME"]))
    assert others["0 empty along 1"][0].shape == (2, 0)
    assert others["0 of one rank more"][0].shape == (1, 2, 3)
    assert others["1 is -1"][1] == -1
    assert others["2 is longer"][2] == [4, 5, 5]
    assert not any(what.startswith("3") for what in others)
    np.testing.assert_array_equal(arguments.normal(2, 3), x)
