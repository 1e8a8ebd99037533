// Updates of variables in place.
//
// An op that updates variables (AssignAddVariableOp, ResourceApplyMomentum, ...) is compiled by
// itself where it is not part of a function with jit_compile. TensorFlow compiles such a program
// without saying that a new value may take the old one's place, although it says with each
// execution which arguments somebody else holds (non_donatable_input_indices). So it is said here.
#ifndef TRIPONT_NEXTPLUGGABLE_DONATION_H_
#define TRIPONT_NEXTPLUGGABLE_DONATION_H_

#include <optional>
#include <string>
#include <string_view>

namespace tripont::tensorflow {

// The program, a serialized HloModuleProto, with its variables aliased to their new values
// (may_alias); nothing if it is not that of one op that updates variables and has no results.
std::optional<std::string> AliasUpdatedVariables(std::string_view program);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_DONATION_H_
