#include "pjrt/xspace.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/runtime/strings.h"
#include "pjrt/wire.h"

namespace tripont::pjrt {
namespace {

// Field numbers of xplane.proto.
namespace space {
constexpr uint32_t kPlanes = 1;
}
namespace plane {
constexpr uint32_t kId = 1, kName = 2, kLines = 3, kEventMetadata = 4, kStatMetadata = 5,
                   kStats = 6;
}
namespace line {
constexpr uint32_t kId = 1, kName = 2, kTimestampNs = 3, kEvents = 4;
}
namespace event {
constexpr uint32_t kMetadataId = 1, kOffsetPs = 2, kDurationPs = 3, kStats = 4;
}
namespace stat {
constexpr uint32_t kMetadataId = 1, kUint64Value = 3, kStrValue = 5, kBytesValue = 6, kRefValue = 7;
}
namespace metadata {  // XEventMetadata and XStatMetadata
constexpr uint32_t kId = 1, kName = 2, kStats = 5;
}
namespace entry {  // of a map
constexpr uint32_t kKey = 1, kValue = 2;
}
constexpr uint32_t kHloProtoModule = 1;

struct Event {
  int64_t metadata;
  int64_t start_ns;
  int64_t end_ns;
  std::string_view stats;  // encoded XEvent.stats fields; must outlive the event
};

class Plane {
 public:
  Plane(int64_t id, std::string_view name, const RecordedProfile& profile) : profile_(profile) {
    out_.Varint(plane::kId, static_cast<uint64_t>(id));
    out_.Bytes(plane::kName, name);
  }

  // A stat as the value of `field` in a message.
  void Number(WireWriter& message, uint32_t field, std::string_view name, uint64_t value) {
    WireWriter stat = Stat(name);
    stat.Varint(stat::kUint64Value, value);
    message.Bytes(field, stat.str());
  }
  void Text(WireWriter& message, uint32_t field, std::string_view name, std::string_view value,
            uint32_t kind = stat::kStrValue) {
    if (value.empty()) return;
    WireWriter stat = Stat(name);
    stat.Bytes(kind, value);
    message.Bytes(field, stat.str());
  }
  // A text that stands once in the plane, however many events have it.
  void SharedText(WireWriter& message, uint32_t field, std::string_view name,
                  std::string_view value) {
    if (value.empty()) return;
    WireWriter stat = Stat(name);
    stat.Varint(stat::kRefValue, static_cast<uint64_t>(Name(value)));
    message.Bytes(field, stat.str());
  }

  // An event's caller, by XLA's name for calls of the PJRT API.
  void Caller(WireWriter& event, uint64_t caller) {
    constexpr uint64_t kPjrtLibraryCall = 14;  // tsl::profiler::ContextType
    if (caller == 0) return;
    Number(event, event::kStats, "_ct", kPjrtLibraryCall);
    Number(event, event::kStats, "_c", caller);
  }

  // What events of one kind have in common; `stats`: encoded XEventMetadata.stats fields.
  void AddMetadata(int64_t id, std::string_view name, std::string_view stats = {}) {
    WireWriter value;
    value.Varint(metadata::kId, static_cast<uint64_t>(id));
    value.Bytes(metadata::kName, name);
    AddEntry(plane::kEventMetadata, id, value.str(), stats);
  }

  void AddLine(int64_t id, std::string_view name, std::vector<Event> events) {
    if (events.empty()) return;
    // A loop before its iterations.
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return std::tuple(a.start_ns, -a.end_ns) < std::tuple(b.start_ns, -b.end_ns);
    });
    WireWriter out;
    out.Varint(line::kId, static_cast<uint64_t>(id));
    out.Bytes(line::kName, name);
    out.Varint(line::kTimestampNs,
               static_cast<uint64_t>(profile_.start_ns + profile_.epoch_offset_ns));
    for (const Event& event : events) {
      WireWriter one;
      one.Varint(event::kMetadataId, static_cast<uint64_t>(event.metadata));
      const int64_t offset = std::max<int64_t>(0, event.start_ns - profile_.start_ns);
      one.Varint(event::kOffsetPs, static_cast<uint64_t>(offset) * 1000);
      one.Varint(event::kDurationPs, static_cast<uint64_t>(event.end_ns - event.start_ns) * 1000);
      out.BytesHeader(line::kEvents, one.str().size() + event.stats.size());
      out.Append(one.str());
      out.Append(event.stats);
    }
    out_.Bytes(plane::kLines, out.str());
  }

