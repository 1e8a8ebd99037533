# TRIPONT_PORTABLE: libraries for `make wheel`, which run wherever there is glibc 2.28 or newer.
option(TRIPONT_PORTABLE "Link for glibc 2.28 (x86-64, GCC, and the wheel ziglang in the environment)" OFF)
if(TRIPONT_PORTABLE)
  foreach(kind IN ITEMS LIBRARY MODULE)
    string(REPLACE "<CMAKE_CXX_COMPILER>"
      "\"${Python_EXECUTABLE}\" \"${CMAKE_CURRENT_LIST_DIR}/link_portable.py\" <CMAKE_CXX_COMPILER>"
      CMAKE_CXX_CREATE_SHARED_${kind} "${CMAKE_CXX_CREATE_SHARED_${kind}}")
  endforeach()
endif()
