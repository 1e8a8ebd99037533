"""A module is compiled in parts: a large one by several processes, while the rest of it is still being written.

A part is some functions that were written one after another, and what they use. It ends behind one function of some
EVERY, whose own text decides, and at the latest when it is long enough. So the parts, and with them the code, depend on
the module alone, and programs that have functions in common have parts in common, which a process compiles once
(:mod:`..code_cache`). How many processes compile them depends on the machine and does not matter.
"""

from __future__ import annotations

import itertools
import re
import zlib
from typing import TYPE_CHECKING, Final

from ...codegen import effort, llvm_ir
from .. import code_cache
from ..image import Image
from ..target import Compilation
from .linker import concatenate
from .processes import Processes

if TYPE_CHECKING:
    from .text_target import TextTarget

# Characters of IR of the longest part, about a third of a second of LLVM; other processes help with longer modules.
PART = 1 << 18
# A part adds a millisecond or two, as much as half a function of average length.
EVERY = 8
# The same of one that is compiled quickly: each has all the functions that it calls.
QUICK_PART = 1 << 20
# A label that LLVM makes: of a block (.LBB3_1), constants (.LCPI3_0), a jump table, the end of a function. The number
# is that of the function in its module.
_LOCAL_LABEL: Final = re.compile(r"(\.L[A-Za-z_]+)(\d+)")


class Parts(Compilation):
    """The compilation of one module by ``target``; with ``dump``, images have optimised IR and assembly.

    ``cached``: code may come from :mod:`..code_cache`, and goes there.
    """

    def __init__(self, target: TextTarget, dump: bool, cached: bool) -> None:
        super().__init__(target, dump)
        self._host = target
        self._cached = cached
        self._seen = 0  # functions of the module that are in parts, or in these:
        self._pending: tuple[list[str], list[str]] = ([], [])  # names of careful and quick ones
        self._sizes = [0, 0]  # and the lengths of their texts
        # Parts that nobody has begun with, and whether they are quick.
        self._waiting: list[tuple[list[str], bool]] = []
        self._written = 0  # length of all texts seen
        self._keys: list[bytes] = []  # of the parts, in order
        self._images: dict[int, Image] = {}  # by number of the part
        # Parts without code yet, by number.
        self._missing: dict[int, tuple[str, bool]] = {}
        self._processes: Processes | None = None

    def written(self, module: llvm_ir.Module) -> None:
        for function in itertools.islice(module.functions.values(), self._seen, None):
            self._seen += 1
            if function.is_internal:  # it goes wherever it is used
                continue
            self._written += function.size
            # Only LLVM's full effort leaves what loops carry in registers.
            quick = self._written > effort.CAREFUL and not function.carries_values
            self._pending[quick].append(function.name)
            self._sizes[quick] += function.size
            longest = QUICK_PART if quick else PART
            if self._sizes[quick] >= longest or (not quick and _ends_part(function)):
                self._end_part(quick)
        if self._written >= PART:
            self._begin(module)

    def finish(self, module: llvm_ir.Module) -> Image:
        self.written(module)
        self._end_part(False)
        self._end_part(True)
        if self._written < PART:
            return self._finish_short(module)
        self._begin(module)
        made = {n: self._host.compile_text(*m, dump=self.dump) for n, m in self._missing.items()}
        if self._processes is not None:
            made = self._processes.finish()
        for number, image in made.items():
            self._images[number] = image
            if self._cached:
                code_cache.keep(self._keys[number], image)
        return self._whole(module, len(self._keys))

    def _finish_short(self, module: llvm_ir.Module) -> Image:
        """The image of a module that this process compiles alone, when it is complete."""
        parts = []
        for names, quick in self._waiting:
            if module.launched is not None:  # what others call goes with them
                names = [name for name in names if name in module.launched]
            if names:
                parts.append((names, quick))
        if len(parts) <= 1:
            return self._compile(str(module), parts[0][1] if parts else False)
        for number, (names, quick) in enumerate(parts):
            self._images[number] = self._compile(module.part(names), quick)
        return self._whole(module, len(parts))

    def _whole(self, module: llvm_ir.Module, count: int) -> Image:
        """The image of the module, of its ``count`` parts."""
        images = [self._images[number] for number in range(count)]
        image = concatenate(images, self._host.is_x86)
        if self.dump:
            # The parts number their attributes and metadata each on its own, so that their texts together are no
            # module: the whole goes through the passes once more, which takes a tenth of the time of the rest.
            image.optimised_ir = self._host.optimised_ir(str(module))
            image.assembly = join_assembly([part.assembly for part in images])
        return image

    def close(self) -> None:
        if self._processes is not None:
            self._processes.close()

    def _end_part(self, quick: bool) -> None:
        if self._pending[quick]:
            self._waiting.append(([*self._pending[quick]], quick))
            self._pending[quick].clear()
            self._sizes[quick] = 0

    def _begin(self, module: llvm_ir.Module) -> None:
        """Find the code of all parts that are waiting. What is missing is made by other processes if it is long."""
        for names, quick in self._waiting:
            text = module.part(names)
            number = len(self._keys)
            key = self._key(text, quick)
            self._keys.append(key)
            image = code_cache.find(key) if self._cached else None
            if image is not None:
                self._images[number] = image
            else:
                self._missing[number] = text, quick
        self._waiting.clear()
        if self._processes is None and sum(len(text) for text, _ in self._missing.values()) >= PART:
            self._processes = Processes(self._host, self.dump)
        if self._processes is not None:
            for number, (text, quick) in self._missing.items():
                self._processes.put(number, text, quick)
            self._missing.clear()

    def _compile(self, text: str, quick: bool) -> Image:
        """The code of a module or part, made by this process if it is not kept."""
        key = self._key(text, quick)
        image = code_cache.find(key) if self._cached else None
        if image is None:
            image = self._host.compile_text(text, quick, dump=self.dump)
            if self._cached:
                code_cache.keep(key, image)
        return image

    def _key(self, text: str, quick: bool) -> bytes:
        return code_cache.key(f"{self.target.identity} {'quick' if quick else 'careful'}", text)


def _ends_part(function: llvm_ir.Function) -> bool:
    """Whether a part ends behind this function, if not before. Its name does not matter: it is the program's."""
    return zlib.crc32(function.body.encode()) % EVERY == 0


def join_assembly(parts: list[str]) -> str:
    """The assembly of a module's parts as one text: the local labels of each part begin where those of the part before
    end. What parts share, internal functions and tables, stands in each that uses it, as in the code.
    """
    texts = []
    first = 0
    for text in parts:
        numbers = [first]

        def shift(label: re.Match[str], first: int = first, numbers: list[int] = numbers) -> str:
            numbers.append(first + int(label[2]))
            return f"{label[1]}{numbers[-1]}"

        texts.append(_LOCAL_LABEL.sub(shift, text))
        first = max(numbers) + 1
    return "\n".join(texts)
