"""A module is compiled in parts while the rest of it is being written: by a thread, a large one by processes.

A part is some functions that were written one after another, and what they use. Each function is in a section of its
own, and LLVM's passes look at one function at a time: its instructions depend on the function and what it uses alone,
and not on the part. (Constants of other functions may come along, where LLVM keeps them in one section.) So functions
that this process, or another one, has compiled for another program are in no part (:mod:`..code_cache`), nor are those
that differ from another of the module in their names alone, and the instructions of the image, in which the functions
stand in the order of the module, depend on the module alone. How many processes compile the parts depends on the
machine and does not matter.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ...codegen import effort, llvm_ir
from .. import code_cache
from ..beside import Beside
from ..image import Image
from ..target import Compilation
from . import section_bytes
from .linker import Object, Section, link
from .processes import Processes

if TYPE_CHECKING:
    from .text_target import TextTarget

# Characters of IR of which other processes help with a module, a seventh of a second of LLVM. A process costs a
# twentieth of a second of the CPU, most of it for pages that both write.
PART = 1 << 18
# Characters of IR of a part there: enough that what a part adds, one millisecond, does not count. The first parts of a
# module are shorter, a quarter of what is in parts already: there may be no more than a few for all processes.
SHARE = 1 << 16
FIRST_SHARE = 1 << 14
# The same of one that is compiled quickly: each has all the functions that it calls.
QUICK_SHARE = 1 << 20
# A label that LLVM makes: of a block (.LBB3_1), constants (.LCPI3_0), a jump table, the end of a function. The number
# is that of the function in its module.
_LOCAL_LABEL: Final = re.compile(r"(\.L[A-Za-z_]+)(\d+)")
# A branch of which LLVM may make a table of jumps.
_SWITCH: Final = "\n  switch "


class Parts(Compilation):
    """The compilation of one module by ``target``; with ``dump``, images have optimised IR and assembly.

    ``cached``: code may come from :mod:`..code_cache`, and goes there.
    """

    def __init__(self, target: TextTarget, dump: bool, cached: bool) -> None:
        super().__init__(target, dump)
        self._host = target
        self._cached = cached
        self._seen = 0  # functions of the module that have been looked at
        self._written = 0  # length of all texts seen
        # External functions of which nobody has said that others call them, and whether each is compiled quickly.
        self._uncertain: dict[str, bool] = {}
        self._new: list[tuple[str, bool]] = []  # those of the others that nobody has looked for
        self._new_size = 0  # length of their texts
        self._keys: dict[str, bytes] = {}  # of those that somebody has looked for
        self._first: dict[bytes, str] = {}  # by their keys, the one that is compiled for all
        self._code: dict[str, tuple[Section, int]] = {}  # of those that are compiled
        # Careful and quick ones that no part has.
        self._pending: tuple[list[str], list[str]] = ([], [])
        self._sizes = [0, 0]  # and the lengths of their texts
        self._in_parts = 0  # length of the texts of the functions that are in parts
        self._parts: list[tuple[str, bool]] = []  # each part's text, and whether it is quick
        self._told = 0  # parts that the thread or other processes know
        self._processes: Processes | None = None
        self._is_complete = False
        self._made: dict[int, Object] = {}  # what the thread has made of parts, by their numbers
        # The thread, where no processes are: it has one part at a time until the module is complete, so that it is soon
        # done if there are to be processes.
        self._beside: Beside[dict[int, Object]] | None = None

    def written(self, module: llvm_ir.Module, functions: Sequence[str]) -> None:
        self._see(module)
        for name in functions:
            quick = self._uncertain.pop(name, None)
            if quick is not None:  # it is told for the first time
                self._new.append((name, quick))
                self._new_size += module.functions[name].size
        if self._written >= PART or self._new_size >= FIRST_SHARE:
            self._look_up(module)
            self._begin()

    def _see(self, module: llvm_ir.Module) -> None:
        """Look at the functions that were written since the last time."""
        for function in itertools.islice(module.functions.values(), self._seen, None):
            self._seen += 1
            if function.is_internal:  # it goes wherever it is used
                continue
            self._written += function.size
            # Only LLVM's full effort leaves what loops carry in registers.
            quick = self._written > effort.CAREFUL and not function.carries_values
            self._uncertain[function.name] = quick

    def complete(self, module: llvm_ir.Module) -> None:
        self._see(module)
        launched = module.launched
        for name, quick in self._uncertain.items():
            if launched is None or name in launched:  # what others call goes with them
                self._new.append((name, quick))
        self._uncertain.clear()
        self._look_up(module)
        for quick in (False, True):
            self._end_part(module, quick)
        self._begin()
        before, rest = self._beside, range(self._told, len(self._parts))
        if self._processes is None and rest:
            self._told = len(self._parts)
            self._beside = Beside(
                lambda: (before.result() if before is not None else {}) | self._compile(rest)
            )
        self._is_complete = True

    def finish(self, module: llvm_ir.Module) -> Image:
        if not self._is_complete:
            self.complete(module)
        self._collect()
        made = self._made
        if self._processes is not None:
            made |= self._processes.finish()
        for part in made.values():
            self._take(part)
        launched = module.launched
        exported = self._keys if launched is None else launched & self._keys.keys()
        # In the order of the module.
        functions = {name: self._code_of(name) for name in module.functions if name in exported}
        image = link(functions, self._host.machine)
        if self.dump:
            # The parts number their attributes and metadata each on its own, so that their texts together are no
            # module: the whole goes through the passes once more, which takes a tenth of the time of the rest.
            image.optimised_ir = self._host.optimised_ir(str(module))
            image.assembly = join_assembly([made[n].assembly for n in range(len(self._parts))])
        return image

    def close(self) -> None:
        if self._processes is not None:
            self._processes.close()
        if self._beside is not None:
            self._beside.wait()

    def _code_of(self, name: str) -> tuple[Section, int]:
        return self._code.get(name) or self._code[self._first[self._keys[name]]]

    def _compile(self, numbers: Iterable[int]) -> dict[int, Object]:
        """The code of parts, by their numbers."""
        return {
            number: self._host.compile_object(*self._parts[number], dump=self.dump)
            for number in numbers
        }

    def _collect(self) -> None:
        """Wait for the thread and take what it has made."""
        beside, self._beside = self._beside, None
        if beside is not None:
            self._made |= beside.result()

    def _look_up(self, module: llvm_ir.Module) -> None:
        """Find the code of all new functions; those without go into parts."""
        for name, quick in self._new:
            effort_ = "quick" if quick else "careful"
            made_by = f"{type(self.target).__qualname__} {self.target.identity} {effort_}"
            key = code_cache.key(made_by, module.digest(name).hex())
            self._keys[name] = key
            # A dump shows the assembly of each.
            if self._first.setdefault(key, name) != name and not self.dump:
                continue
            code = code_cache.find(key, section_bytes.from_bytes) if self._cached else None
            if isinstance(code, Section):
                self._code[name] = code, 0
                continue
            # A table of jumps is in one section with those of other functions, so nothing else is in its part.
            alone = _SWITCH in module.functions[name].body
            if alone:
                self._end_part(module, quick)
            self._pending[quick].append(name)
            self._sizes[quick] += module.functions[name].size
            if alone or self._sizes[quick] >= self._share(quick):
                self._end_part(module, quick)
        self._new.clear()
        self._new_size = 0

    def _share(self, quick: bool) -> int:
        """Characters of IR of the next part."""
        return QUICK_SHARE if quick else min(SHARE, max(FIRST_SHARE, self._in_parts // 4))

    def _end_part(self, module: llvm_ir.Module, quick: bool) -> None:
        if self._pending[quick]:
            self._parts.append((module.part(self._pending[quick]), quick))
            self._pending[quick].clear()
            self._in_parts += self._sizes[quick]
            self._sizes[quick] = 0

    def _begin(self) -> None:
        """Have the parts compiled: by other processes, if they are long together, or else the next by a thread."""
        if self._processes is None and sum(len(text) for text, _ in self._parts) >= PART:
            self._collect()  # a fork while the thread is in LLVM would find its locks taken for ever
            self._processes = Processes(self._host, self.dump)
        if self._processes is not None:
            for number in range(self._told, len(self._parts)):
                self._processes.put(number, *self._parts[number])
            self._told = len(self._parts)
        elif self._told < len(self._parts) and (self._beside is None or self._beside.is_done):
            self._collect()
            number = self._told
            self._told += 1
            self._beside = Beside(lambda: self._compile([number]))

    def _take(self, part: Object) -> None:
        """Know the code of a part's functions."""
        for name, (section, offset) in part.functions.items():
            self._code[name] = section, offset
            if self._cached and offset == 0:
                code_cache.keep(self._keys[name], section, section_bytes.to_bytes)


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
