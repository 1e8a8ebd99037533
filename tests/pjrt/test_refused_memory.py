"""Memory and threads that are refused to programs and transfers: each allocation of the thread that calls or of the
others, or all from one on, and threads behind the first few.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tripont.core.compiler.compile import compile_module
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.importer.program import read_program

from tests.core.runtime import programs
from tests.core.runtime.test_deferred_results import in_other_order
from tests.fuzzers import c_api
from tests.pjrt.protos import compile_options

# NAME -> the parameters' dimensions, and the program. The first runs on the caller's thread; those of large arrays are
# given to the device's stream and to several threads.
LARGE = (512, 1536)
ARRAY = "tensor<512x1536xf32>"
PROGRAMS: dict[str, tuple[list[tuple[int, ...]], str]] = {
    "small": (
        [(64,), (64,)],
        """func.func @main(%x: tensor<64xf32> {tf.aliasing_output = 0 : i32},
                           %y: tensor<64xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<64xf32>, tensor<64xf32>) {
             %a = stablehlo.add %x, %y : tensor<64xf32>
             %b = stablehlo.multiply %y, %y : tensor<64xf32>
             return %a, %b : tensor<64xf32>, tensor<64xf32>
           }""",
    ),
    "large": (
        [LARGE, LARGE],
        f"""func.func @main(%x: {ARRAY} {{tf.aliasing_output = 0 : i32}},
                            %y: {ARRAY} {{tf.aliasing_output = 1 : i32}})
                -> ({ARRAY}, {ARRAY}, tensor<1536x512xf32>, tensor<f32>) {{
             %a = stablehlo.add %x, %y : {ARRAY}
             %b = stablehlo.maximum %x, %y : {ARRAY}
             %c = stablehlo.cosine %a : {ARRAY}
             %d = stablehlo.sine %c : {ARRAY}
             %e = stablehlo.minimum %d, %b : {ARRAY}
             %f = stablehlo.subtract %a, %e : {ARRAY}
             %t = stablehlo.transpose %f, dims = [1, 0] : ({ARRAY}) -> tensor<1536x512xf32>
             %zero = stablehlo.constant dense<0.0> : tensor<f32>
             %s = stablehlo.reduce(%e init: %zero) applies stablehlo.maximum across dimensions = [0, 1]
                 : ({ARRAY}, tensor<f32>) -> tensor<f32>
             return %f, %e, %t, %s : {ARRAY}, {ARRAY}, tensor<1536x512xf32>, tensor<f32>
           }}""",
    ),
    "one": (
        [LARGE, LARGE],
        f"""func.func @main(%x: {ARRAY}, %y: {ARRAY}) -> {ARRAY} {{
             %a = stablehlo.cosine %x : {ARRAY}
             %b = stablehlo.sine %a : {ARRAY}
             %c = stablehlo.exponential %b : {ARRAY}
             %d = stablehlo.add %c, %y : {ARRAY}
             return %d : {ARRAY}
           }}""",
    ),
    # Two replicas.
    "collectives": (
        [LARGE],
        f"""module attributes {{mhlo.num_replicas = 2 : i32}} {{
             func.func @main(%x: {ARRAY}) -> ({ARRAY}, {ARRAY}) {{
               %a = stablehlo.cosine %x : {ARRAY}
               %s = "stablehlo.all_reduce"(%a) <{{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}> ({{
                 ^bb0(%p: tensor<f32>, %q: tensor<f32>):
                   %r = stablehlo.add %p, %q : tensor<f32>
                   stablehlo.return %r : tensor<f32>
               }}) : ({ARRAY}) -> {ARRAY}
               %b = stablehlo.sine %s : {ARRAY}
               %t = "stablehlo.collective_permute"(%b) <{{
                 source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>
               }}> : ({ARRAY}) -> {ARRAY}
               return %s, %t : {ARRAY}, {ARRAY}
             }}
           }}""",
    ),
    # Calls of libraries, in a loop whose end depends on values.
    "library": (
        [(256, 256)],
        """func.func @main(%x: tensor<256x256xf32>) -> (tensor<256x256xf32>, tensor<256xi32>, tensor<256x256xf32>) {
             %zero = stablehlo.constant dense<0.0> : tensor<f32>
             %one = stablehlo.constant dense<1.0> : tensor<f32>
             %end = stablehlo.constant dense<3.0> : tensor<f32>
             %r:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<f32>, tensor<256x256xf32>
             cond {
               %p = stablehlo.compare LT, %i, %end : (tensor<f32>, tensor<f32>) -> tensor<i1>
               stablehlo.return %p : tensor<i1>
             } do {
               %n = stablehlo.add %i, %one : tensor<f32>
               %m = stablehlo.dot_general %s, %x, contracting_dims = [1] x [0]
                   : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
               %t = stablehlo.tanh %m : tensor<256x256xf32>
               stablehlo.return %n, %t : tensor<f32>, tensor<256x256xf32>
             }
             %row = stablehlo.slice %r#1 [0:1, 0:256] : (tensor<256x256xf32>) -> tensor<1x256xf32>
             %keys = stablehlo.reshape %row : (tensor<1x256xf32>) -> tensor<256xf32>
             %iota = stablehlo.iota dim = 0 : tensor<256xi32>
             %sorted:2 = "stablehlo.sort"(%keys, %iota) ({
               ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
                 %lt = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
                 stablehlo.return %lt : tensor<i1>
             }) {dimension = 0 : i64, is_stable = true}
                 : (tensor<256xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xi32>)
             %xt = stablehlo.transpose %x, dims = [1, 0] : (tensor<256x256xf32>) -> tensor<256x256xf32>
             %xx = stablehlo.dot_general %x, %xt, contracting_dims = [1] x [0]
                 : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
             %rows = stablehlo.iota dim = 0 : tensor<256x256xi32>
             %columns = stablehlo.iota dim = 1 : tensor<256x256xi32>
             %on = stablehlo.compare EQ, %rows, %columns : (tensor<256x256xi32>, tensor<256x256xi32>)
                 -> tensor<256x256xi1>
             %diagonal = stablehlo.constant dense<10000.0> : tensor<256x256xf32>
             %none = stablehlo.constant dense<0.0> : tensor<256x256xf32>
             %added = stablehlo.select %on, %diagonal, %none : tensor<256x256xi1>, tensor<256x256xf32>
             %positive = stablehlo.add %xx, %added : tensor<256x256xf32>
             %factor = stablehlo.cholesky %positive, lower = true : tensor<256x256xf32>
             return %r#1, %sorted#1, %factor : tensor<256x256xf32>, tensor<256xi32>, tensor<256x256xf32>
           }""",
    ),
}


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    if not shutil.which("c++"):
        pytest.skip("no C++ compiler on this machine")
    folder = tmp_path_factory.mktemp("refused_memory")
    source = Path(__file__).with_name("refused_memory.cc")
    # Its result is computed when it is read, and it is given to the device's stream.
    made = {"deferred": ([(2, 3, 4)], programs.serialize(in_other_order(1e9)))}
    for name, (parameters, text) in PROGRAMS.items():
        executable = compile_module(read_program(text.encode(), "mlir"), {"target": "host"})
        made[name] = parameters, artifact.serialize(executable)
    lines = []
    for name, (parameters, content) in made.items():
        (folder / f"{name}.tripont").write_bytes(content)
        lines.append(f"{name} {' / '.join(' '.join(map(str, dims)) for dims in parameters)}\n")
    (folder / "collectives.options").write_bytes(compile_options([[0], [1]]))
    (folder / "programs.txt").write_text("".join(lines))
    binary, library, _ = c_api.command(source, folder)
    return [binary, library, str(folder)]


WORK = [
    "donated:small",
    "once:large",
    "donated:large",
    "once:library",
    "once:deferred",
    "chain:large",
    "donated-chain:large",
    "transfers:one",
    "both:collectives",
]
CASES = [(work, how) for work in [*WORK, "load:large", "fresh:one"] for how in ("one", "all")]
# Other threads allocate where devices meet, and in libraries.
CASES += [
    (work, how)
    for work in ("both:collectives", "once:library", "chain:large", "transfers:one")
    for how in ("others-one", "others-all")
]


def _run(command: list[str], work: str, how: str) -> None:
    done = subprocess.run(
        [*command, work, how], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("work", "how"), CASES)
def test_refused_memory(command: list[str], work: str, how: str) -> None:
    _run(command, work, how)


@pytest.mark.parametrize(
    "work", ["once:library", "chain:large", "transfers:one", "both:collectives"]
)
def test_refused_threads(command: list[str], work: str) -> None:
    """Programs that meet other devices are errors where a device has no thread: they would wait for ever."""
    _run(command, work, "threads")
