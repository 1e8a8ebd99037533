"""TRIPONT_JAX_KNOWN_AS: what packages are told that list the platforms they know."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from tripont.frontends.jax import known_as

from tests.starter import run_with_jax

# What MJX, Brax and others ask, from modules of these names.
ASK = """
import json, types, jax, jax.numpy as jnp
SOURCE = '''
import jax
def ask():
    backend = jax.extend.backend.get_backend()
    return [jax.default_backend(), jax.devices()[0].platform, backend.platform, jax.devices("cpu")[0].platform]
first = jax.default_backend()  # before any device was asked for, in the first of them
'''
import jax.extend.backend
answers = {}
for name in ("mujoco.mjx._src.io", "brax.io", "jaxley", "__main__"):
    module = types.ModuleType(name)
    exec(SOURCE, module.__dict__)
    answers[name.partition(".")[0]] = [module.first, *module.ask()]
answers["computed"] = float(jax.jit(lambda x: jnp.linalg.inv(jnp.eye(3) * x).sum())(2.0))
answers["repr"] = repr(jax.devices()[0]).split("(")[0]
print(json.dumps(answers))
"""
OWN = ["xpu", "xpu", "xpu", "xpu", "cpu"]


def answers(environment: dict[str, str], names: str) -> tuple[dict[str, Any], str]:
    done = run_with_jax(ASK, environment | {"TRIPONT_JAX_KNOWN_AS": names}, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ("", {}),
        ("mujoco=cpu, brax=gpu", {"mujoco": "cpu", "brax": "gpu"}),
        ("cpu", dict.fromkeys(("mujoco", "brax", "jaxley", "__main__"), "cpu")),
        ("cpu,jaxley=tpu", {"mujoco": "cpu", "brax": "cpu", "jaxley": "tpu", "__main__": "cpu"}),
    ],
)
def test_who_is_told_what(
    subprocess_environment: dict[str, str], names: str, told: dict[str, str]
) -> None:
    found, errors = answers(subprocess_environment, names)
    for package in ("mujoco", "brax", "jaxley", "__main__"):
        expected = [told[package]] * 4 + ["cpu"] if package in told else OWN
        assert found[package] == expected, package
    assert found["computed"] == 1.5  # JAX itself compiles for xpu
    assert found["repr"] == "XpuDevice"
    assert errors == ""


@pytest.mark.parametrize("names", ["mujoco=", "=cpu", "mujoco:cpu", "CPU!", "jax=cpu"])
def test_what_cannot_be_read(names: str) -> None:
    with pytest.raises(ValueError, match=f"^TRIPONT_JAX_KNOWN_AS={re.escape(names)}: "):
        known_as.parse(names)


def test_what_cannot_be_read_is_one_warning(subprocess_environment: dict[str, str]) -> None:
    found, errors = answers(subprocess_environment, "jax=cpu")
    assert found["mujoco"] == OWN
    (line,) = [line for line in errors.splitlines() if line.strip()]
    assert "TRIPONT_JAX_KNOWN_AS" in line


def test_names() -> None:
    names = known_as.parse(" mujoco=cpu,tpu ,")
    assert names == {"mujoco": "cpu", "": "tpu"}

    def told(module: str | None) -> str:
        caller: Any = SimpleNamespace(f_globals={"__name__": module} if module else {})
        return known_as.name_for(names, caller)

    assert (told("mujoco.mjx"), told("mujocoo"), told(None)) == ("cpu", "tpu", "tpu")
    assert {told(f"{package}._src.x") for package in ("jax", "jaxlib", "tripont")} == {"xpu"}
