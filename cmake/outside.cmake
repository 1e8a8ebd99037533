# C++ that tests and examples compile by themselves, while they run. A target that nothing builds gives these files
# compile commands, so that `make tidy` reads them too (run_clang_tidy.sh).
option(TRIPONT_OUTSIDE "Compile commands for the C++ that tests and examples compile by themselves" OFF)
if(NOT TRIPONT_OUTSIDE)
  return()
endif()

add_library(tripont_outside OBJECT EXCLUDE_FROM_ALL
  tests/core/runtime/backends/checked/backend.cc
  tests/fuzzers/artifact.cc
  tests/fuzzers/c_api.cc
  tests/fuzzers/compile_options.cc
  tests/pjrt/hard_times.cc
  tests/pjrt/refused_memory.cc)
target_include_directories(tripont_outside PRIVATE "${PROJECT_SOURCE_DIR}")
target_include_directories(tripont_outside SYSTEM PRIVATE "${PJRT_INCLUDE_DIR}")
target_link_libraries(tripont_outside PRIVATE tripont_core)

# JAX's own headers of its FFI, which are others than TensorFlow's.
execute_process(COMMAND "${Python_EXECUTABLE}" -c "import jax.ffi; print(jax.ffi.include_dir())"
  OUTPUT_VARIABLE jax_ffi_folder OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
add_library(tripont_outside_jax OBJECT EXCLUDE_FROM_ALL tests/frontends/jax/ffi_handlers.cc)
target_include_directories(tripont_outside_jax SYSTEM PRIVATE "${jax_ffi_folder}")

if(TRIPONT_WITH_TENSORFLOW)
  add_library(tripont_outside_tensorflow OBJECT EXCLUDE_FROM_ALL
    examples/tensorflow_custom_kernel/run_length_encode.cc
    tests/nextpluggable/data/test_ops.cc)
  target_include_directories(tripont_outside_tensorflow PRIVATE nextpluggable/include)
  target_include_directories(tripont_outside_tensorflow SYSTEM PRIVATE "${TENSORFLOW_INCLUDE_DIR}")
endif()
