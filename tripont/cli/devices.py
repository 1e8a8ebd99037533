"""``tripont devices``: the devices and their memory."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from .client import bindings, make_client
from .inspect import size
from .terminal import make_console

# Of a SYCL device. USM: which kinds of unified shared memory it has.
COLUMNS = (
    "device",
    "kind",
    "backend",
    "driver",
    "memory",
    "units",
    "fp64",
    "fp16",
    "sub-groups",
    "USM",
)
USM_KINDS = ("device", "host", "shared", "system")


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
    print_sycl_devices(console)
    return 0


def print_sycl_devices(console: Console) -> None:
    """A table of all SYCL devices, or a line that says why there are none."""
    module = bindings()
    try:
        devices = module.sycl_devices(sys.executable)
    except module.StatusError as error:
        console.print(f"\nno SYCL devices: {error}", style="dim", soft_wrap=True)
        return
    table = Table(
        title="SYCL devices (TRIPONT_DEVICE=sycl, sycl:gpu, sycl:cpu)", title_justify="left"
    )
    for column in COLUMNS:
        table.add_column(column)
    for device in devices:
        table.add_row(
            device["name"],
            device["kind"],
            device["backend"],
            device["driver_version"],
            size(device["memory"]),
            str(device["compute_units"]),
            "yes" if device["fp64"] else "no",
            "yes" if device["fp16"] else "no",
            " ".join(str(n) for n in device["sub_group_sizes"]) or "none",
            " ".join(kind for kind in USM_KINDS if device[f"usm_{kind}"]) or "none",
        )
    console.print()
    console.print(table)
    if not devices:
        console.print(
            "the SYCL runtime has no device: is intel-opencl-rt, or the GPU's driver, installed?",
            style="dim",
        )
