"""Everything that depends on JAX's version: each use of a name that JAX does not promise to keep.

Written for JAX 0.10.2 to 0.12. A function here either does its work or raises; :mod:`.register` decides what a failure
means. When JAX changes, this is the file to change.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

import jax
import numpy as np
from jax._src import (
    callback,
    compilation_cache,
    core,
    debugging,
    dtypes,
    ffi,
    sharding_impls,
    xla_bridge,
)
from jax._src.interpreters import mlir, pxla
from jax._src.lax import lax, special
from jax._src.lib import _jax as jaxlib_module  # type: ignore[attr-defined]
from jax._src.lib import xla_client  # type: ignore[attr-defined]
from jax.interpreters import mlir as public_mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func, stablehlo

OLDEST = (0, 10, 2)

#: Loggers that are told what a callback raised, with its traceback, on the thread that called back.
CALLBACK_LOGGERS = ("jax._src.callback", "jax._src.debugging")


def jax_version() -> tuple[int, ...]:
    return tuple(jax.__version_info__)


def selected_platforms() -> list[str]:
    """The platforms that the user chose by JAX_PLATFORMS or jax.config; empty when JAX is to choose."""
    value: str | None = jax.config.jax_platforms  # type: ignore[attr-defined]
    return value.split(",") if value else []


def register_plugin(
    platform: str,
    library_path: str,
    make_options: Callable[[], dict[str, str | int | bool]],
    priority: int,
    on_failure: Callable[[Exception], None],
) -> None:
    """Register a PJRT plugin whose client is made when JAX first needs a backend.

    If the client cannot be made, ``on_failure`` is told, and JAX goes on with its other platforms (unless the
    user asked for this one by name, in which case JAX raises).
    """

    def factory() -> Any:
        try:
            return xla_bridge.make_pjrt_c_api_client(platform, options=make_options)
        except Exception as error:
            on_failure(error)
            raise

    plugin = xla_bridge.register_plugin(
        platform, priority=priority, library_path=library_path, factory=factory
    )

    def make_topology(name: str = "", **options: Any) -> Any:
        if not xla_client.pjrt_plugin_initialized(platform):
            xla_client.initialize_pjrt_plugin(platform)
        return xla_client.make_c_api_device_topology(plugin, name, **(make_options() | options))

    xla_bridge._topology_factories[platform] = make_topology
    # register_plugin has no arguments for these two: fail quietly because `on_failure` already spoke, and do not print
    # "Platform 'xpu' is experimental" in every program.
    registration = xla_bridge._backend_factories[platform]
    xla_bridge._backend_factories[platform] = dataclasses.replace(
        registration, fail_quietly=True, experimental=False
    )


def rename_platform(platform: str, name_for: Callable[[FrameType], str]) -> None:
    """Have ``device.platform`` and ``backend.platform`` of ``platform`` be what ``name_for`` says for their caller.

    ``jax.default_backend()`` asks on behalf of its caller.
    """
    on_behalf = xla_bridge.default_backend.__code__

    def renamed(original: Any) -> property:
        def get(self: Any) -> Any:
            name = original.__get__(self)
            if name != platform:
                return name
            caller = sys._getframe(1)
            while caller.f_code is on_behalf and caller.f_back is not None:
                caller = caller.f_back
            return name_for(caller)

        return property(get, doc=original.__doc__)

    for holder in (xla_client.Device, xla_client.Client):
        holder.platform = renamed(holder.__dict__["platform"])


def analyse_costs_before_compiling(platform: str) -> None:
    """Have ``Lowered.cost_analysis()`` give XLA's estimate of the program as it is, before any compiler has seen it.

    JAX refuses that to every plugin, because the function of XLA's asks a client of jaxlib's own. The estimate does not
    depend on which one: that of JAX's CPU backend will do.
    """
    original = pxla.MeshComputation.cost_analysis

    def cost_analysis(self: Any) -> Any:
        if self.compile_args["backend"].platform != platform:
            return original(self)
        try:
            host = xla_bridge.get_backend("cpu")
        except RuntimeError:  # JAX_PLATFORMS=xpu
            return original(self)
        return jaxlib_module.hlo_module_cost_analysis(host, self.hlo().as_hlo_module())

    pxla.MeshComputation.cost_analysis = cost_analysis  # type: ignore[method-assign]


def enable_donation(platform: str) -> None:
    """Have ``donate_argnums`` reach the plugin. JAX drops it for platforms that are not in this list."""
    if platform not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(platform)


def enable_persistent_cache(platform: str) -> None:
    """Have JAX's persistent compilation cache (``jax_compilation_cache_dir``) serve ``platform``.

    JAX asks ``is_cache_used(backend)``, and that function knows the platforms it supports from a list inside itself.
    So the function is wrapped: our backend is shown to it as one that it knows, every other backend as it is.
    """
    original = compilation_cache.is_cache_used
    if getattr(original, "tripont_platform", None) == platform:
        return
    known = SimpleNamespace(platform="cpu", supports_executable_serialization=True)

    def is_cache_used(backend: Any) -> bool:
        return bool(original(known if backend.platform == platform else backend))

    is_cache_used.tripont_platform = platform  # type: ignore[attr-defined]
    compilation_cache.is_cache_used = is_cache_used


def export_for_tensorflow(platform: str) -> None:
    """Have ``jax2tf.convert`` export for TensorFlow's CPU where JAX's default platform is ``platform``.

    TensorFlow runs an exported program only on a platform that the program names, and knows no other than CPU, CUDA,
    ROCM and TPU. The device XPU of TensorFlow runs programs for the CPU. ``native_serialization_platforms`` goes first.
    """
    from jax._src.export import _export

    original = _export.default_export_platform

    # jax2tf, which imports TensorFlow, may be imported at any time. Its exports come by here.
    def default_export_platform() -> str:
        _convert_for_cpu(platform)
        return original()

    _export.default_export_platform = default_export_platform
    _convert_for_cpu(platform)


def _convert_for_cpu(platform: str) -> None:
    jax2tf = sys.modules.get("jax.experimental.jax2tf.jax2tf")
    conversion: Any = getattr(jax2tf, "NativeSerializationImpl", None)
    if conversion is None or hasattr(conversion, "tripont_platform"):
        return
    export, run = conversion.before_conversion, conversion.run_fun_tf

    def before_conversion(self: Any) -> None:
        if not self.native_serialization_platforms and xla_bridge.default_backend() == platform:
            self.native_serialization_platforms = ("cpu",)
        export(self)

    # The export in whose course jax2tf was found has begun without the function above.
    def run_fun_tf(self: Any, arguments: Any) -> Any:
        if self.exported.platforms == (platform,):
            self._restore_context()
            self.before_conversion()
        return run(self, arguments)

    conversion.before_conversion, conversion.run_fun_tf = before_conversion, run_fun_tf
    conversion.tripont_platform = platform


def primitives_without_lowering(platform: str) -> dict[str, Any]:
    """Primitives that some platform can lower, but that have neither a default lowering nor one for ``platform``.

    Returns primitives by name, of the modules imported so far.
    """
    tables = mlir._platform_specific_lowerings
    own = tables.get(platform, {})
    missing = {}
    for table in list(tables.values()):
        for primitive in table:
            if primitive not in mlir._lowerings and primitive not in own:
                missing[primitive.name] = primitive
    return missing


def register_lowering(primitive: Any, rule: Callable[..., Any], platform: str) -> None:
    mlir.register_lowering(primitive, rule, platform=platform)


def lowerings_of(platform: str) -> dict[str, tuple[Any, Callable[..., Any]]]:
    """The lowerings that JAX has for ``platform`` alone: primitive and rule by the primitive's name.

    The names of the modules imported so far.
    """
    table = mlir._platform_specific_lowerings.get(platform, {})
    return {primitive.name: (primitive, entry.rule) for primitive, entry in table.items()}


def lu_pivots_to_permutation_primitive() -> Any:
    from jax._src.lax import linalg

    return linalg.lu_pivots_to_permutation_p


def batched_call_lowering(target: str, dimensions: int) -> Any:
    """A rule for a custom call whose operands' last ``dimensions`` are one problem; devices share those before."""
    from jax._src.lax import linalg

    lowering: Callable[..., Any] = linalg._linalg_ffi_lowering
    return lowering(target, num_non_batch_dims=dimensions, column_major=False)


