"""Arguments of raw ops whose definitions do not say enough of them, and the ops that this scan leaves out."""

from __future__ import annotations

from typing import Final

from tests.scan import raw_op_arrays, raw_op_images, raw_op_states
from tests.scan.raw_op_row import Row

ROWS: Final[dict[str, list[Row]]] = {
    **raw_op_arrays.ROWS,
    **raw_op_images.ROWS,
    **raw_op_states.ROWS,
}

_CALLS_FUNCTIONS: Final = (
    *("Case", "If", "PartitionedCall", "StatefulPartitionedCall", "StatelessCase", "StatelessIf"),
    *("StatelessWhile", "SymbolicGradient", "While"),
)
LEFT_OUT: Final[dict[str, str]] = {
    **dict.fromkeys(_CALLS_FUNCTIONS, "it calls functions, which tensorflow_loops has"),
    "CollectiveAssignGroupV2": "it waits for other devices",
    "CollectiveReduceV2": "it waits for other devices",
    "DeviceIndex": "it says which device it is on",
    "FakeParam": "nobody may read its result",
}
