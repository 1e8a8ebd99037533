"""The costs of SYCL devices: those of the host, but for launches. Nobody has measured the others on a device."""

from __future__ import annotations

from dataclasses import replace

from ..costs import JUDGEMENT, Costs


def costs_of(kind: str, host: Costs) -> Costs:
    """The costs of a device of a ``kind`` beside a host of these costs."""
    # Neighbouring kernels share a launch, which takes microseconds: on a CPU longer ones than on a GPU.
    merged = 8_000.0 if kind == "cpu" else 1_000.0
    # The host reads the index of a view: it would wait for the queue.
    thunks = replace(host.thunks, merged=merged, smallest_view=1 << 62)
    # So much does a launch take. Work items of a GPU have no stack for planes.
    fusion = replace(host.fusion, own_loop=20_000.0, chained=0)
    # What library calls cost and which are made depends on oneDNN's kernels for the device, not on the host's features.
    products = replace(host.products, library_types=frozenset())
    convolutions = replace(host.convolutions, generates_bf16=False, generates_gradients=True)
    # A work item finds the place of its element in a transpose, too.
    transposes = replace(host.transposes, least=1 << 62)
    loops = replace(host.loops, slow_masks=False)  # the way around them is in instructions of x86
    memory = replace(host.memory, places=0)  # work items of a GPU have no stack to speak of
    measured = dict.fromkeys((name.partition(".")[0] for name in host.measured), JUDGEMENT)
    return replace(
        host,
        thunks=thunks,
        fusion=fusion,
        products=products,
        convolutions=convolutions,
        loops=loops,
        memory=memory,
        transposes=transposes,
        measured=measured,
    )
