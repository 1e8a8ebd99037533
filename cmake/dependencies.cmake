# What the C++ targets need: Python (for pybind11), oneTBB, and the header of the PJRT C API.
#
# Sets PJRT_INCLUDE_DIR, and the imported targets TBB::tbb, Threads::Threads and Python::Module.
find_package(Threads REQUIRED)
if(NOT SKBUILD)
  set(Python_FIND_VIRTUALENV FIRST)
endif()
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

function(tripont_ask_python script variable)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/${script}"
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    set(answer "")
  endif()
  set(${variable} "${answer}" PARENT_SCOPE)
endfunction()

if(NOT TBB_DIR)
  tripont_ask_python(find_tbb.py found_tbb)
  if(found_tbb)
    set(TBB_DIR "${found_tbb}" CACHE PATH "Folder of TBBConfig.cmake")
  endif()
endif()
find_package(TBB REQUIRED CONFIG COMPONENTS tbb)

set(PJRT_INCLUDE_DIR "" CACHE PATH "Folder that holds xla/pjrt/c/pjrt_c_api.h")
if(NOT PJRT_INCLUDE_DIR)
  tripont_ask_python(fetch_pjrt_header.py found_pjrt)
  set(PJRT_INCLUDE_DIR "${found_pjrt}" CACHE PATH "" FORCE)
endif()
if(NOT EXISTS "${PJRT_INCLUDE_DIR}/xla/pjrt/c/pjrt_c_api.h")
  message(FATAL_ERROR "xla/pjrt/c/pjrt_c_api.h is not in '${PJRT_INCLUDE_DIR}': give its folder by -DPJRT_INCLUDE_DIR=... "
    "or in the environment variable TRIPONT_PJRT_INCLUDE_DIR")
endif()
message(STATUS "PJRT C API header: ${PJRT_INCLUDE_DIR}")
