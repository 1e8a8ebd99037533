# Options of every C++ target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Release keeps line tables: a crash report names the line, and the library stays small.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
add_compile_options(-Wall -Wextra)

option(TRIPONT_WERROR "Treat warnings as errors" OFF)
if(TRIPONT_WERROR)
  add_compile_options(-Werror)
endif()

# One build finds one kind of mistake: the thread sanitizer cannot be combined with others. `make test-asan`, `-ubsan`
# and `-tsan` build in folders of their own and run the tests (cmake/sanitized.py).
set(TRIPONT_SANITIZE OFF CACHE STRING
  "Build with a sanitizer: address, undefined, thread; ON: address and undefined; OFF: none")
set_property(CACHE TRIPONT_SANITIZE PROPERTY STRINGS OFF ON address undefined thread)
if(TRIPONT_SANITIZE)
  set(sanitizers "${TRIPONT_SANITIZE}")
  if(NOT sanitizers MATCHES "^[a-z,]+$")
    set(sanitizers "address,undefined")
  endif()
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1 -DNDEBUG")  # whole stacks in reports, and a build in half the time
  add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${sanitizers})
endif()

# Half of a build's time would go to parsing the same standard headers again: most targets have them precompiled
# (standard_headers.h), and the bindings and the TensorFlow bridge, whose headers are ten times as large, are compiled
# as a few translation units. -DCMAKE_UNITY_BUILD=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON compiles each file alone,
# as `make lint` reads them.
set(TRIPONT_STANDARD_HEADERS "${CMAKE_CURRENT_LIST_DIR}/standard_headers.h")
option(CMAKE_UNITY_BUILD "Compile the bindings and the TensorFlow bridge as a few translation units" ON)
# A wheel is built once, so the runtime and pjrt are a few translation units there too: half of the time. In a
# development build each file is one, because a change to a file is compiled many times.
set(TRIPONT_UNITY_RUNTIME OFF)
if(SKBUILD AND CMAKE_UNITY_BUILD)
  set(TRIPONT_UNITY_RUNTIME ON)
endif()

# What only tests and benchmarks use of the runtime (tests/core/runtime/testing.cc) is not a part of a wheel.
set(testing ON)
if(SKBUILD AND NOT SKBUILD_STATE STREQUAL "editable")
  set(testing OFF)
endif()
option(TRIPONT_TESTING "Compile tripont.core._tripont.testing" ${testing})

# These protections make a mistake with memory end the process, so that no attack can build on the mistake: canaries in
# functions with arrays, checked variants of memcpy and the like, and tables of addresses that are read-only after
# loading. Sanitizers check more, and _FORTIFY_SOURCE hides calls from them. (_GLIBCXX_ASSERTIONS would cost 4 % of a
# small program's dispatch.)
option(TRIPONT_HARDEN "Build with the compiler's protections of memory" ON)
if(TRIPONT_HARDEN)
  add_compile_options(-fstack-protector-strong)
  if(NOT TRIPONT_SANITIZE)
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  endif()
  add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness is what ccache's manual asks for where headers are precompiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${CCACHE_PROGRAM}")
endif()
