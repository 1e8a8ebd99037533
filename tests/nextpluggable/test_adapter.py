"""The two libraries of the adapter: loading, refusing, and every function of the table that TensorFlow gets."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tripont
import tripont.tensorflow

from .conftest import Run, runner

PACKAGE = Path(tripont.library_path()).parent.parent
PLUGIN = PACKAGE.parent / "tensorflow-plugins" / "libtripont_plugin.so"

# A TF_Version for LD_PRELOAD, which the loader asks before anything else: its first answers are one version, the later
# ones another.
OTHER_VERSIONS = """
#include <stdlib.h>
const char* TF_Version(void) {
  static int asked = 0;
  return getenv(asked++ < atoi(getenv("ASKED_BY_FIRST")) ? "FIRST_VERSION" : "SECOND_VERSION");
}
"""
RunAsVersions = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run_as_versions() -> Iterator[RunAsVersions]:
    """``run_as_versions(folder, program, environment, first, second, asked_by_first)``.

    TensorFlow opens the plugin in ``folder`` after that of this installation, and says that it is ``second`` once it
    has said ``asked_by_first`` times that it is ``first``.
    """
    with tempfile.TemporaryDirectory() as built:
        source, library = Path(built, "version.c"), Path(built, "version.so")
        source.write_text(OTHER_VERSIONS)
        subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        # Behind a sanitizer's library, which has to be the first.
        preloaded = {"LD_PRELOAD": f"{os.environ.get('LD_PRELOAD', '')} {library}"}
        with runner(**preloaded) as run_program:

            def run(
                folder: Path,
                program: str,
                environment: dict[str, str],
                first: str,
                second: str,
                asked_by_first: int,
            ) -> subprocess.CompletedProcess[str]:
                environment = environment | preloaded
                environment["FIRST_VERSION"] = first
                environment["SECOND_VERSION"] = second
                environment["ASKED_BY_FIRST"] = str(asked_by_first)
                environment["TF_PLUGGABLE_DEVICE_LIBRARY_PATH"] = str(folder)
                return run_program(program, environment)

            yield run


def run(program: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def test_import_lists_the_device_and_python_ends(subprocess_environment: dict[str, str]) -> None:
    """Python frees what a function has kept after the device: with a crash, if the context went with Python."""
    program = """
import tensorflow as tf
assert [d.name for d in tf.config.list_physical_devices("XPU")] == ["/physical_device:XPU:0"]
with tf.device("XPU:0"):
    x = tf.constant([1.0, 2.0])
    y = x + x
assert y.device.endswith("/device:XPU:0"), y.device
assert y.numpy().tolist() == [2.0, 4.0]
z = tf.add(tf.constant([1.0]), 1.0)
assert z.device.endswith("/device:CPU:0"), z.device  # the default is still the CPU
captured = tf.constant([1.0, 2.0])
with tf.device("XPU:0"):
    function = tf.function(lambda: captured + 1, jit_compile=True)
    print(function().numpy())
"""
    result = run(program, subprocess_environment)
    assert result.returncode == 0, result.stderr
    assert "tripont" not in result.stdout + result.stderr.replace(str(PACKAGE), "")
    assert "[2. 3.]" in result.stdout


# A nightly build has the number of the release after it, and other classes.
@pytest.mark.parametrize("version", ["2.99.1", "2.21.0-dev20251101"])
def test_another_tensorflow_is_refused_and_works_without_xpu(
    version: str,
    subprocess_environment: dict[str, str],
    tmp_path: Path,
    run_as_versions: RunAsVersions,
) -> None:
    program = f"""
import tensorflow as tf
assert tf.config.list_physical_devices("XPU") == []
assert tf.add([1.0], [2.0]).numpy().tolist() == [3.0]
import tripont.tensorflow
problem = tripont.tensorflow.problem()
assert tripont.tensorflow.built_for() in problem and "{version}" in problem
try:
    tripont.tensorflow.check()
