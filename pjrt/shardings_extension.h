// The ABI of the Shardings extension of the PJRT C API.
//
// The structs are those of XLA's xla/pjrt/c/pjrt_c_api_shardings_extension.h (version 1, PJRT 0.91).
// The headers that TensorFlow's package installs are older, so they are declared here, by names of
// our own.
#ifndef TRIPONT_PJRT_SHARDINGS_EXTENSION_H_
#define TRIPONT_PJRT_SHARDINGS_EXTENSION_H_

#include <cstddef>

#include "xla/pjrt/c/pjrt_c_api.h"

extern "C" {

// PJRT_Extension_Type_Shardings.
inline constexpr auto TRIPONT_PJRT_SHARDINGS = static_cast<PJRT_Extension_Type>(19);

// The results are serialized OpSharding protos and live as long as the executable; both are null if
// it has none.
struct TRIPONT_PJRT_Executable_Shardings_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_values;             // out
  const char* const* shardings;  // out
  const size_t* sharding_sizes;  // out
};
PJRT_DEFINE_STRUCT_TRAITS(TRIPONT_PJRT_Executable_Shardings_Args, sharding_sizes);

struct TRIPONT_PJRT_Shardings_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*parameter_shardings)(TRIPONT_PJRT_Executable_Shardings_Args* args);
  PJRT_Error* (*output_shardings)(TRIPONT_PJRT_Executable_Shardings_Args* args);
};
PJRT_DEFINE_STRUCT_TRAITS(TRIPONT_PJRT_Shardings_Extension, output_shardings);

}  // extern "C"

#endif  // TRIPONT_PJRT_SHARDINGS_EXTENSION_H_