def portable_rule(primitive: Any) -> Callable[..., Any]:
    """JAX's rule for all platforms."""
    rule: Callable[..., Any] = mlir._lowerings[primitive].rule
    return rule


def is_for_export(context: Any) -> bool:
    """Whether ``jax.export`` lowers the program."""
    return bool(context.module_context.lowering_parameters.for_export)


def portable_lowering(name: str) -> tuple[Any, Callable[..., Any]]:
    """The elementwise primitive ``jax.lax.<name>_p``, and JAX's rule for all platforms."""
    module = lax if hasattr(lax, f"{name}_p") else special
    primitive = getattr(module, f"{name}_p")
    return primitive, mlir._lowerings[primitive].rule


def composite(
    context: Any,
    name: str,
    rule: Callable[..., Any],
    *operands: Any,
    attributes: dict[str, Any] | None = None,
    **parameters: Any,
) -> Any:
    """A composite of that name with the one result of ``context``, whose decomposition is what ``rule`` makes.

    ``attributes``: those of the composite: text, and lists of integers or of text.
    """
    module = context.module_context
    (aval,) = context.avals_out
    results = [mlir.aval_to_ir_type(module, aval)]
    with ir.InsertionPoint(module.module.body):
        function = func.FuncOp(name, ([x.type for x in operands], results), visibility="private")
    symbol = module.symbol_table.insert(function)
    with ir.InsertionPoint(function.add_entry_block()):
        func.ReturnOp(rule(context, *function.arguments, **parameters))
    decomposition = ir.FlatSymbolRefAttr.get(symbol.value)
    written = {key: _attribute(value) for key, value in (attributes or {}).items()}
    return stablehlo.CompositeOp(
        results,
        list(operands),
        name=name,
        decomposition=decomposition,
        composite_attributes=ir.DictAttr.get(written) if written else None,
    ).result


