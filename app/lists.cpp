#include "app/lists.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/error.hpp"
#include "base/input/reader.hpp"
#include "base/input/shipped.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "costmodel/workload/models.hpp"
#include "jobs/trainer_jobs.hpp"
#include "present/result/heading.hpp"
#include "schedule/find_family.hpp"
#include "study/arena/arena.hpp"

namespace panpipe::app {
namespace {

using nlohmann::ordered_json;

std::string text_at(const Node& map, const std::string& key) {
  const Node* value = map.kind == NodeKind::Map ? map.find(key) : nullptr;
  return value != nullptr && value->kind == NodeKind::Scalar ? value->text : "";
}

// The source of the whole file; else the source of its first number that has one.
std::string source_of_file(const Node& root) {
  if (const std::string whole = text_at(root, "source"); !whole.empty()) return whole;
  if (root.kind != NodeKind::Map) return "";
  for (const Node::Entry& entry : root.entries) {
    if (const std::string own = text_at(*entry.value, "source"); !own.empty()) return own;
    if (entry.key == "sources" && entry.value->kind == NodeKind::Map && !entry.value->entries.empty())
      return text_at(*entry.value, entry.value->entries.front().key);
  }
  return "";
}

std::string joined(const std::string& figures, const std::string& description) {
  return figures.empty() || description.empty() ? figures + description : figures + "; " + description;
}

// One item for each shipped file of a folder; `figures` distinguish the files.
template <class Figures>
std::vector<ListedItem> files_of(const std::string& folder, Figures figures) {
  std::vector<ListedItem> items;
  for (const std::string& name : shipped_names(folder)) {
    const std::string path = shipped_file(folder, name);
    const NodePtr root = load_document(path);
    ListedItem item;
    item.name = name;
    item.line = joined(figures(path, *root), text_at(*root, "description"));
    item.source = source_of_file(*root);
    item.more["file"] = path;
    items.push_back(std::move(item));
  }
  return items;
}

std::string cluster_figures(const std::string& path, const Node&) {
  ReadLog log;
  const Cluster cluster = load_cluster(path, log);
  log.throw_if_errors();
  return present::devices_of(cluster);
}

std::string device_figures(const std::string& path, const Node&) {
  ReadLog log;
  const DeviceType type = load_device(path, "", log);
  log.throw_if_errors();
  std::string text = fmt::format("{}, {}", to_text(type.memory), to_text(type.memory_bandwidth));
  for (const Precision precision : {Precision::Bf16, Precision::Fp16, Precision::Fp32})
    if (const ComputeRate peak = type.peak_for(precision); peak > ComputeRate(0))
      return fmt::format("{}, {} {}", text, name_of(precision), to_text(peak));
  return text;
}

std::vector<ListedItem> clusters() { return files_of("clusters", cluster_figures); }
std::vector<ListedItem> devices() { return files_of("devices", device_figures); }
std::vector<ListedItem> frameworks() {
  return files_of("frameworks", [](const auto&, const Node&) { return std::string(); });
}
// "1f1b, interleaved-1f1b"; of many their number.
std::string schedules_of(const Trainer& trainer) {
  constexpr std::size_t kListed = 4;
  if (!trainer.schedules) return "every schedule";
  if (trainer.schedules->empty()) return "no pipeline";
  if (trainer.schedules->size() > kListed) return fmt::format("{} schedules", trainer.schedules->size());
  return fmt::format("{}", fmt::join(*trainer.schedules, ", "));
}

// What a trainer can run, read and write.
std::vector<ListedItem> trainers() {
  std::vector<ListedItem> items;
  for (const std::string& name : trainer_names()) {
    const Trainer trainer = load_trainer(name);
    const Node& file = *trainer_file(name);
    ListedItem item;
    item.name = name;
    item.line =
        fmt::format("{}; {}; ZeRO {}", text_at(file, "description"), schedules_of(trainer), fmt::join(trainer.zero, ", "));
    item.source = text_at(*file.find("runs")->items.front(), "source");
    item.more["aliases"] = trainer.aliases;
    item.more["framework"] = trainer.framework;
    if (trainer.schedules) item.more["schedules"] = *trainer.schedules;
    item.more["zero"] = trainer.zero;
    item.more["imported"] = item.more["exported"] = false;
    for (const jobs::TrainerJobs& jobs : jobs::trainer_jobs())
      if (jobs.name == name) {
        item.more["imported"] = jobs.importer.read != nullptr;
        item.more["exported"] = jobs.write != nullptr;
      }
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<ListedItem> calibrations() {
  return files_of("calibrations", [](const auto&, const Node& root) {
    const Node* names = root.find("devices");
    std::vector<std::string> texts;
    for (const NodePtr& name : names != nullptr ? names->items : std::vector<NodePtr>{}) texts.push_back(name->text);
    return fmt::format("{}", fmt::join(texts, ", "));
  });
}

std::vector<ListedItem> prices() {
  return files_of("prices", [](const auto&, const Node& root) {
    const Node* entries = root.find("prices");
    std::vector<std::string> texts;
    for (const NodePtr& entry : entries != nullptr ? entries->items : std::vector<NodePtr>{})
      texts.push_back(fmt::format("{} {} ({})", text_at(*entry, "device"), text_at(*entry, "price"), text_at(*entry, "date")));
    return fmt::format("{}", fmt::join(texts, ", "));
  });
}

std::vector<ListedItem> models() {
  std::vector<ListedItem> items;
  for (const BuiltInModel& model : built_in_models()) {
    ListedItem item;
    const ModelDimensions& sizes = model.dimensions;
    item.name = model.name;
    item.source = model.source;
    item.more["family"] = model.family->name;
    if (sizes.layers == 0 || sizes.hidden == 0) {
      item.line = fmt::format("any size; give {}", fmt::join(model.family->required, ", "));
    } else {
      item.line = fmt::format("{}: {} layers, hidden {}", model.family->name, sizes.layers, sizes.hidden);
      if (sizes.heads > 0) item.line += fmt::format(", {} heads", sizes.heads);
      if (sizes.sequence > 0) item.line += fmt::format(", sequence {}", sizes.sequence);
      item.more["layers"] = sizes.layers;
      item.more["hidden"] = sizes.hidden;
    }
    ordered_json keys = ordered_json::array();
    for (const std::string_view key : model.family->keys) keys.push_back(key);
    item.more["keys"] = keys;
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<ListedItem> schedules() {
  std::vector<ListedItem> items;
  for (const ScheduleFamily& family : schedule_families()) {
    ListedItem item;
    item.name = family.name;
    item.line = family.summary;
    item.source = family.source;
    item.more["searched"] = family.searched();
    item.more["options"] = ordered_json::object();
    for (const auto& [key, fallback] : family.options) item.more["options"][std::string(key)] = fallback;
    items.push_back(std::move(item));
  }
  return items;
}

std::string schedules_of_the_arena() {
  return fmt::format("only panpipe arena takes {}, searched orders of waves and loops",
                     fmt::join(study::search_families(), " and "));
}

}  // namespace

const std::vector<ListKind>& list_kinds() {
  static const std::vector<ListKind> all = {
      {"models", "workload: {model: NAME}", models},
      {"clusters", "cluster: NAME", clusters},
      {"devices", "device: NAME in a cluster file", devices},
      {"schedules", "schedule: NAME", schedules, schedules_of_the_arena},
      {"trainers", "trainer: NAME", trainers},
      {"frameworks", "framework: NAME", frameworks},
      {"calibrations", "calibration: NAME in a device file", calibrations},
      {"prices", "run: {price: NAME}", prices},
  };
  return all;
}

std::vector<std::string> list_kind_names() {
  std::vector<std::string> names;
  for (const ListKind& kind : list_kinds()) names.emplace_back(kind.name);
  return names;
}

const ListKind& list_kind_named(const std::string& name) {
  for (const ListKind& kind : list_kinds())
    if (name == kind.name || name + "s" == kind.name) return kind;
  throw InputError(fmt::format("there is no list of '{}'{}", name, suggestion_or_list(name, list_kind_names())), "",
                   code::kUnknownName);
}

std::string to_json(const ListKind& kind) {
  ordered_json list = ordered_json::array();
  for (const ListedItem& item : kind.items()) {
    ordered_json entry = {{"name", item.name}, {"line", item.line}, {"source", item.source}};
    entry.update(item.more);
    list.push_back(std::move(entry));
  }
  const std::size_t count = list.size();
  return ordered_json{{"schema", "panpipe-list/1"}, {"kind", kind.name}, {"count", count}, {"items", std::move(list)}}.dump(2) +
         "\n";
}

std::string list_kinds_json() {
  ordered_json list = ordered_json::array();
  for (const ListKind& kind : list_kinds()) list.push_back({{"name", kind.name}, {"count", kind.items().size()}});
  const std::size_t count = list.size();
  return ordered_json{{"schema", "panpipe-list/1"}, {"kind", "kinds"}, {"count", count}, {"items", std::move(list)}}.dump(2) +
         "\n";
}

}  // namespace panpipe::app