except RuntimeError as error:
    assert "{version}" in str(error)
else:
    raise AssertionError("no error")
with tf.device("/device:XPU:0"):
    try:
        print(tf.add([1.0], [2.0]).device)  # soft placement
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        print(error)
"""
    folder = tmp_path / "tensorflow-plugins"
    folder.symlink_to(PLUGIN.parent)
    result = run_as_versions(folder, program, subprocess_environment, version, version, 0)
    assert result.returncode == 0, result.stderr
    message = (
        f"built for TensorFlow {tripont.tensorflow.built_for()}, and this is TensorFlow {version}"
    )
    assert result.stderr.count(message) == 1, result.stderr


def test_a_device_that_does_not_start_leaves_tensorflow_working(
    subprocess_environment: dict[str, str], run_program: Run
) -> None:
    program = """
import tensorflow as tf
assert tf.config.list_physical_devices("XPU") == []
assert tf.add([1.0], [2.0]).numpy().tolist() == [3.0]
"""
    result = run_program(program, subprocess_environment | {"TRIPONT_NUM_DEVICES": "many"})
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("TensorFlow runs without the device XPU") == 1, result.stderr
    assert "TRIPONT_NUM_DEVICES" in result.stderr


ONE_DEVICE = """
import sys
import tensorflow as tf
assert [d.name for d in tf.config.list_physical_devices()] == [
    "/physical_device:CPU:0", "/physical_device:XPU:0"
]
import tripont.tensorflow
tripont.tensorflow.check()
tf.profiler.experimental.start(sys.argv[1])
with tf.device("XPU:0"):
    assert tf.add([1.0], [2.0]).device.endswith("XPU:0")
    function = tf.function(lambda x: x + 1, jit_compile=True)
    assert function(tf.constant([1.0, 2.0])).numpy().tolist() == [2.0, 3.0]
tf.profiler.experimental.stop()
"""


def test_the_same_plugin_in_two_folders_is_one_device(
    subprocess_environment: dict[str, str], tmp_path: Path, run_program: Run
) -> None:
    """As where a virtual environment's lib64 is a link to its lib: TensorFlow would end the process."""
    (tmp_path / "tensorflow-plugins").symlink_to(PLUGIN.parent)
    program = ONE_DEVICE.replace("sys.argv[1]", repr(str(tmp_path / "profile")))
    second = {"TF_PLUGGABLE_DEVICE_LIBRARY_PATH": str(tmp_path / "tensorflow-plugins")}
    result = run_program(program, subprocess_environment | second)
    assert result.returncode == 0, result.stderr
    assert "tripont:" not in result.stderr


def copied_installation(folder: Path) -> Path:
    """Copies the libraries of this installation; the folder of the plugin."""
    for library in (PLUGIN, *(PACKAGE / "lib").glob("libtripont*.so")):
        copy = folder / library.relative_to(PACKAGE.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, copy)
    return folder / "tensorflow-plugins"