def _attribute(value: Any) -> Any:
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    return ir.ArrayAttr.get([_attribute(item) for item in value])


def splat(context: Any, value: float) -> Any:
    """A constant of the shape and dtype of the context's operand."""
    (aval,) = context.avals_in
    scalar = mlir.ir_constant(np.array(value, aval.dtype))
    return mlir.broadcast_in_dim(context, scalar, aval, broadcast_dimensions=())


def keep_sharding(context: Any, value: Any) -> Any:
    """``value``, an operation's one result, with the sharding that its type in JAX says."""
    return mlir.lower_with_sharding_in_types(  # type: ignore[no-untyped-call]
        context, value, context.avals_out[0]
    )


def set_custom_call_handlers(
    platform: str, target: Callable[..., None], type_: Callable[..., None]
) -> None:
    """Have ``jax.ffi.register_ffi_target`` and ``register_ffi_type`` for ``platform`` call these.

    ``target(name, function, platform, api_version, traits)``, ``type_(name, registration)``.
    """
    xla_client.register_custom_call_handler(platform, target)
    xla_client.register_custom_type_handler(platform, type_)


def replace_callback_emitter(platform: str, emit: Callable[..., Any]) -> None:
    """Have programs for ``platform`` alone use ``emit`` where JAX's rules use ``emit_python_callback``.

    The rules of primitives with callbacks that JAX has for CPUs are registered for ``platform`` too.
    """
    original = callback.emit_python_callback
    if getattr(original, "tripont_platform", None) == platform:
        return

    def emit_python_callback(context: Any, *arguments: Any, **options: Any) -> Any:
        platforms = tuple(context.module_context.platforms)
        chosen = emit if platforms == (platform,) else original
        return chosen(context, *arguments, **options)

    emit_python_callback.tripont_platform = platform  # type: ignore[attr-defined]
    for module in (callback, public_mlir):
        if getattr(module, "emit_python_callback", None) is original:
            module.emit_python_callback = emit_python_callback  # type: ignore[attr-defined]


