# libtripont.so: the runtime and the PJRT C API in one library, which frameworks load by path.
#
# The folders' targets are object or static libraries; all their code goes in. Only GetPjrtApi and what is declared with
# TRIPONT_EXPORT is visible outside: two frameworks in one process must not see each other's symbols through us.
set(tripont_parts "")
foreach(part IN ITEMS tripont_core tripont_library tripont_pjrt)
  if(TARGET ${part})
    get_target_property(type ${part} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND tripont_parts "$<LINK_LIBRARY:WHOLE_ARCHIVE,${part}>")
    elseif(type STREQUAL "OBJECT_LIBRARY")
      list(APPEND tripont_parts ${part})
    endif()
  endif()
endforeach()

# Beside libtripont.so lies what the package brings along. From <prefix>/lib/python3.x/site-packages/tripont/lib to
# <prefix>/lib, where the wheel of oneTBB puts its library.
set(tripont_rpath "$ORIGIN" "$ORIGIN/../../../..")
if(NOT SKBUILD)
  # A development build runs out of the checkout, so it names the environment's folder itself.
  get_target_property(tbb_library TBB::tbb IMPORTED_LOCATION_RELEASE)
  get_filename_component(tbb_folder "${tbb_library}" DIRECTORY)
  list(APPEND tripont_rpath "${tbb_folder}")
endif()

if(tripont_parts AND NOT TARGET tripont)
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/empty.cc" "")
  add_library(tripont SHARED "${CMAKE_CURRENT_BINARY_DIR}/empty.cc")
  target_link_libraries(tripont PRIVATE ${tripont_parts} TBB::tbb Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(tripont PROPERTIES
    BUILD_RPATH "${tripont_rpath}" INSTALL_RPATH "${tripont_rpath}" LINKER_LANGUAGE CXX)
  target_link_options(tripont PRIVATE
    -Wl,--exclude-libs,ALL -Wl,-z,defs -Wl,-z,relro,-z,now
    "-Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/libtripont.map")
  set_property(TARGET tripont APPEND PROPERTY LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/libtripont.map")
  install(TARGETS tripont LIBRARY DESTINATION tripont/lib COMPONENT tripont)
endif()
