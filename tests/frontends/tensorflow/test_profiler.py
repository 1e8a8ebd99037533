"""tf.profiler on XPU: TF_InitProfiler puts our devices' plane into TensorFlow's XSpace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

PLANE = "/device:CUSTOM:XPU:0"


def profile(folder: Path, run: Callable[[], Any]) -> Any:
    tf.profiler.experimental.start(str(folder))
    run()
    tf.profiler.experimental.stop()
    return read(folder)


def read(folder: Path) -> Any:
    (file,) = folder.glob("plugins/profile/*/*.xplane.pb")
    return xplane_pb2.XSpace.FromString(file.read_bytes())


def events(space: Any, line: str, plane: str = PLANE) -> list[tuple[str, dict[str, Any]]]:
    """Name and stats of each event."""
    (found,) = [p for p in space.planes if p.name == plane]
    result = []
    for event in (e for one in found.lines if one.name == line for e in one.events):
        stats = {}
        for stat in event.stats:
            value = getattr(stat, stat.WhichOneof("value"))
            if stat.WhichOneof("value") == "ref_value":
                value = found.stat_metadata[value].name
            stats[found.stat_metadata[stat.metadata_id].name] = value
        result.append((found.event_metadata[event.metadata_id].name, stats))
    return result


def test_functions_and_their_instructions(tmp_path: Path) -> None:
    @tf.function(jit_compile=True)
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.tanh(x @ x), 0)

    with tf.device("XPU:0"):
        x = tf.constant(np.ones((64, 64), np.float32))
        step(x)

        def run() -> None:
            for _ in range(2):
                step(x).numpy()

        space = profile(tmp_path, run)
    modules = [name for name, _ in events(space, "XLA Modules")]
    (cluster,) = {name for name in modules if "step" in name}
    assert modules.count(cluster) == 2
    ops = [stats for _, stats in events(space, "XLA Ops") if stats["hlo_module"] == cluster]
    assert sum(stats.get("flops", 0) for stats in ops) >= 2 * 2 * 64**3
    # Where the CPU's products are packed at this size, the product's kernel computes tanh and is named after it.
    assert {stats["tf_op"] for stats in ops} in ({"matmul", "Sum"}, {"Tanh", "Sum"})


def test_transfers_are_nested_in_what_tensorflow_records(tmp_path: Path) -> None:
    value = np.ones(1000, np.float32)

    def run() -> None:
        with tf.device("XPU:0"):
            (tf.constant(value) + 1).numpy()

    space = profile(tmp_path, run)
    (host,) = [p for p in space.planes if p.name == "/host:CPU"]
    names = {m.id: m.name for m in host.event_metadata.values()}
    lines = [{names[e.metadata_id] for e in line.events} for line in host.lines]
    # On a line of TensorFlow's own, not on one of ours.
    assert any({"Tripont::HostToDevice", "EagerKernelExecute"} <= line for line in lines), lines


def test_training_of_keras(tmp_path: Path) -> None:
    """Keras' TensorBoard callback profiles a batch by starting and stopping as this one does."""

    class Profile(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == 2:
                tf.profiler.experimental.start(str(tmp_path))

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 2:
                tf.profiler.experimental.stop()

    with tf.device("XPU:0"):
        model = keras.Sequential([keras.layers.Dense(16, "relu"), keras.layers.Dense(1)])
        model.compile("adam", "mse", jit_compile=True)
        x, y = np.ones((64, 8), np.float32), np.ones((64, 1), np.float32)
        model.fit(x, y, batch_size=16, verbose=0, callbacks=[Profile()])
    space = read(tmp_path)
    modules = [name for name, _ in events(space, "XLA Modules")]
    assert any("one_step" in name for name in modules), modules
    assert events(space, "XLA Ops")


def test_a_profile_without_our_work(tmp_path: Path) -> None:
    with tf.device("CPU:0"):
        x = tf.ones(4)
        space = profile(tmp_path, lambda: (x + 1).numpy())
    assert not [p.name for p in space.planes if p.name.startswith("/device:CUSTOM")]