  // A statistic of the plane itself.
  void AddNumber(std::string_view name, uint64_t value) {
    Number(out_, plane::kStats, name, value);
  }

  void WriteTo(WireWriter& space) {
    for (const auto& [name, id] : names_) {
      WireWriter value;
      value.Varint(metadata::kId, static_cast<uint64_t>(id));
      value.Bytes(metadata::kName, name);
      AddEntry(plane::kStatMetadata, id, value.str(), {});
    }
    space.Bytes(space::kPlanes, out_.str());
  }

 private:
  WireWriter Stat(std::string_view name) {
    WireWriter stat;
    stat.Varint(stat::kMetadataId, static_cast<uint64_t>(Name(name)));
    return stat;
  }

  // The number of a stat's name, or of a shared text.
  int64_t Name(std::string_view name) {
    const auto found = names_.find(name);
    if (found != names_.end()) return found->second;
    return names_.emplace(name, static_cast<int64_t>(names_.size()) + 1).first->second;
  }

  // An entry of a map whose value is `value` and then `rest`.
  void AddEntry(uint32_t field, int64_t key, const std::string& value, std::string_view rest) {
    WireWriter out;
    out.Varint(entry::kKey, static_cast<uint64_t>(key));
    out.BytesHeader(entry::kValue, value.size() + rest.size());
    out.Append(value);
    out.Append(rest);
    out_.Bytes(field, out.str());
  }

  const RecordedProfile& profile_;
  WireWriter out_;
  std::map<std::string, int64_t, std::less<>> names_;
};

std::string_view KindName(schema::ThunkKind kind) {
  return schema::kThunkKindNames[static_cast<size_t>(kind)];
}

// One device's plane.
class DevicePlane {
 public:
  DevicePlane(const RecordedProfile& profile, int32_t device)
      : profile_(profile), plane_(device, StrCat("/device:CUSTOM:XPU:", device), profile) {}

  void Add(const RecordedProfile::Execution& run) {
    const RecordedProfile::Program& program = profile_.programs[run.program];
    const auto [found, is_new] = modules_.try_emplace(run.program, next_metadata_);
    if (is_new) plane_.AddMetadata(next_metadata_++, program.name);
    WireWriter stats;
    plane_.Number(stats, event::kStats, "program_id", program.id);
    plane_.Caller(stats, run.caller);
    execution_stats_.push_back(stats.Take());
    executions_.push_back({found->second, run.start_ns, run.end_ns, execution_stats_.back()});
  }

  void Add(const RecordedProfile::Thunk& run) {
    const auto [found, is_new] = thunks_.try_emplace({run.program, run.debug, run.kind});
    if (is_new) found->second = Describe(run);
    ops_.push_back({found->second.metadata, run.start_ns, run.end_ns, found->second.stats});
  }

  void WriteTo(WireWriter& space) {
    plane_.AddLine(1, "XLA Modules", std::move(executions_));
    plane_.AddLine(2, "XLA Ops", std::move(ops_));
    if (profile_.dropped > 0) {
      plane_.AddNumber("dropped_traces", static_cast<uint64_t>(profile_.dropped));
    }
    plane_.WriteTo(space);
  }

 private:
  // What the events of one thunk have in common.
  struct Common {
    int64_t metadata = 0;
    std::string stats;
  };

