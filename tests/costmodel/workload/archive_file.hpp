// Writes .pt2 archives by hand, right and wrong ones, for tests of their reader.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/temporary_folder.hpp"

namespace panpipe {

struct ZipEntry {
  std::string name, bytes;
  std::uint16_t method = 0, flags = 0;
  std::int64_t claimed = -1;       // bytes that the directory claims; -1: as it is
  std::int64_t header = -1;        // where the directory places it; -1: where it is
  std::uint32_t checksum_xor = 0;  // damages the checksum
};

inline std::uint32_t checksum_of(const std::string& bytes) {
  std::uint32_t state = 0xffffffffU;
  for (const char c : bytes) {
    state ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0xedb88320U : 0U);
  }
  return ~state;
}

inline void put(std::string& to, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) to += static_cast<char>(value >> (8 * i) & 0xff);
}

// The file's bytes. `entries_claimed` -1: as many as there are.
inline std::string zip(const std::vector<ZipEntry>& entries, std::int64_t entries_claimed = -1) {
  std::string file, directory;
  for (const ZipEntry& entry : entries) {
    const auto size =
        static_cast<std::uint64_t>(entry.claimed < 0 ? static_cast<std::int64_t>(entry.bytes.size()) : entry.claimed);
    const auto at = static_cast<std::uint64_t>(entry.header < 0 ? static_cast<std::int64_t>(file.size()) : entry.header);
    const std::uint32_t sum = checksum_of(entry.bytes) ^ entry.checksum_xor;
    put(file, 0x04034b50, 4), put(file, 20, 2), put(file, entry.flags, 2), put(file, entry.method, 2), put(file, 0, 4);
    put(file, sum, 4), put(file, size, 4), put(file, size, 4), put(file, entry.name.size(), 2), put(file, 0, 2);
    file += entry.name + entry.bytes;
    put(directory, 0x02014b50, 4), put(directory, 20, 2), put(directory, 20, 2), put(directory, entry.flags, 2);
    put(directory, entry.method, 2), put(directory, 0, 4), put(directory, sum, 4), put(directory, size, 4),
        put(directory, size, 4);
    put(directory, entry.name.size(), 2), put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 2);
    put(directory, 0, 4), put(directory, at, 4);
    directory += entry.name;
  }
  const std::size_t start = file.size();
  const auto count =
      static_cast<std::uint64_t>(entries_claimed < 0 ? static_cast<std::int64_t>(entries.size()) : entries_claimed);
  file += directory;
  put(file, 0x06054b50, 4), put(file, 0, 4), put(file, count, 2), put(file, count, 2);
  put(file, directory.size(), 4), put(file, start, 4), put(file, 0, 2);
  return file;
}

inline nlohmann::json meta(std::vector<std::int64_t> shape, int type = 7, bool gradient = false) {
  nlohmann::json sizes = nlohmann::json::array(), strides = nlohmann::json::array();
  std::int64_t stride = 1;
  std::vector<std::int64_t> steps;
  for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent) {
    steps.push_back(stride);
    stride *= *extent;
  }
  for (const auto extent : shape) sizes.push_back({{"as_int", extent}});
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) strides.push_back({{"as_int", *step}});
  return {{"dtype", type},
          {"sizes", sizes},
          {"strides", strides},
          {"storage_offset", {{"as_int", 0}}},
          {"layout", 7},
          {"requires_grad", gradient},
          {"device", {{"type", "cpu"}, {"index", nullptr}}}};
}

inline nlohmann::json tensor(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

inline nlohmann::json node(const std::string& target, const std::vector<std::pair<std::string, nlohmann::json>>& inputs,
                           const std::string& output, const std::string& module) {
  nlohmann::json given = nlohmann::json::array();
  for (const auto& [name, argument] : inputs) given.push_back({{"name", name}, {"arg", argument}, {"kind", 1}});
  return {{"target", target},
          {"inputs", given},
          {"outputs", nlohmann::json::array({tensor(output)})},
          {"metadata", {{"nn_module_stack", "L__self__,,M;L__self__x," + module + ",torch.nn.Module"}, {"stack_trace", "..."}}}};
}

// A model of two layers: loss = mean(tanh(x W) U) with x [2, 3], W [4, 3], U [5, 4].
struct TinyModel {
  nlohmann::json program, weights, constants = {{"config", nlohmann::json::object()}};
  std::vector<ZipEntry> extra;

  TinyModel() {
    nlohmann::json graph;
    graph["inputs"] = {tensor("p_w"), tensor("p_u"), tensor("x")};
    graph["outputs"] = nlohmann::json::array({tensor("mean")});
    graph["nodes"] = {
        node("torch.ops.aten.linear.default", {{"input", tensor("x")}, {"weight", tensor("p_w")}}, "linear", "layers.0"),
        node("torch.ops.aten.tanh.default", {{"self", tensor("linear")}}, "tanh", "layers.1"),
        node("torch.ops.aten.linear.default", {{"input", tensor("tanh")}, {"weight", tensor("p_u")}}, "linear_1", "layers.2"),
        node("torch.ops.aten.mean.default", {{"self", tensor("linear_1")}}, "mean", "")};
    graph["tensor_values"] = {
        {"p_w", meta({4, 3}, 7, true)}, {"p_u", meta({5, 4}, 7, true)}, {"x", meta({2, 3})}, {"linear", meta({2, 4})},
        {"tanh", meta({2, 4})},         {"linear_1", meta({2, 5})},     {"mean", meta({})}};
    graph["sym_int_values"] = nlohmann::json::object();
    program["graph_module"]["graph"] = graph;
    program["graph_module"]["signature"]["input_specs"] = {
        {{"parameter", {{"arg", {{"name", "p_w"}}}, {"parameter_name", "layers.0.weight"}}}},
        {{"parameter", {{"arg", {{"name", "p_u"}}}, {"parameter_name", "layers.2.weight"}}}},
        {{"user_input", {{"arg", tensor("x")}}}}};
    program["graph_module"]["signature"]["output_specs"] = nlohmann::json::array({{{"user_output", {{"arg", tensor("mean")}}}}});
    program["schema_version"] = {{"major", 8}, {"minor", 17}};
    weights["config"]["layers.0.weight"] = payload("weight_0", meta({4, 3}, 7, true));
    weights["config"]["layers.2.weight"] = payload("weight_1", meta({5, 4}, 7, true));
  }
  static nlohmann::json payload(const std::string& entry, const nlohmann::json& described) {
    return {{"path_name", entry}, {"is_param", true}, {"use_pickle", false}, {"tensor_meta", described}};
  }
  nlohmann::json& graph() { return program["graph_module"]["graph"]; }
  nlohmann::json& nodes() { return graph()["nodes"]; }

  std::vector<ZipEntry> entries() const {
    std::vector<ZipEntry> all = {{"m/data/weights/weight_0", std::string(48, 'w')},
                                 {"m/data/weights/weight_1", std::string(80, 'u')},
                                 {"m/data/weights/model_weights_config.json", weights.dump()},
                                 {"m/data/constants/model_constants_config.json", constants.dump()},
                                 {"m/models/model.json", program.dump()},
                                 {"m/byteorder", "little"}};
    all.insert(all.end(), extra.begin(), extra.end());
    return all;
  }
};

using test::write_file;

}  // namespace panpipe
