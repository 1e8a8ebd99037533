"""How each framework compiles and calls a program. Runs in the rivals' processes."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .program import Program

Run = Callable[..., Any]  # runs the program on what was placed, and waits for its results


class Framework:
    """``place`` makes of inputs what the program is called with; ``prepare`` returns seconds of compiling (None
    where nothing is compiled) and what runs the program; ``results`` NumPy arrays of its value.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def place(self, program: Program, inputs: Sequence[Any]) -> Sequence[Any]:
        return inputs

    def prepare(self, program: Program, placed: Sequence[Any]) -> tuple[float | None, Run]:
        raise NotImplementedError

    def evaluate(
        self, program: Program, several: Sequence[Sequence[Any]]
    ) -> list[list[np.ndarray]]:
        """The results for several inputs."""
        found = []
        for inputs in several:
            placed = self.place(program, inputs)
            found.append(self.results(self.prepare(program, placed)[1](*placed)))
        return found

    def results(self, value: Any) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in leaves(value)]

    def program_results(self, program: Program, value: Any) -> list[np.ndarray]:
        """The results in the order of dimensions of the program's own."""
        return self.results(value)

    def version(self) -> str:
        raise NotImplementedError

    def forget(self) -> None:
        """Give back what is kept of programs that nobody needs any more."""
        gc.collect()


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in leaves(value[key])]
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [] if value is None else [value]


class Numpy(Framework):
    def prepare(self, program: Program, placed: Sequence[Any]) -> tuple[float | None, Run]:
        return None, program.makers["numpy"]()

    def version(self) -> str:
        import scipy

        return f"NumPy {np.__version__}, SciPy {scipy.__version__}"


class Jax(Framework):
    """``platform``: the device's. Programs that are not compiled as a whole have no compile time of their own."""

    platform = "cpu"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        import jax

        self.jax = jax
        self.device = jax.devices(self.platform)[0]
        # The time of compiling a program is not that of starting the compiler.
        with jax.default_device(self.device):
            jax.block_until_ready(jax.jit(lambda: jax.numpy.arange(8.0) * 2)())

    def place(self, program: Program, inputs: Sequence[Any]) -> Sequence[Any]:
        jax = self.jax
        jax.config.update("jax_enable_x64", program.x64)
        arrays = [jax.device_put(value, self.device) for value in inputs]
        return jax.block_until_ready(arrays)  # type: ignore[no-any-return]

    def prepare(self, program: Program, placed: Sequence[Any]) -> tuple[float | None, Run]:
        jax = self.jax
        function = program.makers["jax"]()
        if not program.jit:
            return None, lambda *arrays: jax.block_until_ready(function(*arrays))
        compiled = jax.jit(function)
        lowered = compiled.lower(*placed)
        start = time.perf_counter()
        lowered.compile()
        seconds = time.perf_counter() - start
        # Users call the jitted function; it finds the program that was compiled, or compiles it once more before the
        # first turn.
        return seconds, lambda *arrays: jax.block_until_ready(compiled(*arrays))

    def evaluate(
        self, program: Program, several: Sequence[Sequence[Any]]
    ) -> list[list[np.ndarray]]:
        self.jax.config.update("jax_enable_x64", program.x64)
        function = program.makers["jax"]()
        if program.jit:
            function = self.jax.jit(function)
        return [
            self.results(function(*self.jax.device_put(inputs, self.device))) for inputs in several
        ]

    def results(self, value: Any) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in self.jax.tree_util.tree_leaves(value)]

    def version(self) -> str:
        import jaxlib

        return f"JAX {self.jax.__version__}, jaxlib {jaxlib.__version__}"

    def forget(self) -> None:
        self.jax.clear_caches()
        super().forget()


class Tripont(Jax):
    platform = "xpu"

    def __init__(self, threads: int) -> None:
        from tripont.frontends import jax as frontend

        frontend.initialize()
        super().__init__(threads)

    def version(self) -> str:
        import tripont

        return f"tripont {tripont.__version__} on {super().version()}"