  Common Describe(const RecordedProfile::Thunk& run) {
    const RecordedProfile::Program& program = profile_.programs[run.program];
    const int64_t id = next_metadata_++;
    WireWriter stats;
    const auto text = [&](std::string_view name, std::string_view value) {
      plane_.SharedText(stats, event::kStats, name, value);
    };
    text("hlo_module", program.name);
    if (run.debug < 0) {
      text("hlo_category", KindName(run.kind));
      plane_.AddMetadata(id, KindName(run.kind));
      return {id, stats.Take()};
    }
    const schema::DebugInfo& info = program.debug[static_cast<size_t>(run.debug)];
    // A move of an array that an instruction needs before or after it.
    const bool moves = run.kind == schema::ThunkKind::kCopy && info.category != "copy";
    text("hlo_op", info.name);
    text("hlo_category", moves ? "copy" : info.category);
    text("tf_op", info.op_name);
    if (!info.source_file.empty()) text("source", StrCat(info.source_file, ":", info.source_line));
    if (moves) {
      plane_.AddMetadata(id, StrCat("copy for ", info.name));
      return {id, stats.Take()};
    }
    const std::pair<std::string_view, double> costs[] = {{"flops", info.flops},
                                                         {"bytes_accessed", info.bytes_accessed}};
    for (const auto& [name, value] : costs) {
      if (value > 0 && value < 0x1p63)
        plane_.Number(stats, event::kStats, name, static_cast<uint64_t>(value));
    }
    WireWriter metadata;
    plane_.Text(metadata, metadata::kStats, "long_name", StrCat("%", info.name, " = ", info.text));
    plane_.AddMetadata(id, info.name, metadata.str());
    return {id, stats.Take()};
  }

  const RecordedProfile& profile_;
  Plane plane_;
  int64_t next_metadata_ = 1;
  std::map<size_t, int64_t> modules_;  // metadata of each program
  std::deque<std::string> execution_stats_;
  std::map<std::tuple<size_t, int32_t, schema::ThunkKind>, Common> thunks_;
  std::vector<Event> executions_;
  std::vector<Event> ops_;
};

void WriteHostPlane(const RecordedProfile& profile, WireWriter& space) {
  if (profile.host.empty()) return;
  Plane plane(0, "/host:CPU", profile);
  std::map<std::string_view, int64_t> names;
  std::deque<std::string> all_stats;  // events hold on to the strings
  std::vector<std::vector<Event>> lines(profile.threads.size());
  for (const RecordedProfile::HostActivity& activity : profile.host) {
    const auto number = static_cast<int64_t>(names.size()) + 1;
    const auto [found, is_new] = names.try_emplace(activity.name, number);
    if (is_new) plane.AddMetadata(number, activity.name);
    WireWriter stats;
    plane.SharedText(stats, event::kStats, "hlo_module", activity.about);
    if (activity.bytes >= 0) {
      plane.Number(stats, event::kStats, "bytes_transferred",
                   static_cast<uint64_t>(activity.bytes));
    }
    plane.Caller(stats, activity.caller);
    all_stats.push_back(stats.Take());
    lines[activity.thread].push_back(
        {found->second, activity.start_ns, activity.end_ns, all_stats.back()});
  }
  for (size_t i = 0; i < lines.size(); ++i)
    plane.AddLine(profile.threads[i].id, profile.threads[i].name, std::move(lines[i]));
  plane.WriteTo(space);
}

void WriteMetadataPlane(const RecordedProfile& profile, WireWriter& space) {
  Plane plane(0, "/host:metadata", profile);
  std::set<uint64_t> written;
  for (const RecordedProfile::Program& program : profile.programs) {
    if (program.module.empty() || !written.insert(program.id).second) continue;
    WireWriter proto;
    proto.Bytes(kHloProtoModule, program.module);
    WireWriter stats;
    plane.Text(stats, metadata::kStats, "Hlo Proto", proto.str(), stat::kBytesValue);
    plane.AddMetadata(static_cast<int64_t>(program.id), StrCat(program.name, "(", program.id, ")"),
                      stats.str());
  }
  if (!written.empty()) plane.WriteTo(space);
}

}  // namespace

std::string ToXSpace(const RecordedProfile& profile) {
  std::map<int32_t, DevicePlane> devices;
  const auto device = [&](int32_t id) -> DevicePlane& {
    return devices.try_emplace(id, profile, id).first->second;
  };
  for (const RecordedProfile::Execution& run : profile.executions) device(run.device).Add(run);
  for (const RecordedProfile::Thunk& run : profile.thunks) device(run.device).Add(run);
  WireWriter space;
  for (auto& [id, plane] : devices) plane.WriteTo(space);
  WriteHostPlane(profile, space);
  WriteMetadataPlane(profile, space);
  return space.Take();
}

}  // namespace tripont::pjrt
