"""Run a lowered module in Python: real thunks on real memory, kernels by the reference evaluator.

This tests fusion, buffer assignment and lowering without code generation: a value that is
overwritten too early, or a move in the wrong order, gives wrong numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tripont.core.compiler.codegen.callbacks import Callback
from tripont.core.compiler.codegen.kernels.emit import EmittedKernel
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.ir.hlo import Instruction, Module
from tripont.core.compiler.memory import buffers
from tripont.core.compiler.reference.evaluate import evaluate_instruction
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.thunks import emission, lowering


class Simulation:
    """A module lowered with kernels that are instructions; :meth:`run` executes it."""

    makes_sequences = False

    def __init__(self, module: Module) -> None:
        """``module`` is fused and scheduled."""
        self.module = module
        self.assignment = buffers.assign(module)
        buffers.check_assignment(module, self.assignment)
        self.instructions: dict[str, Instruction] = {}
        self.costs = for_cpu().costs
        self.lowered = lowering.lower(module, self.assignment, self.costs.library)
        emission.emit(self.lowered, self)
        self.copies = 0
        self.kernels = 0

    def kernel(self, instruction: Instruction, name: str) -> EmittedKernel:
        self.instructions[name] = instruction
        return EmittedKernel(name, 1, 1, 1.0)

    def callback(self, call: Instruction, name: str) -> Callback:
        return Callback(name, "function")

    def sequence(self, thunks, symbols, name, placed):
        raise NotImplementedError

    def launched(self, functions: Sequence[str]) -> None:
        pass

    def run(self, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        memory: list[np.ndarray] = []
        allocations = self.assignment.allocations
        for a in allocations:
            # Garbage, for nothing may rely on zeros; aligned as the runtime aligns it.
            raw = np.frombuffer(bytearray(rng.bytes(max(a.size, 1) + 127)), np.uint8)
            skip = -raw.ctypes.data % 64
            block = raw[skip : skip + (max(a.size, 1) + 63) // 64 * 64]
            source: bytes | None = None
            if a.kind == artifact.ALLOCATION_PARAMETER:
                source = np.ascontiguousarray(arguments[a.index]).tobytes()
            elif a.aliased_parameter >= 0:
                source = np.ascontiguousarray(arguments[a.aliased_parameter]).tobytes()
            elif a.kind == artifact.ALLOCATION_CONSTANT:
                source = self.assignment.constants[a.offset : a.offset + a.size]
            if source is not None:
                block[: len(source)] = np.frombuffer(source, np.uint8)
            memory.append(block)
        before = {n: memory[n].copy() for n, a in enumerate(allocations) if a.kind in (0, 2)}
        self.memory = memory
        self._execute(self.lowered.thunks)
        for n, content in before.items():
            if not np.array_equal(memory[n], content):  # a tenth of the time of what says where
                np.testing.assert_array_equal(
                    memory[n], content, err_msg="a parameter or constant was written"
                )
        results = []
        by_index = {
            a.index: n for n, a in enumerate(allocations) if a.kind == artifact.ALLOCATION_RESULT
        }
        for number, r in enumerate(self.module.entry.results):
            place = artifact.Slice(by_index[number], 0, r.shape.bytes)
            results.append(self._view(place, r.shape).copy())
        return results

    def _view(self, place: artifact.Slice, shape) -> np.ndarray:
        data = self.memory[place.allocation][place.offset : place.offset + place.size]
        return data.view(shape.dtype.numpy).reshape(shape.dims)

    def _bytes(self, place: artifact.Slice) -> np.ndarray:
        return self.memory[place.allocation][place.offset : place.offset + place.size]

    def _run_kernel(self, thunk, instruction) -> None:
        count = len(instruction.operands)
        operands = [
            self._view(s, o.shape).copy()
            for s, o in zip(thunk.arguments[:count], instruction.operands, strict=True)
        ]
        update = _updates_in_place(instruction)
        results = evaluate_instruction(instruction, operands)
        if update is not None:  # the kernel writes only part: the rest has to be in place
            target = self._view(thunk.arguments[count], instruction.shape)
            assert target.tobytes() == operands[update].tobytes(), "not updated in place"
        for s, r in zip(thunk.arguments[count:], results, strict=True):
            self._bytes(s)[:] = np.ascontiguousarray(r).reshape(-1).view(np.uint8)

    def _set_view(self, thunk) -> None:
        start = 0
        for s in thunk.strides:
            index = int.from_bytes(self._bytes(s.index).tobytes(), "little", signed=True)
            start += min(max(index, 0), s.limit) * s.stride
        assert start % artifact.ALIGNMENT == 0
        assert start + thunk.view.size <= thunk.source.size
        piece = self._bytes(thunk.source)[start : start + thunk.view.size]
        self.memory[thunk.view.allocation] = piece

    def _execute(self, thunks) -> None:
        for thunk in thunks:
            if isinstance(thunk, artifact.Copy):
                self.copies += 1
                self._bytes(thunk.destination)[:] = self._bytes(thunk.source).copy()
            elif isinstance(thunk, artifact.Kernel):
                self.kernels += 1
                instruction = self.instructions.get(self.lowered.symbols[thunk.function])
                self._run_kernel(thunk, instruction)
            elif isinstance(thunk, artifact.View):
                self._set_view(thunk)
            elif isinstance(thunk, artifact.While):
                self._execute(thunk.condition)
                trips = 0
                while self._bytes(thunk.predicate)[0]:
                    self._execute(thunk.body)
                    self._execute(thunk.condition)
                    trips += 1
                if thunk.trip_count >= 0:
                    assert trips == thunk.trip_count
            elif isinstance(thunk, artifact.Conditional):
                selector = self._bytes(thunk.selector)
                if thunk.selector_is_pred:
                    branch = 0 if selector[0] else 1
                else:
                    branch = int(selector.view(np.int32)[0])
                    if not 0 <= branch < len(thunk.branches):
                        branch = len(thunk.branches) - 1
                self._execute(thunk.branches[branch])
            else:
                raise AssertionError(f"no simulation of {thunk}")


def _updates_in_place(instruction: Instruction) -> int | None:
    from tripont.core.compiler.memory.inplace import in_place_operands, must_share

    if not must_share(instruction) or len(instruction.result_shapes) != 1:
        return None
    return in_place_operands(instruction)[0][0]
