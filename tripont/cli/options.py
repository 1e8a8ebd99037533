"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

# What a program file is compiled for.
Target = Annotated[
    str, typer.Option(help="Kind of device to compile for: host, sycl, or that of another package.")
]
Device = Annotated[
    str,
    typer.Option(
        help="Which device of the target to compile for, without which it is a common one. "
        "host: a CPU, as --cpu. sycl: cpu or gpu, and what it has of fp16, fp64, sub-groups: gpu,fp64."
    ),
]
Cpu = Annotated[
    str,
    typer.Option(
        help="CPU that library calls run on, on every target: host (this one), or a name such as "
        "x86-64-v3."
    ),
]

__all__ = ["Cpu", "Device", "Target"]
