"""The device is found by `import jax` alone, and what goes wrong there never breaks JAX."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import jax
import pytest
from tripont.frontends.jax import PLATFORM, compat, register


def run_python(
    code: str, environment: dict[str, str], timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def test_xpu_is_the_default(subprocess_environment: dict[str, str]) -> None:
    code = "import jax; print(jax.default_backend(), jax.devices()[0].platform, (jax.numpy.arange(3) * 2).tolist())"
    result = run_python(code, subprocess_environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "xpu xpu [0, 2, 4]"
    assert result.stderr.strip() == "", "nothing is printed that the user did not ask for"


def test_jax_platforms_cpu_leaves_it_out(subprocess_environment: dict[str, str]) -> None:
    code = "import jax, sys; print(jax.devices()[0].platform); print('libtripont' in open('/proc/self/maps').read())"
    result = run_python(code, subprocess_environment | {"JAX_PLATFORMS": "cpu"})
    assert result.stdout.split() == ["cpu", "False"], result.stderr


def test_jax_platforms_xpu(subprocess_environment: dict[str, str]) -> None:
    result = run_python(
        "import jax; print(jax.devices())", subprocess_environment | {"JAX_PLATFORMS": "xpu,cpu"}
    )
    assert "XpuDevice" in result.stdout, result.stderr


def test_a_missing_library_is_one_warning(subprocess_environment: dict[str, str]) -> None:
    code = (
        "import tripont\n"
        "def missing(): raise FileNotFoundError('libtripont.so is missing: run `make dev`')\n"
        "tripont.library_path = missing\n"
        "import jax; print(jax.devices()[0].platform)"
    )
    result = run_python(code, subprocess_environment)
    assert result.stdout.strip() == "cpu", result.stderr
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, result.stderr
    assert "make dev" in lines[0]
    assert "tripont doctor" in lines[0]


def test_a_device_that_does_not_start_is_one_warning(
    subprocess_environment: dict[str, str],
) -> None:
    code = "import jax; print(jax.devices()[0].platform)"
    result = run_python(code, subprocess_environment | {"TRIPONT_NUM_DEVICES": "many"})
    assert result.stdout.strip() == "cpu", result.stderr
    warnings = [line for line in result.stderr.splitlines() if "RuntimeWarning" in line]
    assert len(warnings) == 1, result.stderr
    assert "TRIPONT_NUM_DEVICES" in warnings[0]


def test_a_device_asked_for_by_name_fails_loudly(subprocess_environment: dict[str, str]) -> None:
    environment = subprocess_environment | {"TRIPONT_NUM_DEVICES": "many", "JAX_PLATFORMS": "xpu"}
    result = run_python("import jax; jax.devices()", environment)
    assert result.returncode != 0
    assert "TRIPONT_NUM_DEVICES" in result.stderr


def test_donation_and_persistent_cache_are_registered(xpu: Any) -> None:
    from jax._src import compilation_cache
    from jax._src.interpreters import mlir

    assert PLATFORM in mlir._platforms_with_donation
    assert compilation_cache.is_cache_used.tripont_platform == PLATFORM


def test_registering_twice_changes_nothing(xpu: Any) -> None:
    from jax._src import compilation_cache

    before = compilation_cache.is_cache_used
    compat.enable_persistent_cache(PLATFORM)
    compat.enable_donation(PLATFORM)
    assert compilation_cache.is_cache_used is before


def test_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIPONT_PYTHON", raising=False)
    options = register.plugin_options()
    assert options["python"] == sys.executable
    assert options["compiler_fingerprint"] == register.plugin_options()["compiler_fingerprint"]
    monkeypatch.setenv("TRIPONT_PYTHON", "/usr/bin/python3")
    assert "python" not in register.plugin_options()


def test_an_old_jax_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "jax_version", lambda: (0, 9, 0))
    monkeypatch.setattr(compat, "selected_platforms", list)
    with pytest.raises(RuntimeError, match=r"pip install -U 'jax>=0\.10\.2'"):
        register.register()


def test_a_step_that_jax_no_longer_allows_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(platform: str) -> None:
        raise AttributeError("no such name")

    monkeypatch.setattr(compat, "register_plugin", lambda *arguments: None)
    monkeypatch.setattr(compat, "enable_donation", broken)
    monkeypatch.setattr(compat, "selected_platforms", list)
    with pytest.warns(RuntimeWarning, match="donation could not be set up"):
        register.register()


CACHED = """
import jax, jax.numpy as jnp, numpy as np
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
result = jax.jit(lambda x: jnp.tanh(x) @ x)(np.eye(5, dtype=np.float32))
assert result.devices() == set(jax.devices("xpu")[:1])
np.testing.assert_allclose(np.asarray(result), np.tanh(np.eye(5)), rtol=1e-6)
print("hits", events.count("/jax/compilation_cache/cache_hits"))
"""


def test_jax_persistent_cache_is_on(subprocess_environment: dict[str, str], tmp_path: Any) -> None:
    """The second process finds the executable in JAX's own cache. Ours is off, so that it cannot help."""
    environment = subprocess_environment | {
        "TRIPONT_CACHE": "0",
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    first = run_python(CACHED, environment)
    assert first.stdout.strip() == "hits 0", first.stderr
    assert list(os.scandir(tmp_path / "jax"))
    second = run_python(CACHED, environment)
    assert second.returncode == 0, second.stderr
    assert int(second.stdout.split()[1]) >= 1


def test_jax_version_is_one_that_is_supported() -> None:
    assert compat.jax_version() >= compat.OLDEST
    assert jax.__version__
