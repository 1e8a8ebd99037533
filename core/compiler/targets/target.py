"""What code generation needs to know about a target, and how it turns LLVM IR into a code image.

A target is a folder of this package with a subclass of :class:`Target`. Element generators and kernel emitters ask the
target how wide a vector is and which features exist, never for its name, so that they are shared by all targets.
"""

from __future__ import annotations

import functools
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..codegen import llvm_ir
from ..ir import hlo
from ..ir.dtypes import DType
from . import accuracy, code_cache
from .costs import Costs
from .image import Image


@dataclass(frozen=True, slots=True)
class Libraries:
    """What library calls of a program can rely on where it runs.

    ``onednn``: whether the runtime finds oneDNN there. ``cpu_features``: LLVM's names of what the CPU has that library
    calls run on. ``on_gpu``: whether oneDNN's calls run on a GPU instead.
    """

    onednn: bool
    cpu_features: frozenset[str]
    on_gpu: bool = False


@dataclass(frozen=True)
class Target(ABC):
    """A machine to compile for. ``features``: LLVM names of all that the machine must have, sorted.

    ``vector_bytes`` is the width of the vectors that kernels are written in; ``function_attributes`` goes on every
    function; ``fingerprint`` differs when code for one is not right (or not best) for the other, but for what follows
    from their costs: those are in :attr:`identity`. ``libraries`` is what passes that choose library calls go by,
    ``costs`` what all choices between ways to compute something go by.
    """

    name: str
    triple: str
    data_layout: str
    cpu: str
    features: tuple[str, ...]
    vector_bytes: int
    function_attributes: str
    fingerprint: str
    libraries: Libraries
    costs: Costs
    max_lanes: int = 1 << 16  # of a vector, whatever the size of its elements
    block: int = 1024  # elements of a unit of work in a long minor dimension; a multiple of all numbers of lanes
    # Work-items that do a unit of a reduction together (codegen/kernels/work_groups.py).
    work_group: int = 1
    sub_group: int = 1  # those of them that can shuffle values among each other

    @functools.cached_property
    def identity(self) -> str:
        """The fingerprint with a digest of the costs: the identity of a target that another package makes with
        ``dataclasses.replace(target, costs=...)`` differs, although it keeps the fingerprint.
        """
        costs = hashlib.sha256(repr(self.costs).encode()).hexdigest()[:16]
        return f"{self.fingerprint}-{costs}"

    def has(self, feature: str) -> bool:
        return feature in self.features

    @property
    def masks_stores(self) -> bool:
        """Whether storing some lanes of a vector is as fast as storing all; not so with AVX alone, which has no
        registers for masks (:mod:`..codegen.llvm_ir.stores`).
        """
        return not self.has("avx") or self.has("avx512vl")

    assembly_suffix: ClassVar[str] = "s"
    calls_vectors: ClassVar[bool] = False  # whether functions may take and give vectors

    # Whether products of matrices are generated with packing: blocks of their results on the stacks of a CPU's threads.
    packs_products: ClassVar[bool] = False

    @property
    def has_native_half(self) -> bool:
        """Whether there are instructions that convert between f16 and f32."""
        return not self.is_x86 or self.has("f16c")

    @property
    def saturates_vectors(self) -> bool:
        """Whether there are instructions that make the nearest integers of a vector of floats."""
        return not self.is_x86

    @property
    def has_double(self) -> bool:
        """Whether the target computes with 64-bit floats. If not, only programs that ask for them may use them."""
        return True

    @property
    def divides_exactly(self) -> bool:
        """Whether the quotient of two f32 is the nearest f32. That of f64 is the nearest f64 on every target."""
        return True

    def ulps(self, opcode: str, dtype: DType) -> int:
        """The largest error of a function that has ``Op.ulps``, in units in the last place."""
        return accuracy.ulps(opcode, dtype)

    def check(self, module: llvm_ir.Module, instruction: hlo.Instruction) -> None:  # noqa: B027
        """Called after each kernel was written into ``module``: raises CompileError UNIMPLEMENTED, naming the
        instruction, if the machine lacks what the kernel needs.
        """

    def fence_streams(self, builder: llvm_ir.Builder) -> None:
        """Before a function ends that wrote past the caches: what it wrote comes before what is written later."""
        if self.is_x86:
            builder.call("void", "llvm.x86.sse.sfence", [])

    def local_id(self, builder: llvm_ir.Builder) -> llvm_ir.Value:
        """Which work-item of its group runs this (i64). For targets with a ``work_group``, as the next two."""
        raise NotImplementedError

    def barrier(self, builder: llvm_ir.Builder) -> None:
        """Wait for all work-items of the group, and see what they wrote."""
        raise NotImplementedError

    def shuffle_xor(
        self, builder: llvm_ir.Builder, value: llvm_ir.Value, mask: int
    ) -> llvm_ir.Value:
        """The value of the work-item of the sub-group whose number differs from this one's in the bits of ``mask``."""
        raise NotImplementedError

    def shares(self, module: llvm_ir.Module, function: str) -> bool:
        """Whether the work-items of a group do each unit of a kernel together."""
        return False

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith("x86_64")

    def can_mask(self, size: int) -> bool:
        """Whether vectors of ``size``-byte elements have masked loads and stores (and not a branch a lane)."""
        return self.vector_bytes >= (32 if size >= 4 else 64)

    def lanes(self, dtype: DType) -> int:
        """How many elements of ``dtype`` fill a vector (a complex element counts as its component)."""
        return self.lane_count(dtype.component.size, dtype.is_complex)

    def lane_count(self, size: int, is_complex: bool = False) -> int:
        """How many elements whose widest register type has ``size`` bytes to compute at a time."""
        return max(1, min(self.vector_bytes // size, self.most_lanes(is_complex)))

    def most_lanes(self, is_complex: bool) -> int:
        """How many elements a vector may have. Complex ones are loaded as one vector of both components."""
        return self.max_lanes // (2 if is_complex else 1)

    def module(self) -> llvm_ir.Module:
        """An empty LLVM module for this target."""
        module = llvm_ir.Module(self.triple, self.data_layout)
        module.masks_stores = self.masks_stores
        return module

    def callbacks(self, module: llvm_ir.Module) -> tuple[llvm_ir.Module, Target]:
        """Where functions that library calls call go (a sort's comparator), and their target: calls run on the host."""
        return module, self

    def start(self, *, dump: bool = False) -> Compilation:
        """The compilation of a module that is about to be written; ``dump`` as for :meth:`compile`."""
        return Compilation(self, dump)

    @abstractmethod
    def compile(self, module: llvm_ir.Module, *, dump: bool = False) -> Image:
        """Optimise ``module`` and turn it into machine code. With ``dump`` also keep optimised IR and assembly.

        Raises CompileError INTERNAL if LLVM rejects the module or it needs a function that no loader provides.
        """


class Compilation:
    """A module being compiled, from when its first function is written on. Call :meth:`close` in any case."""

    def __init__(self, target: Target, dump: bool) -> None:
        self.target = target
        self.dump = dump

    def written(self, module: llvm_ir.Module, functions: Sequence[str]) -> None:
        """Called when ``functions`` have been written that others will call: they may be compiled from now on."""

    def complete(self, module: llvm_ir.Module) -> None:
        """Called when the module is complete: what is left may be compiled beside the caller from now on."""

    def finish(self, module: llvm_ir.Module) -> Image:
        """The code of the module, which is complete, or that of an equal one compiled earlier. Raises CompileError."""
        if self.dump:
            return self.target.compile(module, dump=True)
        key = code_cache.key(self.target.identity, module.identity())
        kept = code_cache.find(key)
        if isinstance(kept, Image):
            return kept
        image = self.target.compile(module)
        code_cache.keep(key, image)
        return image

    def close(self) -> None:
        """End what is still under way."""