class Torch(Framework):
    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        import torch

        self.torch = torch
        torch.set_num_threads(threads)

    def function(self, program: Program) -> Callable[..., Any]:
        return program.makers["torch"]()

    def place(self, program: Program, inputs: Sequence[Any]) -> Sequence[Any]:
        arrangement = program.arrangements.get("torch")
        return [self.tensor(v) for v in (arrangement.inputs(inputs) if arrangement else inputs)]

    def prepare(self, program: Program, placed: Sequence[Any]) -> tuple[float | None, Run]:
        return None, self.function(program)

    def tensor(self, value: Any) -> Any:
        array = np.ascontiguousarray(value)
        if array.dtype.name == "bfloat16":
            return self.torch.from_numpy(array.view(np.int16).copy()).view(self.torch.bfloat16)
        return self.torch.from_numpy(array.copy())

    def results(self, value: Any) -> list[np.ndarray]:
        found = []
        for leaf in leaves(value):
            array = leaf.detach()
            found.append((array.float() if array.dtype == self.torch.bfloat16 else array).numpy())
        return found

    def program_results(self, program: Program, value: Any) -> list[np.ndarray]:
        arrangement = program.arrangements.get("torch")
        found = self.results(value)
        return arrangement.results(found) if arrangement else found

    def version(self) -> str:
        return f"PyTorch {self.torch.__version__}"


class CompiledTorch(Torch):
    """The seconds of compiling are those of the first call."""

    def prepare(self, program: Program, placed: Sequence[Any]) -> tuple[float | None, Run]:
        function = self.torch.compile(self.function(program), mode="default")
        start = time.perf_counter()
        function(*placed)
        return time.perf_counter() - start, function

    def version(self) -> str:
        return f"{super().version()}, torch.compile"

    def forget(self) -> None:
        self.torch.compiler.reset()
        super().forget()


class Onnx(Framework):
    """The maker returns a model's bytes; its inputs are called x0, x1, ..."""

    def prepare(self, program: Program, placed: Sequence[Any]) -> tuple[float | None, Run]:
        import onnxruntime

        model = program.makers["onnx"]()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        start = time.perf_counter()
        session = onnxruntime.InferenceSession(
            model() if callable(model) else model, options, providers=["CPUExecutionProvider"]
        )
        seconds = time.perf_counter() - start
        names = [entry.name for entry in session.get_inputs()]
        return seconds, lambda *values: session.run(None, dict(zip(names, values, strict=True)))

    def version(self) -> str:
        import onnxruntime

        return f"ONNX Runtime {onnxruntime.__version__}"


class LlamaCpp(Framework):
    """The maker's function takes the weights once: it writes a file of them, which is loaded as users load theirs."""

    def prepare(self, program: Program, placed: Sequence[Any]) -> tuple[float | None, Run]:
        return None, program.makers["llama.cpp"]()

    def version(self) -> str:
        import llama_cpp

        return f"llama-cpp-python {llama_cpp.__version__}"


class TensorFlow(Framework):
    """``tf.function`` as users write it: the graph's kernels, not XLA's."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        import tensorflow

        self.tf = tensorflow
        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(threads)

    def place(self, program: Program, inputs: Sequence[Any]) -> Sequence[Any]:
        return [self.tf.constant(value) for value in inputs]

    def prepare(self, program: Program, placed: Sequence[Any]) -> tuple[float | None, Run]:
        function = self.tf.function(program.makers["tensorflow"]())
        start = time.perf_counter()
        concrete = function.get_concrete_function(*placed)
        seconds = time.perf_counter() - start
        return seconds, lambda *tensors: [leaf.numpy() for leaf in leaves(concrete(*tensors))]

    def version(self) -> str:
        return f"TensorFlow {self.tf.__version__}"


FRAMEWORKS: dict[str, type[Framework]] = {
    "jax": Jax,
    "tripont": Tripont,
    "numpy": Numpy,
    "torch": Torch,
    "torch.compile": CompiledTorch,
    "onnx": Onnx,
    "tensorflow": TensorFlow,
    "llama.cpp": LlamaCpp,
}
FUNCTIONS = {"tripont": "jax", "torch.compile": "torch"}  # whose functions a framework runs


def function_of(framework: str) -> str:
    """The key of :attr:`Program.makers` whose program the framework runs."""
    return FUNCTIONS.get(framework, framework)
