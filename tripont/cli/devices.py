"""``tripont devices``: the devices and their memory."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
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
    for backend in module.backends():
        if backend["lists_devices"]:
            print_devices_of(backend, console)
    return 0


def print_devices_of(backend: dict[str, Any], console: Console) -> None:
    """A table of all devices of a backend, or a line that says why there are none."""
    module = bindings()
    name, title = backend["name"], backend["title"]
    try:
        devices = module.list_devices(name, sys.executable)
    except module.StatusError as error:
        console.print(f"\nno {title} devices: {error}", style="dim", soft_wrap=True)
        return
    values = [name, *(f"{name}:{choice}" for choice in backend["choices"])]
    used = {value: _chosen(name, value, devices) for value in values}
    table = Table(title=f"{title} devices (TRIPONT_DEVICE={', '.join(values)})")
    table.title_justify = "left"
    facts = [f for f in dict.fromkeys(f for _, known in devices for f in known) if f != "vendor"]
    for fact in facts:
        table.add_column("device" if fact == "name" else fact)
    table.add_column("TRIPONT_DEVICE")
    for number, (_, known) in enumerate(devices):
        meant = ", ".join(value for value in values if number in used[value])
        table.add_row(*(_text(fact, known.get(fact)) for fact in facts), meant)
    console.print()
    console.print(table)
    if not devices:
        console.print(
            f"the {title} runtime has no device: are the devices' drivers installed? "
            f"({backend['install']})",
            style="dim",
        )


def _chosen(backend: str, value: str, devices: list[Any]) -> list[int]:
    """The numbers of the devices that a value of TRIPONT_DEVICE means."""
    module = bindings()
    try:
        return list(module.choose_devices(backend, value.partition(":")[2], devices))
    except module.StatusError:
        return []


def _text(fact: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if fact == "memory" and isinstance(value, int):
        return size(value)
    return "none" if value in ("", None) else str(value)
