"""A large module is compiled in parts, by several processes, while the rest of it is still being written.

What has been written since the last part becomes the next one when it is long enough, so the parts, and with them the
code, depend on the module alone; how many processes compile them depends on the machine and does not matter.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final

from ...codegen import effort, llvm_ir
from .. import code_cache
from ..image import Image
from ..target import Compilation
from .linker import concatenate
from .processes import Processes

if TYPE_CHECKING:
    from .text_target import TextTarget

# Characters of IR of a part, about a third of a second of LLVM.
PART = 1 << 18
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
        self._written = 0  # length of all texts seen
        self._keys: list[bytes] = []  # of the parts, in order
        self._images: dict[int, Image] = {}  # by number of the part
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
            if self._sizes[quick] >= (QUICK_PART if quick else PART):
                self._make_part(module, quick)

    def finish(self, module: llvm_ir.Module) -> Image:
        self.written(module)
        if not self._keys:
            return self._compile(str(module))
        for quick in (False, True):
            if self._pending[quick]:
                self._make_part(module, quick)
        if self._processes is not None:
            for number, image in self._processes.finish().items():
                self._images[number] = image
                if self._cached:
                    code_cache.keep(self._keys[number], image)
        images = [self._images[number] for number in range(len(self._keys))]
        image = concatenate(images)
        if self.dump:
            # The parts number their attributes and metadata each on its own, so that their texts together are no
            # module: the whole goes through the passes once more, which takes a tenth of the time of the rest.
            image.optimised_ir = self._host.optimised_ir(str(module))
            image.assembly = join_assembly([part.assembly for part in images])
        return image

    def close(self) -> None:
        if self._processes is not None:
            self._processes.close()

    def _make_part(self, module: llvm_ir.Module, quick: bool) -> None:
        text = module.part(self._pending[quick])
        self._pending[quick].clear()
        self._sizes[quick] = 0
        number = len(self._keys)
        key = self._key(text, quick)
        self._keys.append(key)
        image = code_cache.find(key) if self._cached else None
        if image is not None:
            self._images[number] = image
            return
        if self._processes is None:
            self._processes = Processes(self._host, self.dump)
        self._processes.put(number, text, quick)

    def _compile(self, text: str) -> Image:
        """A module that is no longer than a part."""
        key = self._key(text, False)
        image = code_cache.find(key) if self._cached else None
        if image is None:
            image = self._host.compile_text(text, dump=self.dump)
            if self._cached:
                code_cache.keep(key, image)
        return image

    def _key(self, text: str, quick: bool) -> bytes:
        return code_cache.key(f"{self.target.identity} {'quick' if quick else 'careful'}", text)


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
