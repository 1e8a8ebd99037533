# The C++ side of core/schema, on the include path of everything: #include "core/schema/element_types.h".
file(GLOB tripont_schema CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/../core/schema/*.py")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${tripont_schema})
set(TRIPONT_GENERATED "${CMAKE_BINARY_DIR}/generated")
set(TRIPONT_GENERATE_SCHEMA
  "${CMAKE_COMMAND}" -E env --unset=PYTHONSAFEPATH "${Python_EXECUTABLE}" -B -m schema.generate "${TRIPONT_GENERATED}")
execute_process(COMMAND ${TRIPONT_GENERATE_SCHEMA}
  WORKING_DIRECTORY "${CMAKE_CURRENT_LIST_DIR}/../core" COMMAND_ERROR_IS_FATAL ANY)
include_directories("${TRIPONT_GENERATED}")
