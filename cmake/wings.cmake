# Wings (core/compiler/wings.py) that have C++ of their own. What a wing has registers itself, and the rest names none of
# it, so that a build can do without: TRIPONT_WITHOUT="kernels;interop" leaves it out. (TRIPONT_TENSORFLOW says the same of
# the wing `tensorflow`; the backend of the wing `sycl` is the folder core/runtime/backends/sycl.)
set(TRIPONT_WITHOUT "" CACHE STRING "Wings whose C++ is left out, with semicolons: kernels, interop")

set(TRIPONT_CXX_WINGS kernels interop)
set(TRIPONT_BINDINGS_OF_kernels kernels.cc)
set(TRIPONT_BINDINGS_OF_interop exchange.cc frameworks.cc)

foreach(wing IN LISTS TRIPONT_WITHOUT)
  if(NOT "${wing}" IN_LIST TRIPONT_CXX_WINGS)
    message(FATAL_ERROR "TRIPONT_WITHOUT: there is no wing \"${wing}\"; the wings with C++ are: ${TRIPONT_CXX_WINGS}")
  endif()
  list(REMOVE_ITEM TRIPONT_CXX_WINGS ${wing})
endforeach()
