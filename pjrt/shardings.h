// How the arrays of a program that is partitioned are divided. Without the extension XLA's client
// makes an HloModule of the whole optimised program to find this out, at every compile.
#ifndef TRIPONT_PJRT_SHARDINGS_H_
#define TRIPONT_PJRT_SHARDINGS_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "xla/pjrt/c/pjrt_c_api.h"

namespace tripont::pjrt {

// Serialized OpShardings, one for each array, as the API lends them; none if nothing is divided.
struct Shardings {
  std::vector<const char*> data;
  std::vector<size_t> sizes;
};

// Those of a serialized HloModuleProto, which must outlive them.
Shardings ParameterShardingsOf(std::string_view module);
Shardings OutputShardingsOf(std::string_view module);

// Part of the chain of extensions of the function table. Never freed.
PJRT_Extension_Base* ShardingsExtension();

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_SHARDINGS_H_
