#include "exec/engine/checkpoint/manifest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/files/file_hash.hpp"
#include "base/files/input_registry.hpp"
#include "base/input/json_input.hpp"
#include "base/input/reader.hpp"
#include "base/text/first_few.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"

namespace panpipe::exec {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainingPosition, step, samples, updates, loss_scale, good_steps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WrittenFile, name, bytes, sha256)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Manifest, model, fingerprint, optimizer, precision, seed, shuffle, ranks, data, position,
                                   files, tensors)

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kSchema = "panpipe-checkpoint";

[[noreturn]] void refuse(const std::string& folder, const std::string& why) {
  throw InputError(fmt::format("checkpoint {}: {}", folder, why));
}

// Names and shapes of everything that a model keeps, by root.
std::map<std::string, std::vector<std::int64_t>> kept_by(const OperatorGraph& graph) {
  std::map<std::string, std::vector<std::int64_t>> kept;
  for (const Tensor& tensor : graph.tensors)
    if ((tensor.role == TensorRole::Parameter || tensor.role == TensorRole::Buffer) && tensor.tied_to < 0 &&
        !is_of_the_rank(tensor))
      kept[tensor.name] = whole_shape(tensor);
  return kept;
}

// Negative counts, files outside the folder, tensors of files that are not listed.
void check_values(const Manifest& manifest, const std::string& folder) {
  const TrainingPosition& at = manifest.position;
  if (at.step < 0 || at.samples < 0 || at.updates < 0 || at.good_steps < 0 || !(at.loss_scale > 0))
    refuse(folder, "manifest.json counts below zero");
  std::set<std::string> files;
  for (const WrittenFile& file : manifest.files) {
    if (file.name.empty() || file.name.find('/') != std::string::npos || file.name[0] == '.')
      refuse(folder, fmt::format("manifest.json names a file outside the folder, '{}'", file.name));
    files.insert(file.name);
  }
  for (const auto& [tensor, file] : manifest.tensors)
    if (!files.count(file))
      refuse(folder, fmt::format("manifest.json puts '{}' into '{}', which it does not list", tensor, file));
}

}  // namespace

std::string fingerprint_of(const OperatorGraph& graph) {
  std::string text;
  for (const auto& [name, shape] : kept_by(graph)) text += fmt::format("{} {}\n", name, fmt::join(shape, ","));
  return sha256_of(text);
}

std::string to_json(const Manifest& manifest) {
  json root = manifest;
  root["schema"] = kSchema;
  root["version"] = kCheckpointVersion;
  return root.dump(1) + "\n";
}

Manifest read_manifest(const std::string& folder) {
  const fs::path path = fs::path(folder) / "manifest.json";
  if (!fs::is_directory(folder)) refuse(folder, "there is no such folder");
  const std::optional<std::string> text = input_bytes(path);
  if (!text) refuse(folder, "it has no manifest.json: it was never finished, or it is not a checkpoint");
  register_input(path);
  json root;
  try {
    root = parse_json<json>(*text, "manifest.json");
  } catch (const InputError& error) {
    const Diagnostic& fault = error.diagnostics().front();
    refuse(folder, fmt::format("{}:{}:{}: {}", fault.file, fault.line, fault.column, fault.message));
  }
  if (!root.is_object() || root.value("schema", json()) != kSchema) refuse(folder, "manifest.json is not a checkpoint's");
  if (const json version = root.value("version", json()); version != kCheckpointVersion)
    refuse(folder, fmt::format("it has format {}; this version of panpipe reads format {}", version.dump(), kCheckpointVersion));
  Manifest manifest;
  try {
    manifest = root.get<Manifest>();
  } catch (const json::exception&) {
    refuse(folder, "manifest.json lacks a value or has one of another kind");
  }
  check_values(manifest, folder);
  for (const WrittenFile& written : manifest.files) {
    std::error_code missing;
    const auto bytes = fs::file_size(fs::path(folder) / written.name, missing);
    if (missing) refuse(folder, fmt::format("{} is missing", written.name));
    if (static_cast<std::int64_t>(bytes) != written.bytes)
      refuse(folder, fmt::format("{} has {} bytes, not the {} that were written", written.name, bytes, written.bytes));
  }
  return manifest;
}

void check_manifest(const Manifest& manifest, const std::string& folder, const PreparedRun& run) {
  const Scenario& scenario = run.experiment.scenario;
  if (manifest.fingerprint != fingerprint_of(run.graph())) {
    const auto wanted = kept_by(run.graph());
    std::vector<std::string> missing, foreign;
    for (const auto& [name, shape] : wanted)
      if (!manifest.tensors.count(name)) missing.push_back(name);
    for (const auto& [name, file] : manifest.tensors) {
      const auto dot = name.rfind('.');
      if (!wanted.count(name) && !(dot != std::string::npos && manifest.tensors.count(name.substr(0, dot))))
        foreign.push_back(name);
    }
    std::string difference;
    if (!missing.empty()) difference += fmt::format("; it lacks {}", first_few(missing));
    if (!foreign.empty()) difference += fmt::format("; it has {}, which this model does not", first_few(foreign));
    if (difference.empty()) difference = "; the names are the same, the shapes differ";
    refuse(folder, fmt::format("it is of another model, {} (this one is {}){}", manifest.model, run.graph().name, difference));
  }
  if (manifest.optimizer != scenario.optimizer.name && scenario.optimizer.name != "none")
    refuse(folder, fmt::format("it holds the state of optimizer {}; the scenario trains with {}", manifest.optimizer,
                               scenario.optimizer.name));
  if (manifest.position.samples % scenario.degrees.micro != 0 && scenario.data.kind == DataRequest::Kind::Synthetic)
    refuse(folder, fmt::format("it stopped after {} samples, in the middle of a microbatch of {}", manifest.position.samples,
                               scenario.degrees.micro));
}

bool shuffles(const Scenario& scenario) { return scenario.data.kind != DataRequest::Kind::Synthetic && scenario.data.shuffle; }

std::vector<std::string> changes_since(const Manifest& manifest, const PreparedRun& run) {
  const Scenario& scenario = run.experiment.scenario;
  std::vector<std::string> changes;
  const auto changed = [&](const char* key, const auto& before, const auto& now, const char* effect) {
    changes.push_back(fmt::format("{} was {} when the checkpoint was written and is {} now: {}", key, before, now, effect));
  };
  const auto pure = [](std::string_view precision) { return precision.ends_with("-pure"); };
  if (const std::string precision(name_of(scenario.precision)); precision != manifest.precision)
    changed("precision", manifest.precision, precision,
            pure(precision)            ? "weights and the optimizer's state are rounded to 2 bytes"
            : pure(manifest.precision) ? "weights and the optimizer's state stay as they were rounded to 2 bytes"
                                       : "products are rounded in another way from here on");
  const bool shuffled = shuffles(scenario);
  if (manifest.shuffle != shuffled)
    changed("data.shuffle", manifest.shuffle, shuffled, "some samples of this epoch come twice, and others not at all");
  if (manifest.seed != scenario.seed)
    changed("seed", manifest.seed, scenario.seed,
            shuffled ? "dropout differs, some samples of this epoch come twice, and others not at all"
                     : "dropout and synthetic data differ from those of one uninterrupted run");
  return changes;
}

}  // namespace panpipe::exec
