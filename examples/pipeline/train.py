"""One process of the pipeline: its chunks are programs of their own, and arrays go on to the next one by device_put.

main.py starts the processes. With one process all chunks are here, and nothing is handed on.
"""

from __future__ import annotations

import argparse
import json
import os
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from model import Chunk, Model, batches
from schedule import Action, chunks_of_process, in_order, schedule


class Pipeline:
    """The chunks of this process, and what has come from the others."""

    def __init__(
        self, model: Model, name: str, processes: int, microbatches: int, pace: float
    ) -> None:
        self.model, self.pace = model, pace
        self.process, self.several = jax.process_index(), jax.process_count() > 1
        actions = schedule(name, processes, microbatches)
        self.order = in_order(actions)
        self.microbatches = microbatches
        mine = range(self.process, model.chunks, processes) if self.several else range(model.chunks)
        self.chunks = {c: Chunk(model, c, microbatches) for c in mine}
        self.places = [
            NamedSharding(
                Mesh(np.array(jax.local_devices(process_index=p)[:1]), "x"), PartitionSpec()
            )
            for p in (range(processes) if self.several else [0] * processes)
        ]
        self.arrived: dict[tuple[bool, int, int], jax.Array] = {}
        self.timeline: list[tuple[bool, int, int, float, float]] = []

    def step(self, tokens: np.ndarray) -> float | None:
        """One step on [microbatches, sequences, length + 1] tokens; the loss, in the process of the last chunk."""
        losses: list[jax.Array] = []
        for process, action in self.order:
            result = None
            if action.chunk in self.chunks:
                result = self._compute(action, tokens)
            if action.forward and action.chunk == self.model.chunks - 1:
                losses += [result] if result is not None else []
            elif action.forward or action.chunk > 0:
                self._hand_on(process, action, result, tokens.shape[1])
        for chunk in self.chunks.values():
            chunk.step()
        return (
            float(np.mean([float(loss) for loss in losses], dtype=np.float64)) if losses else None
        )

    def _compute(self, action: Action, tokens: np.ndarray) -> jax.Array | None:
        chunk, number = self.chunks[action.chunk], action.microbatch
        arrived = self.arrived.pop((action.forward, action.chunk, number), None)
        if arrived is not None:
            arrived.block_until_ready()
        begin = time.time()
        if action.forward:
            x = jnp.asarray(tokens[number, :, :-1]) if action.chunk == 0 else arrived
            result = chunk.forward(number, x, jnp.asarray(tokens[number, :, 1:]))
        else:
            result = chunk.backward(number, arrived)
        jax.block_until_ready((result, chunk.gradients))
        if (left := begin + self.pace * (1 if action.forward else 2) - time.time()) > 0:
            time.sleep(left)
        self.timeline.append((action.forward, action.chunk, number, begin, time.time()))
        return result

    def _hand_on(
        self, process: int, action: Action, result: jax.Array | None, sequences: int
    ) -> None:
        """What an action gave goes to the process of the next one. JAX counts transfers, so every process takes part
        in each, in one order: for those that neither have nor get it, that is all.
        """
        after = action.chunk + (1 if action.forward else -1)
        if self.several:
            target = after % len(self.places)
            if result is None:
                result = jax.make_array_from_single_device_arrays(
                    self.model.activations(sequences), self.places[process], [], dtype=jnp.float32
                )
            else:
                result = jax.device_put(result, self.places[process])
            result = jax.device_put(result, self.places[target])
            if target != self.process:
                return
            (result,) = (shard.data for shard in result.addressable_shards)
        assert result is not None
        self.arrived[action.forward, after, action.microbatch] = result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--sequences", type=int, default=4)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--pace", type=float, default=0)
    parser.add_argument("--process", type=int)
    parser.add_argument("--coordinator")
    arguments = parser.parse_args()
    if arguments.coordinator:
        jax.distributed.initialize(arguments.coordinator, arguments.stages, arguments.process)
    model = Model(arguments.stages * chunks_of_process(arguments.schedule))
    pipeline = Pipeline(
        model, arguments.schedule, arguments.stages, arguments.microbatches, arguments.pace
    )
    losses = []
    for number in range(arguments.steps):
        pipeline.timeline.clear()
        losses.append(
            pipeline.step(batches(model, arguments.microbatches, arguments.sequences, number))
        )
    print(json.dumps({"losses": losses, "timeline": pipeline.timeline}), flush=True)
    if arguments.coordinator:  # all have said so: process 0 ends the others with its coordinator
        jax.distributed.shutdown()
        os._exit(0)


if __name__ == "__main__":
    main()
