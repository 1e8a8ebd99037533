// The plugin's attributes, which it has before there is a client.

#include "pjrt/functions.h"
#include "pjrt/named_values.h"

namespace tripont::pjrt {

Status Plugin_Initialize(PJRT_Plugin_Initialize_Args&) { return OkStatus(); }

Status Plugin_Attributes(PJRT_Plugin_Attributes_Args& args) {
  static const NamedValues* const attributes = [] {
    auto* values = new NamedValues();
    // Frameworks test this number for features; 2 is what plugins of this API version answer.
    values->AddInt64("xla_version", 2);
    // The StableHLO version that programs are serialized at: what jaxlib 0.10.2, the oldest that
    // the compile worker may run on, reads natively. Newer ones read it too.
    values->AddInt64List("stablehlo_current_version", {1, 17, 0});
    values->AddInt64List("stablehlo_minimum_version", {0, 9, 0});
    return values;
  }();
  args.attributes = attributes->data();
  args.num_attributes = attributes->size();
  return OkStatus();
}

}  // namespace tripont::pjrt
