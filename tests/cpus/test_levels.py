"""A short sample at each level of instructions that the machine has; a skip names what it lacks of the others."""

from __future__ import annotations

import pytest

from tests.cpus import levels


@pytest.mark.parametrize("level", levels.LEVELS)
def test_sample(level: str) -> None:
    if missing := levels.lacking(level):
        pytest.skip(f"{level}: this machine has no {', '.join(missing)}")
    done = levels.run(level, "tests.cpus.sample")
    assert done.returncode == 0, done.stdout + done.stderr
    assert level == "host" or f"as {level}" in done.stdout


CLIENT = "from tripont.core import _tripont as t; t.Client({'prestart_worker': False})"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pentium", "unknown CPU 'pentium'; known: host, x86-64-v2"),
        ("x86-64-v3+jetpack", "the feature 'jetpack' is not"),
        ("neoverse-n1" if levels.platform.machine() == "x86_64" else "x86-64-v3", "names a CPU of"),
    ],
)
def test_a_cpu_that_cannot_be(name: str, said: str) -> None:
    done = levels.run("host", "timeit", "-n", "1", "-r", "1", CLIENT, more={"TRIPONT_CPU": name})
    assert done.returncode != 0
    assert said in done.stderr


def test_instructions_that_the_machine_lacks_are_named() -> None:
    lacking = [f for f in ("amx-int8", "avx512bf16", "avxvnniint8") if f not in levels.features()]
    if not lacking:
        pytest.skip("this machine has all that a name can ask for")
    name = f"x86-64-v2+{lacking[0]}"
    done = levels.run("host", "timeit", "-n", "1", "-r", "1", CLIENT, more={"TRIPONT_CPU": name})
    assert f"TRIPONT_CPU={name}" in done.stderr
    assert f"lacks instructions of {name}: {lacking[0]}" in done.stderr


def test_a_process_has_one_cpu() -> None:
    code = f"{CLIENT}; t.Client({{'cpu': 'x86-64-v2'}})"
    done = levels.run("host", "timeit", "-n", "1", "-r", "1", code)
    assert "a process can use one CPU" in done.stderr
