# What the C++ targets need: Python (for pybind11), oneTBB, the header of the PJRT C API, and the oneDNN to bring along.
#
# Sets PJRT_INCLUDE_DIR, TRIPONT_WITH_TENSORFLOW, TENSORFLOW_INCLUDE_DIR, TENSORFLOW_VERSION, and the imported targets TBB::tbb, Threads::Threads and Python::Module.
find_package(Threads REQUIRED)
if(NOT SKBUILD)
  set(Python_FIND_VIRTUALENV FIRST)
endif()
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

function(tripont_ask_python script variable)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/${script}" ${ARGN}
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    set(answer "")
  endif()
  set(${variable} "${answer}" PARENT_SCOPE)
endfunction()

# oneTBB's wheels are for x86-64. Elsewhere the package brings the library along, unless TBB_DIR names another one.
if(TBB_DIR OR CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  if(NOT TBB_DIR)
    tripont_ask_python(find_tbb.py found_tbb)
    if(found_tbb)
      set(TBB_DIR "${found_tbb}" CACHE PATH "Folder of TBBConfig.cmake")
    endif()
  endif()
  find_package(TBB REQUIRED CONFIG COMPONENTS tbb)
else()
  tripont_ask_python(fetch_tbb.py found_tbb)
  if(NOT found_tbb)
    message(FATAL_ERROR "oneTBB could not be downloaded: give the folder of its TBBConfig.cmake by -DTBB_DIR=...")
  endif()
  list(GET found_tbb 0 tbb_headers)
  list(GET found_tbb 1 tbb_folder)
  add_library(TBB::tbb SHARED IMPORTED)
  set_target_properties(TBB::tbb PROPERTIES
    IMPORTED_LOCATION "${tbb_folder}/libtbb.so.12"
    IMPORTED_LOCATION_RELEASE "${tbb_folder}/libtbb.so.12"
    INTERFACE_INCLUDE_DIRECTORIES "${tbb_headers}")
  install(FILES "${tbb_folder}/libtbb.so.12" DESTINATION tripont/lib COMPONENT tripont)
  install(DIRECTORY "${tbb_folder}/licenses/" DESTINATION tripont/lib/licenses/oneTBB COMPONENT tripont)
endif()

# The TensorFlow adapter. A wheel has it for whoever installs TensorFlow later; a development build, which `make
# frameworks` repeats when it has installed TensorFlow, only where it can be used. docs/decisions.md. Nobody has tried
# it on AArch64: there it must be asked for.
if(SKBUILD AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(default_tensorflow ON)
else()
  set(default_tensorflow AUTO)
endif()
set(TRIPONT_TENSORFLOW "${default_tensorflow}" CACHE STRING
  "Build the TensorFlow adapter: ON, OFF, or AUTO: if the TensorFlow that it is written for is installed")
tripont_ask_python(fetch_pjrt_header.py TENSORFLOW_VERSION --version)
set(TENSORFLOW_INCLUDE_DIR "" CACHE PATH
  "Folder that holds tensorflow/c/kernels.h, of the version that cmake/fetch_pjrt_header.py --version says; found if empty")
set(with_tensorflow "${TRIPONT_TENSORFLOW}")
if(with_tensorflow STREQUAL "AUTO")
  tripont_ask_python(fetch_pjrt_header.py with_tensorflow --installed)
endif()
if(with_tensorflow)
  if(NOT TENSORFLOW_INCLUDE_DIR)  # looked for by every configuration: another TensorFlow may have been installed
    tripont_ask_python(fetch_pjrt_header.py TENSORFLOW_INCLUDE_DIR --tensorflow)
  endif()
  if(NOT EXISTS "${TENSORFLOW_INCLUDE_DIR}/tensorflow/c/kernels.h")
    message(FATAL_ERROR "tensorflow/c/kernels.h is not in '${TENSORFLOW_INCLUDE_DIR}': give its folder by "
      "-DTENSORFLOW_INCLUDE_DIR=..., or leave the TensorFlow adapter out by -DTRIPONT_TENSORFLOW=OFF")
  endif()
  message(STATUS "TensorFlow ${TENSORFLOW_VERSION} headers: ${TENSORFLOW_INCLUDE_DIR}")
else()
  message(STATUS "The TensorFlow adapter is not built (TRIPONT_TENSORFLOW=${TRIPONT_TENSORFLOW})")
endif()
set(TRIPONT_WITH_TENSORFLOW "${with_tensorflow}")

set(PJRT_INCLUDE_DIR "" CACHE PATH "Folder that holds xla/pjrt/c/pjrt_c_api.h")
set(pjrt_headers
  xla/pjrt/c/pjrt_c_api.h
  xla/pjrt/c/pjrt_c_api_ffi_extension.h
  xla/pjrt/c/pjrt_c_api_layouts_extension.h
  xla/pjrt/c/pjrt_c_api_profiler_extension.h
  xla/backends/profiler/plugin/profiler_c_api.h)
foreach(header IN LISTS pjrt_headers)
  if(NOT EXISTS "${PJRT_INCLUDE_DIR}/${header}")
    tripont_ask_python(fetch_pjrt_header.py found_pjrt)
    set(PJRT_INCLUDE_DIR "${found_pjrt}" CACHE PATH "" FORCE)
  endif()
  if(NOT EXISTS "${PJRT_INCLUDE_DIR}/${header}")
    message(FATAL_ERROR "${header} is not in '${PJRT_INCLUDE_DIR}': give its folder by -DPJRT_INCLUDE_DIR=... "
      "or in the environment variable TRIPONT_PJRT_INCLUDE_DIR")
  endif()
endforeach()
message(STATUS "PJRT C API header: ${PJRT_INCLUDE_DIR}")

# The wheels of oneDNN are for x86-64; elsewhere kernels are generated in place of its calls.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(ONEDNN_FOLDER "" CACHE PATH "Folder that holds lib/libdnnl.so.3, of a oneDNN 3 that is built for oneTBB")
  set(onednn_folder "${ONEDNN_FOLDER}")
  # What fetch_onednn.py said to an earlier build is asked again: the package's copy may have become another one.
  if(NOT onednn_folder OR onednn_folder MATCHES "/tripont-build/")
    tripont_ask_python(fetch_onednn.py onednn_folder)
  endif()
  if(NOT EXISTS "${onednn_folder}/lib/libdnnl.so.3")
    message(FATAL_ERROR "lib/libdnnl.so.3 is not in '${onednn_folder}': give its folder by -DONEDNN_FOLDER=...")
  endif()
  install(FILES "${onednn_folder}/lib/libdnnl.so.3" DESTINATION tripont/lib COMPONENT tripont)
  install(DIRECTORY "${onednn_folder}/share/doc/onednn/" DESTINATION tripont/lib/licenses/oneDNN COMPONENT tripont)
endif()
