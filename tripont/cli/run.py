"""``tripont run``: load an artifact and run it on NumPy arrays. Neither compiler nor framework is needed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from rich.markup import escape
from rich.table import Table

from .client import bindings, make_client
from .inspect import duration
from .program_file import read
from .terminal import fail, make_console

NUMPY_TYPES: dict[str, Any] = {
    "pred": np.bool_,
    "bf16": ml_dtypes.bfloat16,
    "c64": np.complex64,
    "c128": np.complex128,
    "s2": ml_dtypes.int2,
    "u2": ml_dtypes.uint2,
    "s4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
    **{f"s{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
}


def numpy_type(name: str) -> np.dtype[Any]:
    """The NumPy type of an element type by its HLO name (f8e4m3fn and the like are ml_dtypes' float8_e4m3fn)."""
    if name not in NUMPY_TYPES and not name.startswith("f8"):
        fail(f"element type {name} has no NumPy type")
    dtype: np.dtype[Any] = np.dtype(
        NUMPY_TYPES.get(name) or getattr(ml_dtypes, "float8_" + name[2:])
    )
    return dtype


def random_array(parameter: dict[str, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Standard normal numbers, small integers or coin flips, by the parameter's type."""
    dtype, dims = numpy_type(parameter["dtype"]), tuple(parameter["dimensions"])
    if dtype == np.bool_:
        return rng.random(dims) < 0.5
    if parameter["dtype"][0] in "su":
        return np.asarray(
            rng.integers(0, 2 if parameter["dtype"][1:] in "24" else 10, dims)
        ).astype(dtype)
    return np.asarray(rng.standard_normal(dims)).astype(dtype)


def shape_text(value: dict[str, Any]) -> str:
    return f"{value['dtype']}[{','.join(map(str, value['dimensions']))}]"


def read_inputs(
    parameters: Sequence[dict[str, Any]], files: Sequence[Path], seed: int
) -> list[np.ndarray[Any, Any]]:
    """The arguments: from the files, which must fit the parameters, or random ones if there are no files."""
    if not files:
        rng = np.random.default_rng(seed)
        return [random_array(parameter, rng) for parameter in parameters]
    if len(files) != len(parameters):
        wanted = ", ".join(map(shape_text, parameters))
        fail(
            f"the program takes {len(parameters)} arguments ({wanted}), {len(files)} files are given"
        )
    arrays = []
    for index, (file, parameter) in enumerate(zip(files, parameters, strict=True)):
        try:
            array = np.load(file)
        except (OSError, ValueError) as error:
            fail(f"cannot read {file}: {error}")
        dtype = numpy_type(parameter["dtype"])
        if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
            array = array.view(dtype)  # NumPy writes types it does not know as bytes
        if array.dtype != dtype or list(array.shape) != list(parameter["dimensions"]):
            fail(
                f"{file} is {array.dtype}{list(array.shape)}, but parameter {index} is {shape_text(parameter)}"
            )
        arrays.append(np.ascontiguousarray(array))
    return arrays


def run(path: Path, files: Sequence[Path], output: Path | None, repeat: int, seed: int) -> int:
    console = make_console()
    module = bindings()
    data = read(path)
    client = make_client()
    device = client.devices[0]
    try:
        start = time.perf_counter()
        executable = client.load(data)
        loaded = time.perf_counter() - start
        description = executable.describe()
        arrays = read_inputs(description["parameters"], files, seed)
        arguments = [module.Buffer.from_array(array, device) for array in arrays]
        kept = list(range(len(arguments)))  # nothing is donated: every run has the same arguments
        times = []
        for _ in range(repeat + 1):  # the first run warms up
            start = time.perf_counter()
            results = executable.execute(device, arguments, kept)
            for result in results:
                result.wait()
            times.append(time.perf_counter() - start)
        outputs = [result.numpy() for result in results]
    except module.StatusError as error:
        fail(f"{path}: {error}")

    table = Table(title=f"{description['name']} on {device.description}", title_justify="left")
    for column in ("result", "type", "smallest", "largest", "mean", "first elements"):
        table.add_column(column)
    for index, array in enumerate(outputs):
        numbers = array.reshape(-1)
        wide = numbers.astype(np.complex128 if numbers.dtype.kind == "c" else np.float64)
        statistic = [
            f"{f(wide):.6g}" if wide.size and wide.dtype.kind != "c" else ""
            for f in (np.min, np.max, np.mean)
        ]
        first = " ".join(f"{n:.6g}" for n in wide[:4]) + (" ..." if numbers.size > 4 else "")
        table.add_row(
            str(index), escape(shape_text(description["results"][index])), *statistic, first
        )
    console.print(table)
    timed = times[1:]
    console.print(
        f"loaded in {duration(loaded * 1e9)}; {repeat} runs: median {duration(statistics.median(timed) * 1e9)}, "
        f"minimum {duration(min(timed) * 1e9)}"
    )
    if output is not None:
        try:
            output.mkdir(parents=True, exist_ok=True)
            for index, array in enumerate(outputs):
                np.save(output / f"result_{index}.npy", array)
        except OSError as error:
            fail(f"cannot write to {output}: {error.strerror}")
        console.print(f"the results are in {output.resolve()}", soft_wrap=True)
    return 0
