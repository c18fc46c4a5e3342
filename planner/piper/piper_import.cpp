// A file in Piper's format as a scenario and a table of profiled layers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/input/scalar_text.hpp"
#include "base/text/quantity_text.hpp"
#include "planner/piper/piper_file.hpp"

namespace panpipe::planner::piper {
namespace {

std::string bytes_text(double bytes) { return fmt::format("{} B", bytes); }  // the shortest text that reads back the same

std::string border_text(const char* key, const std::vector<std::pair<std::string, double>>& border) {
  std::string out;
  for (const auto& [name, bytes] : border)
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", quoted_scalar(name), bytes_text(bytes));
  return out.empty() ? out : fmt::format(", {}: {{{}}}", key, out);
}

std::string profile_text(const LayerProfile& profile) {
  return fmt::format("  - {{tensor: {}, name: {}{}, time: {} s, parameters: {}, in_flight: {}, fixed: {}{}{}}}\n", profile.tensor,
                     quoted_scalar(profile.name), profile.recompute ? ", recompute: true" : "", profile.time.base(),
                     bytes_text(profile.parameters), bytes_text(profile.in_flight), bytes_text(profile.fixed),
                     border_text("receive", profile.receive), border_text("send", profile.send));
}

bool kept(const LayerProfile& profile, const ImportOptions& options) {
  return (options.recompute || !profile.recompute) && (options.most_tensor == 0 || profile.tensor <= options.most_tensor);
}

std::string layers_text(const PiperFile& file, const ImportOptions& options) {
  std::string out =
      fmt::format("panpipe: 1\nkind: layers\nsource: {}\n", quoted_scalar("Piper's format, " + file.document->source->name));
  if (options.most_data > 0) out += fmt::format("most_data: {}\n", options.most_data);
  out += "layers:\n";
  ReadLog log;
  for (const PiperNode& node : file.nodes) {
    std::string profiles;
    for (const LayerProfile& profile : node.profiles)
      if (kept(profile, options)) profiles += profile_text(profile);
    if (profiles.empty())
      log.error(*node.at, fmt::format("--max-tensor and --no-recompute leave no profile of node {}", node.id));
    out += fmt::format("- name: {}\n  profiles:\n{}", quoted_scalar(node.name), profiles);
  }
  log.throw_if_errors();
  out += file.edges.empty() ? "edges: []\n" : "edges:\n";
  for (const PiperFile::Edge& edge : file.edges)
    out += fmt::format("- {{from: {}, to: {}, bytes: {}}}\n", quoted_scalar(file.nodes[edge.from].name),
                       quoted_scalar(file.nodes[edge.to].name), bytes_text(edge.bytes));
  return out;
}

template <class T>
T given(const std::optional<T>& option, const std::optional<T>& in_file, const char* flag, const char* key,
        const Node& document) {
  if (option) return *option;
  if (in_file) return *in_file;
  throw InputError(std::vector<Diagnostic>{diagnostic_at(document, fmt::format("the file has no '{}'; give {}", key, flag))});
}

}  // namespace

Imported import_piper(const PiperFile& file, const ImportOptions& options, const std::string& layers_file) {
  const Node& document = *file.document;
  std::optional<Bytes> memory;
  std::optional<Bandwidth> bandwidth;
  if (file.memory) memory = Bytes(std::llround(*file.memory));
  if (file.bandwidth && *file.bandwidth > 0) bandwidth = Bandwidth(*file.bandwidth);
  const int devices = given(options.devices, file.devices, "--devices", "maxDevices", document);
  const Bytes limit = given(options.memory, memory, "--memory", "maxMemoryPerDevice", document);
  const Bandwidth rate = given(options.bandwidth, bandwidth, "--bandwidth", "bandwidth", document);
  const int microbatches = given(options.microbatches, file.microbatches, "--microbatches", "mbsInBatch", document);
  Imported imported;
  imported.layers = layers_text(file, options);
  imported.scenario = fmt::format(
      "# {} as a scenario: panpipe plan --method piper takes it.\n"
      "panpipe: 1\n"
      "cluster: {{devices: {}, memory: {}, link: {{latency: 0 s, bandwidth: {}, shared: false}}}}\n"
      "workload: {{layers: {}}}\n"
      "batch: {{micro: 1, microbatches: {}}}  # of all replicas together\n",
      document.source->name, devices, exact_text(limit), exact_text(rate), quoted_scalar(layers_file), microbatches);
  if (options.most_data == 1) imported.scenario += "parallel: {data: 1}\n";
  return imported;
}

}  // namespace panpipe::planner::piper
