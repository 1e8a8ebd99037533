"""A target whose modules LLVM compiles in parts, each from its text."""

from __future__ import annotations

from abc import abstractmethod

from ..image import Image
from ..target import Target


class TextTarget(Target):
    """What :mod:`.parts` and :mod:`.processes` ask of the host's target."""

    @abstractmethod
    def compile_text(self, text: str, quick: bool = False, *, dump: bool = False) -> Image:
        """The image of a module's text, by LLVM in this process. ``quick``: in a third of the time, for slower code."""

    @abstractmethod
    def optimised_ir(self, text: str) -> str:
        """The text after LLVM's passes, for dumps."""
