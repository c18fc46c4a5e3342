// panpipe list KIND: the names that a scenario may use, each with a line and the source of its numbers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/input/reader.hpp"
#include "base/input/shipped.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/text_table.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/workload/models.hpp"
#include "present/result/heading.hpp"
#include "schedule/find_family.hpp"
#include "study/arena/arena.hpp"

namespace panpipe::cli {
namespace {

using nlohmann::ordered_json;

struct Item {
  std::string name, line, source;
  ordered_json more = ordered_json::object();  // what the document says besides
};

std::string text_at(const Node& map, const std::string& key) {
  const Node* value = map.kind == NodeKind::Map ? map.find(key) : nullptr;
  return value != nullptr && value->kind == NodeKind::Scalar ? value->text : "";
}

// What the file says of the whole; else the source of its first number that has one.
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

// One item for each shipped file of a folder; `figures` are those that tell the files apart.
template <class Figures>
std::vector<Item> files_of(const std::string& folder, Figures figures) {
  std::vector<Item> items;
  for (const std::string& name : shipped_names(folder)) {
    const std::string path = data_directory() + "/" + folder + "/" + name + ".yaml";
    const NodePtr root = load_document(path);
    Item item;
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
  return devices_of(cluster);
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

std::vector<Item> clusters() { return files_of("clusters", cluster_figures); }
std::vector<Item> devices() { return files_of("devices", device_figures); }
std::vector<Item> frameworks() {
  return files_of("frameworks", [](const auto&, const Node&) { return std::string(); });
}
std::vector<Item> calibrations() {
  return files_of("calibrations", [](const auto&, const Node& root) {
    const Node* names = root.find("devices");
    std::vector<std::string> texts;
    for (const NodePtr& name : names != nullptr ? names->items : std::vector<NodePtr>{}) texts.push_back(name->text);
    return fmt::format("{}", fmt::join(texts, ", "));
  });
}

std::vector<Item> prices() {
  return files_of("prices", [](const auto&, const Node& root) {
    const Node* entries = root.find("prices");
    std::vector<std::string> texts;
    for (const NodePtr& entry : entries != nullptr ? entries->items : std::vector<NodePtr>{})
      texts.push_back(fmt::format("{} {} ({})", text_at(*entry, "device"), text_at(*entry, "price"), text_at(*entry, "date")));
    return fmt::format("{}", fmt::join(texts, ", "));
  });
}

std::vector<Item> models() {
  std::vector<Item> items;
  for (const BuiltInModel& model : built_in_models()) {
    Item item;
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

std::vector<Item> schedules() {
  std::vector<Item> items;
  for (const ScheduleFamily& family : schedule_families()) {
    Item item;
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
                     fmt::join(arena::search_families(), " and "));
}

struct Kind {
  const char* name;
  const char* key;  // where a scenario names one
  std::vector<Item> (*items)();
  std::string (*besides)() = nullptr;  // a last line
};

constexpr Kind kKinds[] = {
    {"models", "workload: {model: NAME}", models},
    {"clusters", "cluster: NAME", clusters},
    {"devices", "device: NAME in a cluster file", devices},
    {"schedules", "schedule: NAME", schedules, schedules_of_the_arena},
    {"frameworks", "framework: NAME", frameworks},
    {"calibrations", "calibration: NAME in a device file", calibrations},
    {"prices", "run: {price: NAME}", prices},
};

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

const Kind& kind_named(const std::string& name) {
  for (const Kind& kind : kKinds)
    if (name == kind.name || name + "s" == kind.name) return kind;
  const std::vector<std::string> names = kind_names();
  throw InputError(fmt::format("panpipe list: there is no list of '{}'{}", name, suggestion_or_list(name, names)));
}

// Up to the first semicolon: the document has the whole.
std::string first_part(const std::string& text) { return text.substr(0, text.find(';')); }

std::string list_text(const Kind& kind, const TextStyle& style) {
  const std::vector<Item> items = kind.items();
  TextTable table({"<", "<"}, 0);
  for (const Item& item : items) {
    table.row({item.name, item.line});
    if (!item.source.empty()) table.row({"", "source: " + first_part(item.source)});
  }
  return table.text(style) +
         wrapped(fmt::format("{} {}; a scenario names one as {}\n", items.size(), kind.name, kind.key), style.width) +
         (kind.besides == nullptr ? "" : wrapped(kind.besides() + "\n", style.width));
}

std::string list_json(const Kind& kind) {
  ordered_json list = ordered_json::array();
  for (const Item& item : kind.items()) {
    ordered_json entry = {{"name", item.name}, {"line", item.line}, {"source", item.source}};
    entry.update(item.more);
    list.push_back(std::move(entry));
  }
  const std::size_t count = list.size();
  return ordered_json{{"schema", "panpipe-list/1"}, {"kind", kind.name}, {"count", count}, {"items", std::move(list)}}.dump(2) +
         "\n";
}

std::string kinds_text() {
  TextTable table({"<", "", "<"}, 0);
  for (const Kind& kind : kKinds) table.row({kind.name, std::to_string(kind.items().size()), kind.key});
  return table.text() + "panpipe list KIND shows one of them\n";
}

std::string kinds_json() {
  ordered_json list = ordered_json::array();
  for (const Kind& kind : kKinds) list.push_back({{"name", kind.name}, {"count", kind.items().size()}});
  const std::size_t count = list.size();
  return ordered_json{{"schema", "panpipe-list/1"}, {"kind", "kinds"}, {"count", count}, {"items", std::move(list)}}.dump(2) +
         "\n";
}

}  // namespace

void add_list_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings {
    std::string kind;
    bool json = false;
  };
  auto settings = std::make_shared<Settings>();
  sub.add_option("KIND", settings->kind,
                 fmt::format("{}; without it, how many there are of each", fmt::join(kind_names(), ", ")));
  sub.add_flag("--json", settings->json, "print the document panpipe-list/1");
  run = [settings] {
    if (settings->kind.empty()) {
      print(settings->json ? kinds_json() : kinds_text());
      return 0;
    }
    const Kind& kind = kind_named(settings->kind);
    print(settings->json ? list_json(kind) : list_text(kind, style_of_output()));
    return 0;
  };
}

}  // namespace panpipe::cli
