#include "core/runtime/ffi/registry.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <utility>

#include "core/runtime/ffi/api.h"

namespace tripont::ffi {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Target>, std::less<>> targets;
  std::vector<std::unique_ptr<Target>> replaced;  // programs may still hold them
  std::map<int64_t, Type> types;
  // Above the numbers that a framework's own registry gives out: a type that is registered with us
  // first must not take a number that means another type there.
  int64_t next_type = int64_t{1} << 32;
};

// Never destroyed: programs are destroyed while the process exits.
Registry& Global() {
  static auto* const registry = new Registry;
  return *registry;
}

Status CheckMetadata(std::string_view name, Handler* handler) {
  Metadata metadata{};
  metadata.struct_size = kMetadataSize;
  metadata.api_version.struct_size = sizeof(ApiVersion);
  MetadataExtension extension{};
  extension.base.struct_size = sizeof(MetadataExtension);
  extension.base.type = ExtensionType::kMetadata;
  extension.metadata = &metadata;
  CallFrame frame{};
  frame.struct_size = kCallFrameSize;
  frame.api = &GetApi();
  frame.extension_start = &extension.base;
  if (const Status status = TakeError(handler(&frame)); !status.ok()) {
    return status.WithPrefix(StrCat("custom call '", name, "'"));
  }
  if (metadata.api_version.major_version != kApiMajor) {
    return Unimplemented(
        "custom call '", name, "' was compiled for version ", metadata.api_version.major_version,
        ".", metadata.api_version.minor_version, " of the XLA FFI; this version of tripont has ",
        kApiMajor, ".", kApiMinor, ": compile it with the headers of the installed jaxlib");
  }
  return OkStatus();
}

bool SameBundle(const HandlerBundle& a, const HandlerBundle& b) {
  return a.instantiate == b.instantiate && a.prepare == b.prepare && a.initialize == b.initialize &&
         a.execute == b.execute;
}

Status CheckName(std::string_view name) {
  return name.empty() ? InvalidArgument("a custom call needs a name") : OkStatus();
}

// Adds the target unless `same` says that what is there is the same one.
Status Add(std::string_view name, Target target, bool replace,
           const std::function<bool(const Target&)>& same) {
  TRIPONT_RETURN_IF_ERROR(CheckName(name));
  Registry& registry = Global();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::unique_ptr<Target>& place = registry.targets[std::string(name)];
  if (place != nullptr) {
    if (same(*place)) return OkStatus();
    if (!replace) {
      return Status(StatusCode::kAlreadyExists,
                    StrCat("custom call '", name, "' is registered already, as another function"));
    }
    registry.replaced.push_back(std::move(place));
  }
  place = std::make_unique<Target>(std::move(target));
  return OkStatus();
}

}  // namespace

bool IsOurPlatform(std::string_view platform) {
  constexpr std::string_view kName = "xpu";
  return std::equal(
      platform.begin(), platform.end(), kName.begin(), kName.end(),
      [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

Status RegisterHandler(std::string_view name, const HandlerBundle& bundle) {
  TRIPONT_RETURN_IF_ERROR(CheckName(name));
  if (bundle.execute == nullptr) {
    return InvalidArgument("custom call '", name, "' has no handler for the stage 'execute'");
  }
  for (Handler* const handler :
       {bundle.instantiate, bundle.prepare, bundle.initialize, bundle.execute}) {
    if (handler != nullptr) TRIPONT_RETURN_IF_ERROR(CheckMetadata(name, handler));
  }
  Target target;
  target.bundle = bundle;
  return Add(name, std::move(target), /*replace=*/false,
             [&](const Target& old) { return SameBundle(old.bundle, bundle); });
}

Status RegisterUntyped(std::string_view name, UntypedFunction function) {
  if (function == nullptr) return InvalidArgument("custom call '", name, "': no function");
  Target target;
  target.untyped = function;
  return Add(name, std::move(target), /*replace=*/false,
             [&](const Target& old) { return old.untyped == function; });
}

Status RegisterFactory(std::string_view name, CallFactory factory, bool replace) {
  Target target;
  target.factory = std::move(factory);
  const Target* const old = FindTarget(name);
  return Add(name, std::move(target), replace && old != nullptr && old->factory != nullptr,
             [](const Target&) { return false; });
}

const Target* FindTarget(std::string_view name) {
  Registry& registry = Global();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.targets.find(name);
  return found == registry.targets.end() ? nullptr : found->second.get();
}

std::vector<std::string> TargetNames() {
  Registry& registry = Global();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::string> names;
  names.reserve(registry.targets.size());
  for (const auto& [name, target] : registry.targets) names.push_back(name);
  return names;
}

Status RegisterType(std::string_view name, void (*deleter)(void*), int64_t* type_id) {
  if (name.empty()) return InvalidArgument("a type needs a name");
  Registry& registry = Global();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  for (const auto& [id, type] : registry.types) {
    if (type.name != name) continue;
    if (*type_id == 0) *type_id = id;
    if (*type_id == id) return OkStatus();
    return InvalidArgument("type '", name, "' has the number ", id, " already, not ", *type_id);
  }
  if (*type_id == 0) *type_id = registry.next_type++;
  const auto [place, added] =
      registry.types.try_emplace(*type_id, Type{std::string(name), deleter});
  if (added) return OkStatus();
  return InvalidArgument("type '", name, "': the number ", *type_id, " is that of type '",
                         place->second.name, "'");
}

std::optional<Type> FindType(int64_t type_id) {
  Registry& registry = Global();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.types.find(type_id);
  if (found == registry.types.end()) return std::nullopt;
  return found->second;
}

}  // namespace tripont::ffi
