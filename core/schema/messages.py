"""What the runtime and a compile worker say to each other: the numbers that messages begin with.

The fields of each message stand in ``core/compiler/worker.py``.
"""

from __future__ import annotations

import enum
from typing import Final

PROTOCOL_VERSION: Final = 4
# The message of a response whose machine code was there already.
REUSED: Final = "reused"


class Message(enum.IntEnum):
    """The first u32 of a message: four letters, such as TPHI."""

    HELLO = 0x49485054
    REQUEST = 0x51525054
    ACCEPTED = 0x41525054
    RESPONSE = 0x53525054
    QUESTION = 0x55515054
    ANSWER = 0x4E415054
