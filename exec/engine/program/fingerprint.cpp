#include "exec/engine/program/fingerprint.hpp"

#include <fmt/format.h>

#include "exec/engine/mixed_bits.hpp"

namespace panpipe::exec {
namespace {

std::string hash(const std::string& text) { return fmt::format("{:016x}", hash_of(text)); }

// Without comments: they state where a value came from, and a file may lie elsewhere on another host.
std::string values_of(const std::string& yaml) {
  std::string values;
  for (std::size_t begin = 0; begin < yaml.size();) {
    const std::size_t end = std::min(yaml.find('\n', begin), yaml.size());
    const std::string line = yaml.substr(begin, end - begin);
    values += line.substr(0, line.find('#')) + "\n";
    begin = end + 1;
  }
  return values;
}

}  // namespace

std::vector<Agreement> fingerprints(const PreparedRun& run) {
  const RunRequest& request = run.request;
  const int type = run.experiment.scenario.cluster.devices.front().type;
  return {{"scenario (hash of its values)", hash(values_of(resolved_text(run.experiment.scenario)))},
          {"model (hash of its operators)", hash(run.graph().to_text())},
          {"plan (hash)", hash(values_of(to_yaml(run.plan, run.experiment.model.units(type))))},
          {"options", fmt::format("--steps {} --warmup {} --device {}", request.steps, request.warmup, request.device)}};
}

}  // namespace panpipe::exec
