"""What a user of a framework does with the wheel: install it, use the device, remove it.

``python cmake/check_install.py WHEEL FOLDER FRAMEWORK`` makes an environment of this Python in FOLDER, or takes the one
that is there, and in it

1. installs the framework as it is without tripont, and notes its files;
2. ``pip install 'WHEEL[extra]'``;
3. runs a program that knows nothing of tripont, with nothing but PATH and HOME in its environment (and PJRT_DEVICE for
   PyTorch/XLA, which never chooses a device by itself); ``pip check``; ``tripont doctor``;
4. ``pip uninstall tripont``: the framework's files are those of step 1, nothing of tripont is left, and the framework
   works as if it had never been there.

FRAMEWORK is a key of ``FRAMEWORKS``. `make test-wheel` runs this, so CI does. Exits with the first thing that is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Framework:
    """extra: in pyproject.toml. own: distributions that step 1 installs, with the extra's versions. files: what they
    put into site-packages. finding: in the doctor's report. use, without: programs with and without tripont, and the
    variables that both get."""

    extra: str
    own: tuple[str, ...]
    files: tuple[str, ...]
    finding: str
    use: str
    without: str
    variables: dict[str, str]


FRAMEWORKS = {
    "tensorflow": Framework(
        extra="tensorflow",
        own=("tensorflow-cpu",),
        files=("tensorflow", "tensorflow_cpu-*.dist-info"),
        finding="TensorFlow",
        use="""
import sys
import tensorflow as tf
assert [d.name for d in tf.config.list_physical_devices("XPU")] == ["/physical_device:XPU:0"]
with tf.device("XPU:0"):
    y = tf.function(lambda x: tf.reduce_sum(x * x), jit_compile=True)(tf.constant([1.0, 2.0, 3.0]))
assert y.device.endswith("/device:XPU:0") and y.numpy() == 14, y
assert "tripont" not in sys.modules
""",
        without="""
import tensorflow as tf
assert not tf.config.list_physical_devices("XPU")
assert tf.add([1.0], [2.0]).numpy() == [3]
""",
        variables={},
    ),
    "torch": Framework(
        extra="torch",
        own=("torch", "torch_xla"),
        files=("torch", "torch_xla", "_XLAC*", "torch-*.dist-info", "torch_xla-*.dist-info"),
        finding="PyTorch/XLA",
        use="""
import torch, torch_xla
from torch_xla.core import xla_model
x = torch.arange(4.0, device="xla", requires_grad=True)
(x * x).sum().backward()
assert x.grad.cpu().tolist() == [0, 2, 4, 6]
assert xla_model.xla_device_hw(torch_xla.device()) == "XPU"
assert "libtripont.so" in open("/proc/self/maps").read()
""",
        without="""
import torch, torch_xla
assert torch.ones(2).sum() == 2
try:
    torch_xla.device()
except (AssertionError, RuntimeError, ValueError) as error:  # its own entry wants XPU_LIBRARY_PATH
    assert "tripont" not in str(error)
else:
    raise AssertionError("PJRT_DEVICE=XPU has a device without tripont")
""",
        variables={"PJRT_DEVICE": "XPU"},
    ),
}


class Environment:
    """A virtual environment, and programs in it."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin" / "python"
        if not self.python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        (self.site,) = folder.glob("lib/python3*/site-packages")

    def pip(self, *arguments: str) -> None:
        command = [str(self.python), "-m", "pip", *arguments, "--disable-pip-version-check"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as home:
            environment = {"PATH": os.environ["PATH"], "HOME": home} | variables
            return subprocess.run(
                [str(self.python), *command],
                env=environment,
                cwd=home,
                capture_output=True,
                text=True,
                check=False,
            )

    def files(self, patterns: tuple[str, ...]) -> dict[str, str]:
        """The framework's files with a digest of each; not what Python compiles when it imports them, nor REQUESTED,
        with which pip marks what was asked for by name."""
        found: dict[str, str] = {}
        for top in (p for pattern in patterns for p in self.site.glob(pattern)):
            for path in [top, *top.rglob("*")]:
                if path.is_file() and path.suffix != ".pyc" and path.name != "REQUESTED":
                    with path.open("rb") as file:
                        digest = hashlib.file_digest(file, "blake2b").hexdigest()
                    found[str(path.relative_to(self.site))] = digest
        return found

    def leftovers(self) -> list[str]:
        """What stands in site-packages that only tripont puts there."""
        return [
            p.name
            for p in self.site.glob("t*")
            if p.name.startswith(("tripont", "tensorflow-plugins"))
        ]


def requirements(framework: Framework) -> list[str]:
    """What the extra asks of the framework's own distributions."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    wanted = [r for r in extras[framework.extra] if r.partition("==")[0] in framework.own]
    if len(wanted) != len(framework.own):
        raise SystemExit(f"the extra {framework.extra} asks for {wanted}, not for {framework.own}")
    return wanted


def expect(done: subprocess.CompletedProcess[str], what: str, silent: bool = False) -> str:
    said = done.stdout + done.stderr
    if done.returncode or (silent and "tripont" in said):
        raise SystemExit(f"{what} (exit status {done.returncode}):\n{said}")
    return done.stdout


def check(wheel: Path, folder: Path, framework: Framework) -> None:
    environment = Environment(folder)
    if "tripont" in environment.leftovers():  # of a run that failed
        environment.pip("uninstall", "--yes", "tripont")
    environment.pip("install", *requirements(framework))
    before = environment.files(framework.files)
    if not before:
        raise SystemExit(f"{framework.own} put none of {framework.files} into {environment.site}")

    environment.pip("install", f"{wheel}[{framework.extra}]")
    expect(environment.run("-m", "pip", "check"), "pip check")
    expect(environment.run("-c", framework.use, **framework.variables), "the device is not found")
    report = expect(environment.run("-m", "tripont", "doctor", "--json"), "tripont doctor")
    (finding,) = (f for f in json.loads(report) if f["name"] == framework.finding)
    if finding["status"] != "ok" or "XPU" not in finding["detail"]:
        raise SystemExit(f"tripont doctor: {finding}")
    print(f"{framework.finding} {finding['detail']}", flush=True)

    environment.pip("uninstall", "--yes", "tripont")
    if left := environment.leftovers():
        raise SystemExit(f"pip uninstall tripont leaves {left}")
    after = environment.files(framework.files)
    if after != before:
        changed = sorted(name for name in before | after if before.get(name) != after.get(name))
        raise SystemExit(f"after pip uninstall tripont these differ from before: {changed}")
    without = environment.run("-c", framework.without, **framework.variables)
    expect(without, f"{framework.finding} without tripont", silent=True)
    print(
        f"{framework.finding} after pip uninstall tripont: as before, {len(before)} files compared"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Install, use and uninstall the wheel.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("framework", choices=sorted(FRAMEWORKS))
    arguments = parser.parse_args()
    check(arguments.wheel.resolve(), arguments.folder.resolve(), FRAMEWORKS[arguments.framework])


if __name__ == "__main__":
    main()