@pytest.mark.parametrize(
    ("first", "second", "devices"),
    [("", "2.99.1", 1), ("2.99.1", "", 1), ("2.99.1", "2.99.1", 0)],
    ids=["the second", "the first", "both"],
)
def test_an_installation_for_another_tensorflow_beside_one(
    first: str,
    second: str,
    devices: int,
    subprocess_environment: dict[str, str],
    tmp_path: Path,
    run_as_versions: RunAsVersions,
) -> None:
    program = f"""
import tensorflow as tf
assert len(tf.config.list_physical_devices("XPU")) == {devices}
assert len(tf.config.list_physical_devices()) == 1 + {devices}
if {devices}:
    with tf.device("XPU:0"):
        assert tf.add([1.0], [2.0]).device.endswith("XPU:0")
"""
    built_for = tripont.tensorflow.built_for()
    result = run_as_versions(
        copied_installation(tmp_path),
        program,
        subprocess_environment,
        first or built_for,
        second or built_for,
        2 if first else 1,  # a plugin that is refused asks once more, for its message
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("this is TensorFlow 2.99.1") == 2 - devices, result.stderr


def test_of_two_installations_one_has_the_device(
    subprocess_environment: dict[str, str], tmp_path: Path, run_program: Run
) -> None:
    second = copied_installation(tmp_path)
    program = ONE_DEVICE.replace("sys.argv[1]", repr(str(tmp_path / "profile")))
    program += f"""
import ctypes
problem = ctypes.CDLL({str(second / PLUGIN.name)!r}).tripont_plugin_problem
problem.restype = ctypes.c_char_p
assert {str(tmp_path)!r} in problem().decode()
"""
    environment = subprocess_environment | {"TF_PLUGGABLE_DEVICE_LIBRARY_PATH": str(second)}
    result = run_program(program, environment)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("TensorFlow found two installations") == 1


def test_jax_does_not_load_the_adapter(subprocess_environment: dict[str, str]) -> None:
    program = """
import jax
jax.devices("xpu")
maps = open("/proc/self/maps").read()
assert "libtripont.so" in maps
assert "libtripont_tensorflow" not in maps and "libtripont_plugin" not in maps
assert "libtensorflow" not in maps
"""
    result = run(program, subprocess_environment)
    assert result.returncode == 0, result.stderr


def test_the_plugin_lies_where_tensorflow_looks() -> None:
    site = Path(sysconfig.get_paths()["purelib"])
    assert (site / "tensorflow-plugins" / PLUGIN.name).is_file()


@pytest.mark.parametrize("library", [PLUGIN, PACKAGE / "lib" / "libtripont_tensorflow.so"])
def test_the_libraries_show_their_interface_alone(library: Path) -> None:
    """Other libraries of the process must not bind to what the adapter holds of the C++ library, and the like."""
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    names = [line.split()[-1] for line in symbols.splitlines()]
    assert names
    ours = ("GetPjrtApi", "TFNPD_Init", "TF_Init", "tripont_")
    assert [name for name in names if not name.startswith(ours)] == []


class Int64List(ctypes.Structure):
    class _Elements(ctypes.Union):
        _fields_ = (("heap", ctypes.POINTER(ctypes.c_int64)), ("inlined", ctypes.c_int64 * 6))

    _anonymous_ = ("elements",)
    _fields_ = (("elements", _Elements), ("size", ctypes.c_int64))

    @classmethod
    def of(cls, values: list[int]) -> Int64List:
        result = cls(size=len(values))
        if len(values) > 6:
            result.heap = (ctypes.c_int64 * len(values))(*values)
        else:
            result.inlined[: len(values)] = values
        return result

    def values(self) -> list[int]:
        return list((self.heap if self.size > 6 else self.inlined)[: self.size])


class BoolList(ctypes.Structure):
    class _Elements(ctypes.Union):
        _fields_ = (("heap", ctypes.POINTER(ctypes.c_bool)), ("inlined", ctypes.c_bool * 6))

    _anonymous_ = ("elements",)
    _fields_ = (("elements", _Elements), ("size", ctypes.c_int64))


class TileList(ctypes.Structure):
    class _Elements(ctypes.Union):
        _fields_ = (("heap", ctypes.POINTER(Int64List)), ("inlined", Int64List * 6))

    _anonymous_ = ("elements",)
    _fields_ = (("elements", _Elements), ("size", ctypes.c_int64))


class Layout(ctypes.Structure):
    _fields_ = (
        ("minor_to_major", Int64List),
        ("tiles", TileList),
        ("index_primitive_type", ctypes.c_int),
        ("pointer_primitive_type", ctypes.c_int),
        ("element_size_in_bits", ctypes.c_int64),
        ("memory_space", ctypes.c_int64),
        ("dynamic_shape_metadata_prefix_bytes", ctypes.c_int64),
        ("tail_padding_alignment_in_elements", ctypes.c_int64),
    )


class Shape(ctypes.Structure):
    pass


Shape._fields_ = (
    ("element_type", ctypes.c_int),
    ("dimensions", Int64List),
    ("dynamic_dimensions", BoolList),
    ("tuple_shapes", ctypes.POINTER(Shape)),
    ("ntuple_shapes", ctypes.c_int),
    ("has_layout", ctypes.c_bool),
    ("layout", Layout),
)

# TFNPD_Api after struct_size and priv, in the header's order.
FUNCTIONS = [
    "NewDeviceEvent",
    "DeviceEventAwait",
    "DeviceEventIsReady",
    "DeviceEventAndThen",
    "DeviceEventDelete",
    "DeviceAllocatorCreate",
    "DeviceAllocateRaw",
    "DeviceDeallocateRaw",
    "DeviceAllocatorName",
    "DeviceAllocatorAllocatesOpaqueHandle",
    "DeviceAllocatorDelete",
    "DeviceContextCreate",
    "DeviceContextDelete",
    "DeviceTensorToHostTensor",
    "HostTensorToDeviceTensor",
    "SameDeviceTensorCopy",
    "SameDevicePjRtBufferCopy",
    "XlaShapeToDeviceShapeRepresentation",
    "GetDeviceCount",
    "InitPluginInternalDeviceStates",
]


class Api(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("priv", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in FUNCTIONS),
    )


class PluginParams(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("ext", ctypes.c_void_p),
        ("device_type", ctypes.c_char_p),
        ("compilation_device_name", ctypes.c_char_p),
        ("priority", ctypes.c_int32),
        ("is_pluggable_device", ctypes.c_bool),
        ("use_pjrt_on_demand_compile", ctypes.c_bool),
    )


@pytest.fixture(scope="module")
def tensorflow_library() -> ctypes.CDLL:
    """TensorFlow's C functions (TF_NewStatus and the like)."""
    import tensorflow as tf

    library = ctypes.CDLL(os.path.join(tf.sysconfig.get_lib(), "libtensorflow_framework.so.2"))
    library.TF_NewStatus.restype = ctypes.c_void_p
    library.TF_Message.restype = ctypes.c_char_p
    return library


@pytest.fixture(scope="module")
def api(tensorflow_library: ctypes.CDLL) -> Api:
    """The table that libtripont_plugin.so gives for devices that are not there: the functions are the same ones."""
    table = ctypes.CDLL(str(PLUGIN)).tripont_plugin_functions
    table.restype = ctypes.POINTER(Api)
    api: Api = table().contents
    return api


def function(api: Api, name: str, result: object, *arguments: object) -> ctypes._CFuncPtr:
    return ctypes.CFUNCTYPE(result, *arguments)(getattr(api, name))  # type: ignore[arg-type]


def test_no_function_is_missing(api: Api) -> None:
    assert api.struct_size == ctypes.sizeof(Api)
    assert [name for name in FUNCTIONS if getattr(api, name) is None] == []


def test_events_are_ready(api: Api, tensorflow_library: ctypes.CDLL) -> None:
    pointer = ctypes.c_void_p
    status = tensorflow_library.TF_NewStatus()
    event = function(api, "NewDeviceEvent", pointer)()
    assert function(api, "DeviceEventIsReady", ctypes.c_bool, pointer)(event)
    function(api, "DeviceEventAwait", None, pointer, pointer)(event, status)
    assert tensorflow_library.TF_GetCode(pointer(status)) == 0
    called = []
    callback_type = ctypes.CFUNCTYPE(None, pointer)
    callback = callback_type(called.append)
    function(api, "DeviceEventAndThen", None, pointer, callback_type, pointer)(event, callback, 7)
    assert called == [7]
    function(api, "DeviceEventDelete", None, pointer)(event)


def test_allocator_and_context(api: Api) -> None:
    pointer = ctypes.c_void_p
    allocator = function(api, "DeviceAllocatorCreate", pointer, ctypes.c_int)(0)
    allocate = function(
        api, "DeviceAllocateRaw", pointer, pointer, ctypes.c_size_t, ctypes.c_size_t
    )
    memory = allocate(allocator, 256, 1000)
    assert memory % 256 == 0
    ctypes.memset(memory, 1, 1000)
    function(api, "DeviceDeallocateRaw", None, pointer, pointer)(allocator, memory)
    assert not function(api, "DeviceAllocatorAllocatesOpaqueHandle", ctypes.c_bool, pointer)(
        allocator
    )
    function(api, "DeviceAllocatorDelete", None, pointer)(allocator)
    context = function(api, "DeviceContextCreate", pointer, ctypes.c_int)(0)
    assert context
    function(api, "DeviceContextDelete", None, pointer)(context)


@pytest.mark.parametrize("name", ["DeviceTensorToHostTensor", "HostTensorToDeviceTensor"])
def test_transfers_of_tensors_say_that_they_are_not_there(
    api: Api, tensorflow_library: ctypes.CDLL, name: str
) -> None:
    pointer = ctypes.c_void_p
    status = tensorflow_library.TF_NewStatus()
    event = function(api, name, pointer, pointer, pointer, pointer, pointer)(
        None, None, None, status
    )
    unimplemented = 12
    assert tensorflow_library.TF_GetCode(pointer(status)) == unimplemented
    assert f"TFNPD_{name}" in tensorflow_library.TF_Message(pointer(status)).decode()
    function(api, "DeviceEventDelete", None, pointer)(event)


@pytest.mark.parametrize("rank", [0, 1, 6, 7, 12])
def test_device_shapes_are_deep_copies(
    api: Api, tensorflow_library: ctypes.CDLL, rank: int
) -> None:
    """Of a tuple of two arrays: lists of more than six elements lie behind pointers, which both structs must own."""
    dimensions = list(range(2, 2 + rank))
    array = Shape(element_type=11, dimensions=Int64List.of(dimensions), has_layout=True)
    array.dynamic_dimensions.size = rank
    flags = (ctypes.c_bool * rank)(*(d % 2 == 0 for d in dimensions))
    if rank > 6:
        array.dynamic_dimensions.heap = flags
    else:
        array.dynamic_dimensions.inlined[:rank] = list(flags)
    array.layout.minor_to_major = Int64List.of(list(reversed(range(rank))))
    array.layout.memory_space = 3
    tuple_shape = Shape(element_type=13, ntuple_shapes=2, tuple_shapes=(Shape * 2)(array, array))
    copy = Shape()
    status = tensorflow_library.TF_NewStatus()
    convert = function(
        api,
        "XlaShapeToDeviceShapeRepresentation",
        None,
        ctypes.POINTER(Shape),
        ctypes.c_int,
        ctypes.c_bool,
        ctypes.c_int,
        ctypes.POINTER(Shape),
        ctypes.c_void_p,
    )
    convert(tuple_shape, 1, False, 0, copy, status)
    assert tensorflow_library.TF_GetCode(ctypes.c_void_p(status)) == 0
    assert (copy.element_type, copy.ntuple_shapes, copy.has_layout) == (13, 2, False)
    for i in range(2):
        element = copy.tuple_shapes[i]
        assert element.element_type == 11
        assert element.dimensions.values() == dimensions
        dynamic = element.dynamic_dimensions
        got = (dynamic.heap if rank > 6 else dynamic.inlined)[:rank]
        assert list(got) == list(flags)
        assert element.layout.minor_to_major.values() == list(reversed(range(rank)))
        assert element.layout.memory_space == 3
        if rank > 6:
            given, copied = (
                ctypes.addressof(shape.dimensions.heap.contents) for shape in (array, element)
            )
            assert given != copied
