#include "core/runtime/cpu_models.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "core/runtime/strings.h"

namespace tripont {
namespace {

// The content of cpus.txt, made by CMake.
constexpr const char kTable[] =
#include "cpus.inc"
    ;

// Features that a name may be followed by although no model has them: cpu.py's _ALSO_USEFUL.
constexpr const char* kAlsoUseful[] = {"amx-tile", "amx-bf16", "amx-int8"};

struct Table {
  std::vector<CpuModel> models;

  const CpuModel* Find(std::string_view name) const {
    const auto found = std::find_if(models.begin(), models.end(),
                                    [&](const CpuModel& model) { return model.name == name; });
    return found == models.end() ? nullptr : &*found;
  }
  bool HasFeature(std::string_view feature, std::string_view architecture) const {
    if (architecture == "x86_64" && std::find(std::begin(kAlsoUseful), std::end(kAlsoUseful),
                                              feature) != std::end(kAlsoUseful)) {
      return true;
    }
    return std::any_of(models.begin(), models.end(), [&](const CpuModel& model) {
      return model.architecture == architecture &&
             std::binary_search(model.features.begin(), model.features.end(), feature);
    });
  }
};

Table ReadTable() {
  Table table;
  std::string architecture;
  std::istringstream lines(kTable);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    if (line.starts_with('[')) {
      architecture = line.substr(1, line.find(']') - 1);
      continue;
    }
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    CpuModel model{line.substr(0, colon), architecture, {}};
    std::set<std::string> features;
    std::istringstream words(line.substr(colon + 1));
    for (std::string word; words >> word;) {
      if (const CpuModel* const other = table.Find(word)) {
        features.insert(other->features.begin(), other->features.end());
      } else {
        features.insert(word);
      }
    }
    model.features.assign(features.begin(), features.end());
    table.models.push_back(std::move(model));
  }
  return table;
}

const Table& TheTable() {
  static const auto* const table = new Table(ReadTable());
  return *table;
}

}  // namespace

std::vector<std::string> CpuModelNames() {
  std::vector<std::string> names;
  for (const CpuModel& model : TheTable().models) names.push_back(model.name);
  return names;
}

StatusOr<CpuModel> FindCpuModel(std::string_view name) {
  const Table& table = TheTable();
  const size_t plus = name.find('+');
  const CpuModel* const base = table.Find(name.substr(0, plus));
  if (base == nullptr) {
    return InvalidArgument("unknown CPU '", name, "'; known: host, ",
                           StrJoin(CpuModelNames(), ", "));
  }
  CpuModel model = *base;
  model.name = name;
  std::set<std::string> features(model.features.begin(), model.features.end());
  for (size_t at = plus; at != std::string_view::npos;) {
    const size_t next = name.find('+', at + 1);
    const std::string_view feature = name.substr(at + 1, next - at - 1);
    if (!table.HasFeature(feature, model.architecture)) {
      return InvalidArgument("unknown CPU '", name, "': ", base->name,
                             " is known, but the feature '", feature, "' is not");
    }
    features.emplace(feature);
    at = next;
  }
  model.features.assign(features.begin(), features.end());
  return model;
}

}  // namespace tripont
