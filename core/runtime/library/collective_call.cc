#include "core/runtime/library/collective_call.h"

#include <algorithm>

#include "core/runtime/device.h"
#include "core/runtime/hosts/exchange.h"

namespace tripont::collectives {

Status Collective::Execute(LibraryContext& context, void* const* operands,
                           void* const* results) const {
  const Participation* const self = context.participation();
  if (self == nullptr || !self->launch) return FailedPrecondition("executed without a launch");
  const auto participant = static_cast<size_t>(self->participant);
  if (participant >= places_.size() || places_[participant].group == nullptr)
    return Internal("participant ", participant, " is in none of the groups");
  const Place& place = places_[participant];
  const std::vector<int64_t>& members = *place.group;
  const Placement& placement = self->launch->placement();
  const bool is_across = placement.job != nullptr &&
                         std::any_of(members.begin(), members.end(),
                                     [&](int64_t member) { return !placement.IsLocal(member); });
  // The wire is one more thread than a program with a limit may have.
  const bool begins = asynchronous_ && !ThreadsAreLimited();
  if (!is_across || (!begins && !context.has_collectives_in_flight())) {
    return self->launch->Meet(meeting_, name_, members, place.position, context.device(),
                              {operands, results}, [&](Contributions all) {
                                if (is_across)
                                  return MeetProcesses(context, *self->launch, members, all,
                                                       nullptr);
                                Group group(all, context);
                                return Exchange(members, group);
                              });
  }
  // The wire's thread is the parent's in the child of a fork.
  TRIPONT_RETURN_IF_ERROR(placement.job->CheckNotForked());
  CollectivesInFlight& in_flight = context.collectives_in_flight();
  std::vector<void*> arrays(operands, operands + num_operands_);
  arrays.insert(arrays.end(), results, results + num_results_);
  TRIPONT_RETURN_IF_ERROR(in_flight.Begin(
      meeting_, [this, &context, self, &members, &place, arrays = std::move(arrays)] {
        return self->launch->Meet(meeting_, name_, members, place.position, context.device(),
                                  {arrays.data(), arrays.data() + num_operands_},
                                  [&](Contributions all) {
                                    return MeetProcesses(context, *self->launch, members, all,
                                                         &context.device()->wire().waiting);
                                  });
      }));
  // One that its program waits for at once comes after those that are in flight all the same.
  return begins ? OkStatus() : in_flight.Await(meeting_);
}

Status Collective::ReadGroups(const LibraryCallSignature& signature, int64_t* size) {
  name_ = StrCat(signature.name, signature.debug);
  const LibraryAttributes& attributes = signature.attributes;
  TRIPONT_ASSIGN_OR_RETURN(meeting_, attributes.Integer("meeting"));
  TRIPONT_ASSIGN_OR_RETURN(const int64_t asynchronous, attributes.IntegerOr("asynchronous", 0));
  asynchronous_ = asynchronous != 0;
  num_operands_ = signature.operands.size();
  num_results_ = signature.results.size();
  short_name_ = StrCat(signature.name, " ", meeting_);
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> members, attributes.Integers("groups"));
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, attributes.Integers("group_sizes"));
  auto next = members.begin();
  for (const int64_t count : sizes) {
    if (count < 1 || count > members.end() - next) return InvalidArgument("bad group sizes");
    auto group = std::make_unique<std::vector<int64_t>>(next, next + count);
    next += count;
    for (size_t position = 0; position < group->size(); ++position) {
      const int64_t participant = (*group)[position];
      if (participant < 0 || participant >= kMaxParticipants)
        return InvalidArgument("participant ", participant);
      if (places_.size() <= static_cast<size_t>(participant))
        places_.resize(static_cast<size_t>(participant) + 1);
      Place& place = places_[static_cast<size_t>(participant)];
      if (place.group != nullptr)
        return InvalidArgument("participant ", participant, " is in two groups");
      place = {group.get(), position};
    }
    groups_.push_back(std::move(group));
  }
  if (next != members.end()) return InvalidArgument("bad group sizes");
  TRIPONT_RETURN_IF_ERROR(Describe(signature));
  *size = sizes.empty() ? 0 : sizes[0];
  for (const int64_t count : sizes) {
    if (count != *size) *size = 0;
  }
  return OkStatus();
}

const Collective::Place* Collective::FindPlace(int64_t participant) const {
  const bool known = participant >= 0 && static_cast<size_t>(participant) < places_.size() &&
                     places_[static_cast<size_t>(participant)].group != nullptr;
  return known ? &places_[static_cast<size_t>(participant)] : nullptr;
}

Status Collective::Describe(const LibraryCallSignature& signature) {
  const LibraryAttributes& attributes = signature.attributes;
  TRIPONT_ASSIGN_OR_RETURN(const int64_t channel, attributes.Integer("channel"));
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> joined, attributes.Integers("members"));
  description_ = signature.name;
  if (attributes.Has("operation")) {
    TRIPONT_ASSIGN_OR_RETURN(const std::string operation, attributes.Bytes("operation"));
    description_ += StrCat(" (", operation, ")");
  }
  description_ += StrCat(" of ", joined.size() == 1 ? "collective " : "collectives ",
                         StrJoin(joined, ", "), " with operands");
  for (const LibraryOperand& operand : signature.operands)
    description_ += StrCat(" ", operand.shape);
  description_ += StrCat(", channel ", channel);
  if (attributes.Has("sources")) {
    TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> sources, attributes.Integers("sources"));
    description_ += StrCat(", from ", StrJoin(sources, ","));
  }
  description_ += ", groups";
  for (const auto& group : groups_) description_ += StrCat(" {", StrJoin(*group, ","), "}");
  description_ += '\n';
  return OkStatus();
}

Status Collective::MeetProcesses(LibraryContext& context, const Launch& launch,
                                 const std::vector<int64_t>& members, Contributions all,
                                 const std::atomic<int>* waiting) const {
  const Placement& placement = launch.placement();
  std::vector<int> devices;
  devices.reserve(members.size());
  for (const int64_t member : members)
    devices.push_back(placement.devices[static_cast<size_t>(member)]);
  const uint64_t identity =
      placement.program + 0x9E3779B97F4A7C15u * static_cast<uint64_t>(meeting_ + 1);
  TRIPONT_ASSIGN_OR_RETURN(
      hosts::Exchange exchange,
      hosts::Exchange::Begin(placement.job, hosts::ChannelUse::kCollectives, devices,
                             StrCat(short_name_, " of program ", launch.program()), identity,
                             launch.timeout_seconds(), waiting, placement.collectives));
  Group group(placement, members, all, std::move(exchange), context);
  return Exchange(members, group);
}

// One operand of `whole` = `blocks` times the elements of the one `part`, both of one type.
Status CheckBlocks(const Shape& whole, const Shape& part, int64_t blocks) {
  if (blocks < 1 || whole.type != part.type ||
      whole.ElementCount() != part.ElementCount() * blocks) {
    return InvalidArgument(whole, " is not ", blocks, " times ", part);
  }
  return OkStatus();
}

}  // namespace tripont::collectives
