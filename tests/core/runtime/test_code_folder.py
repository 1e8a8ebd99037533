"""The folder in which compile workers keep the machine code of functions for other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tripont.core import _tripont

PROGRAM = """
module @{name} {{
  func.func public @main(%x: tensor<1000xf32>) -> (tensor<1000xf32>, tensor<f32>) {{
    %0 = stablehlo.exponential %x : tensor<1000xf32>
    %c = stablehlo.constant dense<{number}> : tensor<1000xf32>
    %1 = stablehlo.multiply %0, %c : tensor<1000xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<1000xf32>, tensor<f32>) -> tensor<f32>
    return %1, %2 : tensor<1000xf32>, tensor<f32>
  }}
}}
"""

# In a process of its own: it has a worker that has compiled nothing. The second program is there because a worker
# writes behind its response: the next one is answered when it has done so.
SCRIPT = """
import os, sys
from tripont.core import _tripont
os.environ["TRIPONT_CACHE_DIR"] = sys.argv[1]
client = _tripont.Client({"cache": sys.argv[2] == "1"})
program, other = open(sys.argv[3], "rb").read(), open(sys.argv[4], "rb").read()
artifact, from_cache = client.compile(program)
assert not from_cache
client.compile(other)
sys.stdout.buffer.write(artifact)
"""


class Processes:
    """Compiles in processes with the cache ``folder``."""

    def __init__(self, tmp_path: Path, name: bytes = b"cache") -> None:
        self.folder = tmp_path / os.fsdecode(name)
        self._texts = tmp_path

    def compile(self, name: str, number: float, cache: bool = True) -> bytes:
        paths = [self._texts / "program", self._texts / "other"]
        paths[0].write_text(PROGRAM.format(name=name, number=number))
        paths[1].write_text(
            f"module @after_{name} {{ func.func public @main(%x: tensor<f32>) -> tensor<f32> {{ "
            "return %x : tensor<f32> } }"
        )
        command = [sys.executable, "-c", SCRIPT, str(self.folder), str(int(cache))]
        done = subprocess.run([*command, *map(str, paths)], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def packs(self) -> list[Path]:
        return sorted(self.folder.glob("code/*.code"))


def functions(pack: Path) -> int:
    """How many a pack has."""
    return int.from_bytes(pack.read_bytes()[40:44], "little")


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


def test_another_process_compiles_what_is_new(processes: Processes) -> None:
    first = processes.compile("first", 2.0)
    packs = processes.packs()
    assert packs
    # Another program, of which the cache of programs knows nothing, with the same functions.
    assert processes.compile("second", 2.0) != first
    assert processes.packs() == packs
    # One function is another one.
    made = processes.compile("second", 3.0)
    (new,) = set(processes.packs()) - set(packs)
    assert functions(new) == 1 < sum(map(functions, packs))
    # What others have compiled is what this process would have.
    assert processes.compile("second", 3.0, cache=False) == made


def test_without_a_cache_nothing_is_kept(processes: Processes) -> None:
    processes.compile("first", 2.0, cache=False)
    assert not processes.folder.exists()


def test_clearing_the_cache_removes_machine_code_too(processes: Processes) -> None:
    processes.compile("first", 2.0)
    assert processes.packs()
    of_others = [processes.folder / "code" / name for name in ("main.c", "x.code")]
    for path in of_others:
        path.write_text("int main() {}")
    client = _tripont.Client({"cache_dir": str(processes.folder), "prestart_worker": False})
    assert client.clear_cache() == 2
    assert processes.packs() == [of_others[1]]
    assert of_others[0].exists()


def test_a_path_that_is_not_utf_8(tmp_path: Path) -> None:
    processes = Processes(tmp_path, b"h\xfcller")
    processes.compile("first", 2.0)
    assert processes.packs()


def test_damaged_machine_code_is_compiled_again(processes: Processes) -> None:
    made = processes.compile("first", 2.0)
    for pack in processes.packs():
        pack.write_bytes(pack.read_bytes()[:-1] + b"\0")
    for entry in processes.folder.glob("*.tripont"):
        entry.unlink()
    assert processes.compile("first", 2.0) == made
