"""Readers of programs: StableHLO (text, bytecode, portable artifact) and HloModuleProto become an HLO module.

:func:`read_program` is the whole interface. ``program`` knows the formats, ``stablehlo`` walks functions and blocks,
the ``ops_*`` modules hold one small reader an operation, in tables; ``bindings`` alone knows jaxlib's modules.
"""

from .program import read_program, warm_up

__all__ = ["read_program", "warm_up"]
