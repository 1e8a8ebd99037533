"""``tripont devices``: the devices and their memory."""

from __future__ import annotations

from rich.table import Table

from .client import bindings, make_client
from .inspect import size
from .terminal import make_console


def run() -> int:
    module = bindings()
    client = make_client()
    table = Table()
    for column in ("id", "target", "device", "threads", "memory limit", "memory kinds"):
        table.add_column(column)
    for device in client.devices:
        limit = size(device.memory_stats()["bytes_limit"])
        kinds = ", ".join(device.memory_kinds)
        table.add_row(
            str(device.id),
            device.target,
            device.description,
            str(module.num_threads()),
            limit,
            kinds,
        )
    console = make_console()
    console.print(table)
    console.print(
        "TRIPONT_NUM_DEVICES=N gives N host devices; in JAX they are jax.devices('xpu')",
        style="dim",
    )
    return 0
