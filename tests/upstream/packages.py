"""The packages built on JAX whose own tests :mod:`tests.upstream.package_suites` runs, and where each one has them.

A new package is one entry of :data:`PACKAGES`. Its tag belongs to the release that is pinned, so that the tests of the
checkout are those of the installed package.
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.rivals.environments import Environment

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "build" / "suites"
JAX: Final = ("jax==0.10.2", "jaxlib==0.10.2")


@dataclass(frozen=True)
class SuiteEnvironment(Environment):
    """An environment of rivals/environments.py, in the folder of its suite."""

    @property
    def folder(self) -> Path:
        return FOLDER / self.name / "environment"


@dataclass(frozen=True)
class Package:
    """A package and its tests.

    ``requirement``: the pinned release, as pip takes it. ``tag``: of the repository, for that release. ``tests``:
    folders or files of the checkout. ``further``: requirements of the tests. ``variables``: of the tests' processes.
    ``left_out``: file or folder of the checkout -> why it is not run. ``alone``: patterns of files
    that have processes of their own, because they change settings of the whole process.
    """

    name: str
    requirement: str
    repository: str
    tag: str
    tests: tuple[str, ...]
    further: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    alone: tuple[str, ...] = ()

    @property
    def environment(self) -> SuiteEnvironment:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        ours = project["dependencies"]
        return SuiteEnvironment(
            self.name,
            (f"{sys.version_info.major}.{sys.version_info.minor}",),  # the bindings' Python
            (*JAX, *ours, "pytest>=8", self.requirement, *self.further),
            constraints=JAX,
        )


#: Strict types at run time, as the tests of these packages have them: pytest's option comes with jaxtyping.
_TYPES: Final = ("jaxtyping", "beartype")
_TWO_DEVICES: Final = {"TRIPONT_NUM_DEVICES": "2"}

PACKAGES: Final = {
    package.name: package
    for package in (
        Package(
            "flax", "flax==0.12.7", "https://github.com/google/flax", "v0.12.7", ("tests",),
            ("cloudpickle", "einops", "jaxtyping", "ml-collections", "optax", "treescope"),
            {"JAX_NUMPY_RANK_PROMOTION": "raise", "FLAX_PROFILE": "1", "JAX_NUM_CPU_DEVICES": "4",
             "TRIPONT_NUM_DEVICES": "4"},
            {"tests/tensorboard_test.py": "writes logs with TensorFlow",
             "tests/io_test.py": "reads and writes files with TensorFlow"},
        ),
        Package(
            "optax", "optax==0.2.8", "https://github.com/google-deepmind/optax", "v0.2.8", ("optax",),
            ("flax", "scikit-learn", "scipy"),
        ),
        Package(
            "equinox", "equinox==0.13.8", "https://github.com/patrick-kidger/equinox", "v0.13.8", ("tests",),
            (*_TYPES, "optax"), _TWO_DEVICES,
        ),
        Package(
            "diffrax", "diffrax==0.7.2", "https://github.com/patrick-kidger/diffrax", "v0.7.2", ("test",),
            (*_TYPES, "optax", "scipy", "tqdm"),
        ),
        Package(
            "lineax", "lineax==0.1.1", "https://github.com/patrick-kidger/lineax", "v0.1.1", ("tests",),
            (*_TYPES, "equinox"),
        ),
        Package(
            "optimistix", "optimistix==0.1.0", "https://github.com/patrick-kidger/optimistix", "v0.1.0",
            ("tests",), (*_TYPES, "diffrax", "optax", "sif2jax", "fire", "matplotlib", "pytest-benchmark"),
        ),
        Package(
            "numpyro", "numpyro==0.21.0", "https://github.com/pyro-ppl/numpyro", "0.21.0", ("test",),
            ("importlib-metadata<5.0", "dm-haiku", "flax", "funsor", "graphviz", "jaxns", "matplotlib", "optax",
             "pyro-api", "scikit-learn", "scipy", "tfp-nightly"),
            left_out={"test/test_examples.py": "runs the examples, which download data",
                      "test/pyroapi": "tests of Pyro's common interface"},
        ),
        Package(
            "keras", "keras==3.15.1", "https://github.com/keras-team/keras", "v3.15.1", ("keras",),
            ("dm-tree", "jax2onnx", "grain", "orbax-checkpoint", "pandas", "pillow", "requests", "scikit-learn",
             "scipy", "tensorflow-cpu==2.21.*"),
            {"KERAS_BACKEND": "jax"},
            {"keras/src/backend/openvino": "another backend", "keras/src/backend/tensorflow": "another backend",
             "keras/src/backend/torch": "another backend", "keras/src/backend/numpy": "another backend",
             "keras/src/applications": "downloads weights", "keras/src/export/litert_torch_test.py": "needs PyTorch",
             "keras/src/export/torch_test.py": "needs PyTorch", "keras/src/utils/torch_utils_test.py": "needs PyTorch",
             "keras/src/trainers/data_adapters/array_data_adapter_test.py": "needs PyTorch",
             "keras/src/trainers/data_adapters/grain_dataset_adapter_test.py": "needs PyTorch",
             "keras/src/trainers/data_adapters/torch_data_loader_adapter_test.py": "needs PyTorch"},
        ),
        Package(
            "chex", "chex==0.1.92", "https://github.com/google-deepmind/chex", "v0.1.92", ("chex",),
            ("cloudpickle", "dm-tree"), alone=("*fake_set_n_cpu_devices_test.py",),
        ),
        Package(
            "distrax", "distrax==0.1.7", "https://github.com/google-deepmind/distrax", "v0.1.7", ("distrax",),
            ("dm-haiku", "flax", "mock"), alone=("*_float64_test.py",),
        ),
        Package(
            "haiku", "dm-haiku==0.0.16", "https://github.com/google-deepmind/dm-haiku", "v0.0.16", ("haiku",),
            ("chex", "cloudpickle", "dill", "dm-tree", "flax", "mock", "optax", "virtualenv"),
            left_out={"haiku/_src/integration/jax2tf_test.py": "converts to TensorFlow",
                      "haiku/_src/integration/doctest_test.py": "needs TensorFlow"},
            alone=("*float64_test.py",),
        ),
    )
}  # fmt: skip
