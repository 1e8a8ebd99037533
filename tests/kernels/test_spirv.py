"""tripont.kernels.from_spirv: kernels in SPIR-V on the SYCL CPU device, and what is refused elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.core.runtime.backends.sycl.processes import output
from tests.sycl_packages import needs_sycl
from tripont import kernels

SCALE = """
target triple = "spirv64-unknown-unknown"
declare spir_func i64 @_Z13get_global_idj(i32)
declare spir_func i64 @_Z14get_local_sizej(i32)

define spir_kernel void @scale(ptr addrspace(1) %x, i64 %size, float %factor, i8 %offset, ptr addrspace(1) %y) {
  %i = call spir_func i64 @_Z13get_global_idj(i32 0)
  %inside = icmp ult i64 %i, %size
  br i1 %inside, label %work, label %out
work:
  %px = getelementptr float, ptr addrspace(1) %x, i64 %i
  %a = load float, ptr addrspace(1) %px
  %b = fmul float %a, %factor
  %o = sitofp i8 %offset to float
  %c = fadd float %b, %o
  %py = getelementptr float, ptr addrspace(1) %y, i64 %i
  store float %c, ptr addrspace(1) %py
  br label %out
out:
  ret void
}

define spir_kernel void @group(ptr addrspace(1) %x, i64 %columns, ptr addrspace(1) %y) {
  %i = call spir_func i64 @_Z13get_global_idj(i32 0)
  %n = call spir_func i64 @_Z14get_local_sizej(i32 0)
  %at = mul i64 %i, %columns
  %py = getelementptr i64, ptr addrspace(1) %y, i64 %at
  store i64 %n, ptr addrspace(1) %py
  ret void
}
"""
SIGNATURE = "void scale(const float* x, int64_t x_size, float factor, signed char offset, float* y)"
EMIT = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
machine = llvm.Target.from_triple("spirv64-unknown-unknown").create_target_machine(opt=2)
module = llvm.parse_assembly(sys.stdin.read())
sys.stdout.buffer.write(machine.emit_object(module))
"""
PROGRAM = f"""
import numpy as np, jax, jax.numpy as jnp, tripont.kernels
scale = tripont.kernels.from_spirv({{path!r}}, {SIGNATURE!r})
"""


@pytest.fixture(scope="module")
def module() -> bytes:
    """The SPIR-V of SCALE; LLVM's backend for it keeps state, so it runs in a process of its own."""
    done = subprocess.run([sys.executable, "-c", EMIT], input=SCALE.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture
def path(module: bytes, tmp_path: Path) -> str:
    file = tmp_path / "module.spv"
    file.write_bytes(module)
    return str(file)


@pytest.mark.slow
@needs_sycl
@pytest.mark.parametrize("device", ["sycl:cpu", "sycl:cpu-as-gpu"])
def test_in_programs(path: str, device: str) -> None:
    text = output(
        PROGRAM.format(path=path)
        + """
x = jnp.arange(1000, dtype=jnp.float32).reshape(10, 100)
print(np.array_equal(scale(x, factor=3, offset=-2), 3 * np.asarray(x) - 2))
run = jax.jit(lambda x: jnp.sin(scale(x + 1, factor=0.5, offset=1)) @ x.T)
print(np.allclose(run(x), np.sin((np.asarray(x) + 1) / 2 + 1) @ np.asarray(x).T, rtol=1e-3))
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 5, lambda i, x: scale(x, factor=2, offset=0), x))
print(np.array_equal(loop(x), 32 * np.asarray(x)))
print(scale(x[:0], factor=1, offset=0).shape)
""",
        TRIPONT_DEVICE=device,
    )
    assert text.split("\n")[:4] == ["True", "True", "True", "(0, 100)"]


@pytest.mark.slow
@needs_sycl
def test_rows_and_work_groups(path: str) -> None:
    """A work-item a row; in groups of 8, of which the last is filled up."""
    text = output(
        f"""
import jax, jax.numpy as jnp, tripont.kernels
jax.config.update("jax_enable_x64", True)
group = tripont.kernels.from_spirv(
    {path!r}, "void of_group(const int64_t* x, int64_t x_dim1, int64_t* y)",
    function="group", work="rows", group=8)
x = jnp.zeros((16, 3), jnp.int64)
print(jax.jit(group)(x)[:, 0].tolist())
"""
    )
    assert text.strip() == str([8] * 16)


@pytest.mark.slow
@needs_sycl
def test_what_a_program_names_wrongly_is_an_error_when_it_is_loaded(path: str) -> None:
    text = output(
        PROGRAM.format(path=path)
        + """
call = jax.ffi.ffi_call("scale", jax.ShapeDtypeStruct((3,), jnp.float32))
try:
    call(jnp.ones(3), factor=np.float32(1))
except jax.errors.JaxRuntimeError as error:
    print(error)
"""
    )
    assert "the attribute 'offset' is missing" in text


def test_on_the_host_programs_are_refused(xpu: Any, module: bytes) -> None:
    if "sycl" in xpu.device_kind.lower() or "opencl" in xpu.device_kind.lower():
        pytest.skip("this session's device is a SYCL device")
    kernel = kernels.from_spirv(module, SIGNATURE, name="test.spirv_on_host")
    with jax.default_device(xpu), pytest.raises(jax.errors.JaxRuntimeError) as raised:
        jax.jit(lambda x: kernel(x, factor=1, offset=0))(np.ones(3, np.float32))
    assert "test.spirv_on_host" in str(raised.value)
    assert "runs on SYCL devices: set TRIPONT_DEVICE=sycl" in str(raised.value)


@pytest.mark.parametrize(
    ("signature", "arguments", "message"),
    [
        (SIGNATURE, {"function": "nobody"}, "no kernel 'nobody'; it has scale, group"),
        (SIGNATURE.replace("scale", "other"), {}, "no kernel 'other'"),
        ("int scale(const float* x, float* y)", {}, "returns void"),
        ("void scale(float* y, int64_t begin, int64_t end)", {}, "finds its number itself"),
        ("void scale(float* y, const int64_t* y_dims)", {}, "take x_dim0"),
        ("void scale(float* y, bool flag)", {}, "no bool parameters"),
        (SIGNATURE, {"work": "columns"}, "expected 'elements' or 'rows'"),
    ],
)
def test_signatures_that_do_not_fit(
    module: bytes, signature: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(kernels.SignatureError, match=message):
        kernels.from_spirv(module, signature, **arguments)


@pytest.mark.parametrize("bytes_", [b"", b"not a module at all, nor anything like it"])
def test_what_is_no_module(bytes_: bytes) -> None:
    with pytest.raises(kernels.SignatureError, match="not a SPIR-V module"):
        kernels.from_spirv(bytes_, SIGNATURE)
