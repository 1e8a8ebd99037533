"""How the commands talk: one console, and errors that end the command."""

from __future__ import annotations

import sys
from typing import NoReturn

from rich.console import Console
from rich.markup import escape

# Of output that goes to a file or a pipe, where there is no window to fit into.
PIPE_WIDTH = 120


def make_console() -> Console:
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def fail(message: str) -> NoReturn:
    """Print an error and end the command with exit code 1."""
    Console(stderr=True).print(f"[red]error:[/] {escape(message)}", soft_wrap=True, highlight=False)
    sys.exit(1)