def note_inspectors(note: Callable[[bytes, Callable[..., Any]], None]) -> None:
    """Have ``note(config, function)`` told of each function that JAX makes for inspect_array_sharding.

    ``config``: what JAX writes into the program for it.
    """
    original = debugging.xc.encode_inspect_sharding_callback  # type: ignore[attr-defined]

    def encode_inspect_sharding_callback(function: Callable[..., Any]) -> bytes:
        config: bytes = original(function)
        note(config, function)
        return config

    debugging.xc.encode_inspect_sharding_callback = encode_inspect_sharding_callback  # type: ignore[attr-defined]


def read_sharding(proto: bytes) -> Any:
    """The HloSharding of a serialized OpSharding."""
    sharding = xla_client.OpSharding()
    sharding.ParseFromString(proto)
    return xla_client.HloSharding.from_proto(sharding)


def emit_custom_call(
    context: Any,
    target: str,
    operands: list[Any],
    token: Any | None,
    *,
    has_side_effect: bool,
    sharding: Any | None,
    **attributes: Any,
) -> tuple[list[Any], Any]:
    """A typed custom call with the context's result types; with a token, in the order of tokens.

    Returns the results and the new token (None without one).
    """
    if token is not None:
        context = dataclasses.replace(
            context,
            avals_in=[core.abstract_token, *context.avals_in],
            avals_out=[core.abstract_token, *context.avals_out],
        )
        operands = [token, *operands]
        if context.avals_out[1:] and isinstance(sharding, sharding_impls.SdyArrayList):
            first = sharding.shardings[0]
            of_token = sharding_impls.SdyArray(  # type: ignore[attr-defined]
                mesh_shape=(), dim_shardings=(), logical_device_ids=first.logical_device_ids
            )
            sharding = sharding_impls.SdyArrayList((of_token, *sharding.shardings))
    lowering = ffi.build_ffi_lowering_function(target, has_side_effect=has_side_effect)
    operation = lowering(context, *operands, **attributes)
    if sharding is not None:
        mlir.set_sharding(context.module_context, operation, sharding)
    results = list(operation.results)
    return (results[1:], results[0]) if token is not None else (results, None)


def x64_enabled() -> bool:
    """Whether this thread has 64-bit types."""
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def canonicalize_value(value: Any) -> Any:
    """A NumPy array of the dtype that JAX would give it (64-bit types become 32-bit ones unless enabled)."""
    return dtypes.canonicalize_value(value)


def follow_rules(names: tuple[str, ...], own: dict[str, Callable[..., Any]], platform: str) -> None:
    """Give the primitives of these names the CPU's rules on ``platform``, and those in ``own`` these rules.

    Now, or when their module is imported; the rule that JAX has for all platforms yields to that of ``own``.
    """
    original = mlir.register_lowering
    if getattr(original, "tripont_platform", None) == platform:
        return

    ours = platform

    def register_lowering(
        prim: Any, rule: Any, platform: str | None = None, *more: Any, **options: Any
    ) -> Any:
        if platform == "cpu" and prim.name in names:
            original(prim, rule, ours, *more, **options)
        if platform is None and prim.name in own:
            original(prim, own[prim.name], ours)
        return original(prim, rule, platform, *more, **options)

    register_lowering.tripont_platform = platform  # type: ignore[attr-defined]
    for module in (mlir, public_mlir):
        if module.register_lowering is original:
            module.register_lowering = register_lowering  # type: ignore[attr-defined]
    for name, (primitive, rule) in lowerings_of("cpu").items():
        if name in names:
            original(primitive, rule, platform=platform)
    for primitive in list(mlir._lowerings):
        if primitive.name in own:
            original(primitive, own[primitive.name], platform=platform)


def execution_stage() -> Any:
    """What jaxlib calls the stage in which a handler of a custom call does its work."""
    from jax._src.lib import ffi as stages

    return stages.ExecutionStage.EXECUTE
