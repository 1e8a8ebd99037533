#include "nextpluggable/donation.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/types.pb.h"
#include "xla/service/hlo.pb.h"
#include "xla/xla_data.pb.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

// How many variables the op updates; 0 for an op that does anything else too. Its resources are its
// first inputs.
int UpdatedVariables(const std::string& name) {
  const tf::OpDef* op = nullptr;
  if (!tf::OpRegistry::Global()->LookUpOpDef(name, &op).ok() || op->output_arg_size() != 0) {
    return 0;
  }
  int count = 0;
  while (count < op->input_arg_size() && op->input_arg(count).type() == tf::DT_RESOURCE) ++count;
  return count;
}

// The one op that all of a computation's instructions belong to; empty if there are several.
std::string OnlyOp(const xla::HloComputationProto& computation) {
  std::string type;
  std::string name;
  for (const auto& instruction : computation.instructions()) {
    const xla::OpMetadata& metadata = instruction.metadata();
    if (metadata.op_type().empty()) continue;  // arguments and results
    if (type.empty()) {
      type = metadata.op_type();
      name = metadata.op_name();
    } else if (metadata.op_type() != type || metadata.op_name() != name) {
      return {};
    }
  }
  return type;
}

const xla::HloComputationProto* Entry(const xla::HloModuleProto& module) {
  for (const auto& computation : module.computations()) {
    if (computation.id() == module.entry_computation_id()) return &computation;
  }
  return nullptr;
}

bool SameArray(const xla::ShapeProto& a, const xla::ShapeProto& b) {
  return a.element_type() == b.element_type() &&
         std::equal(a.dimensions().begin(), a.dimensions().end(), b.dimensions().begin(),
                    b.dimensions().end());
}

// tf2xla passes an argument that is not a variable through a reshape of its own.
bool IsPlainArgument(const xla::HloComputationProto& computation, int64_t id) {
  return std::any_of(computation.instructions().begin(), computation.instructions().end(),
                     [id](const xla::HloInstructionProto& user) {
                       return user.opcode() == "reshape" && user.metadata().op_type().empty() &&
                              user.operand_ids_size() == 1 && user.operand_ids(0) == id;
                     });
}

// The first `count` parameters, if all are variables whose new values are all that the program
// computes.
bool ReturnsNewValues(const xla::HloComputationProto& entry, int count) {
  std::vector<const xla::HloInstructionProto*> parameters(static_cast<size_t>(count), nullptr);
  const xla::HloInstructionProto* root = nullptr;
  for (const auto& instruction : entry.instructions()) {
    if (instruction.id() == entry.root_id()) root = &instruction;
    if (instruction.opcode() == "parameter" && instruction.parameter_number() < count) {
      parameters[static_cast<size_t>(instruction.parameter_number())] = &instruction;
    }
  }
  if (root == nullptr || root->opcode() != "tuple" || root->shape().tuple_shapes_size() != count) {
    return false;
  }
  for (int i = 0; i < count; ++i) {
    const xla::HloInstructionProto* parameter = parameters[static_cast<size_t>(i)];
    if (parameter == nullptr || !SameArray(parameter->shape(), root->shape().tuple_shapes(i)) ||
        IsPlainArgument(entry, parameter->id())) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<std::string> AliasUpdatedVariables(std::string_view program) {
  xla::HloModuleProto module;
  if (!module.ParseFromArray(program.data(), static_cast<int>(program.size())) ||
      module.input_output_alias().entries_size() != 0) {
    return std::nullopt;
  }
  const xla::HloComputationProto* entry = Entry(module);
  if (entry == nullptr) return std::nullopt;
  const int count = UpdatedVariables(OnlyOp(*entry));
  if (count == 0 || !ReturnsNewValues(*entry, count)) return std::nullopt;
  for (int i = 0; i < count; ++i) {
    auto* alias = module.mutable_input_output_alias()->add_entries();
    alias->add_output_shape_index(i);
    alias->set_parameter_number(i);
    alias->set_kind(xla::MAY_ALIAS);
  }
  return module.SerializeAsString();
}

}  // namespace tripont::tensorflow
