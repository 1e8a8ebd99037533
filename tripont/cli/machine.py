"""What the command line tells the compiler of the machine that it runs on: the compiler itself looks at nothing.

A client of the runtime tells the same of its process (core/runtime/client.cc).
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

from tripont import library_path

from .terminal import fail


def default_cpu() -> str:
    """The CPU to compile for if none is named: that of TRIPONT_CPU, else the one that runs this."""
    return os.environ.get("TRIPONT_CPU") or "host"


def target_options(target: str, device: str, cpu: str) -> dict[str, str]:
    """The options of a compilation for what the command line names. Ends the command if there is no such target."""
    from tripont.core.compiler import targets
    from tripont.core.compiler.ir.errors import CompileError

    try:
        chosen = targets.registration(target)
    except CompileError as error:
        fail(str(error))
    options = {"target": target, "cpu": cpu or default_cpu()}
    if device and chosen.device_option == "cpu" and cpu not in ("", device):
        fail(f"--device {device} and --cpu {cpu} name two CPUs")
    if device:
        options[chosen.device_option] = device
    return with_facts(options)


def with_facts(options: dict[str, str]) -> dict[str, str]:
    """Options of a compilation, with what is to be known of this machine if they are for it."""
    if options.get("cpu", "host") not in ("host", default_cpu()):
        return options
    facts = {"threads": str(threads())} | ({} if has_onednn() else {"onednn": "0"})
    return facts | options


def threads() -> int:
    """How many threads a client of this process would have: those of TRIPONT_NUM_THREADS, if the CPUs are not fewer."""
    count = len(os.sched_getaffinity(0))
    text = os.environ.get("TRIPONT_NUM_THREADS", "")
    return min(count, int(text)) if text.isascii() and text.isdecimal() and int(text) else count


def has_onednn() -> bool:
    """Whether the runtime will find oneDNN: where core/runtime/library/onednn_api.h says it looks."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    if chosen := os.environ.get("TRIPONT_ONEDNN_PATH"):
        path = Path(chosen)
        return (path / "libdnnl.so.3").exists() if path.is_dir() else path.exists()
    try:
        return (Path(library_path()).parent / "libdnnl.so.3").exists()
    except FileNotFoundError:
        return False
