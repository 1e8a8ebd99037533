"""A target whose modules LLVM compiles in parts, each from its text."""

from __future__ import annotations

from abc import abstractmethod

from ..image import Image
from ..target import Target
from .linker import Object, link


class TextTarget(Target):
    """What :mod:`.parts` and :mod:`.processes` ask of the host's target."""

    @property
    @abstractmethod
    def machine(self) -> int:
        """The machine's number in ELF."""

    @abstractmethod
    def compile_object(self, text: str, quick: bool = False, *, dump: bool = False) -> Object:
        """The code of a module's text, by LLVM in this process. ``quick``: in a third of the time, for slower code."""

    def compile_text(self, text: str) -> Image:
        """The image of a module's text."""
        made = self.compile_object(text)
        return link(made.functions, self.machine)

    @abstractmethod
    def optimised_ir(self, text: str) -> str:
        """The text after LLVM's passes, for dumps."""
