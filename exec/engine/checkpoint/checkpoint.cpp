#include "exec/engine/checkpoint/checkpoint.hpp"
#include "exec/engine/checkpoint/state_files.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"
#include "exec/engine/vocabulary_parts.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.hpp"
#include "exec/launch/checkpoint_folder.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::vector<StatePart> parts_of(const Trainer& trainer) {
  const auto file = [&](const char* kind) { return fmt::format("{}-{}.safetensors", kind, trainer.transport().rank()); };
  const auto form = [](const NamedState& entry) { return StoredForm{.parts = {{entry.name, whole_shape(*entry.parameter)}}}; };
  std::vector<StatePart> parts;
  parts.push_back({file("model"), trainer.model_state(), kGatherTag, form});
  const auto most = static_cast<std::uint32_t>(2 * trainer.run().graph().tensors.size());  // of the model's numbers
  parts.push_back({file("optimizer"), trainer.optimizer_state(), kGatherTag + most, form});
  return parts;
}

Manifest manifest_of(const Trainer& trainer, const std::vector<json>& shares) {
  const Scenario& scenario = trainer.run().experiment.scenario;
  Manifest manifest;
  manifest.model = trainer.run().graph().name;
  manifest.fingerprint = fingerprint_of(trainer.run().graph());
  manifest.optimizer = scenario.optimizer.name;
  manifest.precision = std::string(name_of(scenario.precision));
  manifest.seed = scenario.seed;
  manifest.shuffle = shuffles(scenario);
  manifest.ranks = trainer.transport().size();
  manifest.data = trainer.run().plan.data;
  manifest.position = trainer.position();
  for (const json& share : shares) {
    for (const json& file : share.at("files")) manifest.files.push_back({file.at("name"), file.at("bytes"), file.at("sha256")});
    for (const auto& [tensor, file] : share.at("tensors").items()) manifest.tensors[tensor] = file;
  }
  return manifest;
}

}  // namespace

std::string write_checkpoint(const Trainer& trainer, const std::string& directory, int keep, std::int64_t last) {
  const std::int64_t step = trainer.position().step;
  const fs::path folder = fs::path(directory) / checkpoint_name(step), part = fs::path(directory) / unfinished_name(step);
  write_folder(trainer, "writing the checkpoint " + folder.string(), parts_of(trainer), part, folder,
               [&](const std::vector<json>& shares) {
                 write_text_file(part / "manifest.json", to_json(manifest_of(trainer, shares)));
                 // Later ones than this run's last are of a run that was left. They are renamed, so a kill in between loses
                 // nothing.
                 set_aside_later(directory, last);
               });
  if (trainer.transport().rank() == 0 && keep > 0) {
    const std::vector<fs::path> all = checkpoints_in(directory);
    std::error_code ignored;
    for (std::size_t i = static_cast<std::size_t>(keep); i < all.size(); ++i) fs::remove_all(all[i], ignored);
  }
  return folder.string();
}

std::string find_checkpoint(Transport& transport, const std::string& resume, const std::string& directory,
                            Clock::duration deadline, std::vector<std::string>& passed_over) {
  if (resume != "auto") return resume;
  std::string found;
  if (transport.rank() == 0) {
    for (const fs::path& folder : checkpoints_in(directory)) {
      try {
        read_manifest(folder);
        found = folder.string();
        break;
      } catch (const InputError& error) {  // torn: the one before it
        passed_over.push_back(error.diagnostics().front().message);
      }
    }
  }
  return transport.all_gather(found, deadline, "the choice of a checkpoint").front();
}

void load_checkpoint(Trainer& trainer, const Manifest& manifest, const std::string& folder) {
  Transport& transport = trainer.transport();
  const auto refuse = [&](const std::string& why) { throw InputError(fmt::format("checkpoint {}: {}", folder, why)); };
  together<InputError>(transport, disk_deadline(trainer.run()), "reading the checkpoint " + folder, [&]() -> json {
    for (std::size_t i = 0; i < manifest.files.size(); ++i) {
      if (static_cast<int>(i % static_cast<std::size_t>(transport.size())) != transport.rank()) continue;
      if (sha256_of_file((fs::path(folder) / manifest.files[i].name).string()) != manifest.files[i].sha256)
        refuse(fmt::format("{} is not what was written: its hash differs", manifest.files[i].name));
    }
    const Plan& plan = trainer.run().plan;
    std::map<std::string, SafetensorsFile> open;
    const at::NoGradGuard no_graph;
    std::vector<NamedState> wanted = trainer.model_state();
    for (NamedState& entry : trainer.optimizer_state()) wanted.push_back(std::move(entry));
    for (NamedState& entry : wanted) {
      const auto found = manifest.tensors.find(entry.name);
      if (found == manifest.tensors.end()) refuse(fmt::format("it lacks {}", entry.name));
      const auto file = open.try_emplace(found->second, (fs::path(folder) / found->second).string()).first;
      const auto stored = file->second.tensors().find(entry.name);
      if (stored == file->second.tensors().end()) refuse(fmt::format("{} does not hold {}", found->second, entry.name));
      if (stored->second.shape != whole_shape(*entry.parameter))
        refuse(fmt::format("{} has shape ({}), not ({})", entry.name, fmt::join(stored->second.shape, ", "),
                           fmt::join(whole_shape(*entry.parameter), ", ")));
      const at::Tensor whole = file->second.read(entry.name);
      at::Tensor value =
          entry.ranks_of_rows > 1
              ? rows_of_rank(*entry.parameter, whole, place_of(plan, transport.rank()).position, entry.ranks_of_rows)
              : shard_of(*entry.parameter, whole, device_of_position(plan, transport.rank()), plan);
      if (!entry.lengths.empty()) {
        const auto own = entry.lengths.begin() + static_cast<std::ptrdiff_t>(entry.member);
        value = value.reshape({-1}).narrow(0, std::accumulate(entry.lengths.begin(), own, std::int64_t{0}), *own);
      }
      if (value.numel() > 0) entry.value.copy_(value);
    }
    return {};
  });
  trainer.state_loaded(manifest.position);
}

}  // namespace panpipe::exec
