// lists: what a scenario may name, its keys, the scenarios to begin with, and the colours of pictures.
#include "app/lists.hpp"

#include <array>
#include <filesystem>

#include "base/index.hpp"
#include "base/input/reader.hpp"
#include "base/input/shipped.hpp"
#include "base/input/source_text.hpp"
#include "base/version.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/scenario/scenario_keys.hpp"
#include "study/arena/arena.hpp"
#include "web/engine/call.hpp"

namespace panpipe::web {
namespace {

Json items_of(const app::ListKind& kind) {
  Json items = Json::parse(app::to_json(kind))["items"];
  if (std::string_view(kind.name) != "clusters") return items;
  for (Json& item : items) {
    ReadLog log;
    const Cluster cluster = load_cluster(item["file"].get<std::string>(), log);
    log.throw_if_errors();
    const DeviceType& type = cluster.type_of(0);
    item["devices"] = cluster.size();
    item["nodes"] = cluster.nodes;
    item["devices_per_node"] = cluster.node.front().devices;
    item["device"] = type.name;
    item["memory_bytes"] = type.memory.base();
  }
  return items;
}

std::string file_text(const std::string& folder, const std::string& file) {
  return read_text_file(data_directory() + "/" + folder + "/" + file);
}

// The models that a scenario names by their configuration.
Json workloads() {
  Json items = Json::array();
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(data_directory() + "/workloads"))
    if (file.path().extension() == ".json") files.push_back(file.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    const Json config = Json::parse(read_text_file(file.string()));
    const auto of = [&](const char* key) { return config.contains(key) ? config[key] : Json(); };
    items.push_back({{"name", file.stem().string()},
                     {"file", "workloads/" + file.filename().string()},
                     {"model_type", of("model_type")},
                     {"layers", of("num_hidden_layers")},
                     {"hidden", of("hidden_size")},
                     {"sequence", of("max_position_embeddings")},
                     {"source", of("_source")},
                     {"experts", config.contains("n_routed_experts") || config.contains("num_local_experts") ||
                                     config.contains("num_experts")}});
  }
  return items;
}

const char* kind_of(const Key& key) {
  if (key.forms.empty()) return key.items.empty() ? key.words.empty() ? "map" : "choice" : "list";
  static constexpr std::array<const char*, at(ValueForm::Shipped) + 1> kKinds = {
      "text", "count", "number", "truth", "time", "size", "bandwidth", "rate", "share", "file", "shipped"};
  return kKinds[at(key.forms.front().kind)];
}

void add_keys(const Key& key, const std::string& path, Json& all) {
  for (const Key& inner : key.keys) {
    const std::string name = path.empty() ? inner.name : path + "." + inner.name;
    all.push_back({{"key", name},
                   {"kind", kind_of(inner)},
                   {"choices", inner.words},
                   {"default", inner.otherwise.empty() ? inner.fallback : std::string(inner.otherwise)},
                   {"meaning", inner.meaning},
                   {"page", inner.page},
                   {"example", inner.example}});
    add_keys(inner, name, all);
  }
}

}  // namespace

Answer answer_lists(const Call&) {
  Json lists = Json::object(), examples = Json::array(), ratios = Json::array(), keys = Json::array();
  for (const app::ListKind& kind : app::list_kinds()) lists[kind.name] = items_of(kind);
  lists["workloads"] = workloads();
  add_keys(scenario_keys(), "", keys);
  lists["keys"] = std::move(keys);
  for (const std::string& name : shipped_names("examples"))
    examples.push_back({{"name", name}, {"text", file_text("examples", name + ".yaml")}});
  for (const study::CostRatio& ratio : study::cost_ratios())
    ratios.push_back({{"name", ratio.name}, {"I", ratio.I}, {"W", ratio.W}, {"origin", ratio.origin}});
  return Answer()
      .add("version", kVersion)
      .add("lists", lists)
      .add("examples", examples)
      .add("cost_ratios", ratios)
      .add_json("palette", present::palette_json());
}

}  // namespace panpipe::web
