// Writes the ranks' shares of a trainer's state as safetensors, with sharded parameters put together. Shared by checkpoints and
// model folders.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "exec/engine/measure/gathered.hpp"
#include "exec/engine/training/trainer.hpp"
#include "exec/engine/weights/stored_form.hpp"

namespace panpipe::exec {

// The limit of waits around files. It is longer than other limits because a disk may be slow, and a rank that waits for it
// neither computes nor sends. A dead rank is still noticed at once.
Clock::duration disk_deadline(const PreparedRun& run);

// Writes and flushes a small file. Throws MachineError with the reason.
void write_text_file(const std::filesystem::path& path, const std::string& text);

// Runs `work` on this rank and shares the outcome. If it failed on any rank, all ranks throw. Returns each rank's result.
template <class Fault, class Work>
std::vector<nlohmann::json> together(Transport& transport, Clock::duration deadline, const std::string& what, Work work) {
  using nlohmann::json;
  json mine = json::object();
  transport.set_action(what);
  try {
    mine["result"] = work();
  } catch (const InputError& error) {
    mine["fault"] = error.diagnostics().front().message;
  } catch (const std::exception& error) {
    mine["fault"] = error.what();
  }
  std::vector<json> results;
  std::string fault;
  for (const json& part : gathered(transport, mine, deadline, what)) {
    if (part.contains("fault") && fault.empty())
      fault = fmt::format("rank {}: {}", results.size(), part["fault"].get<std::string>());
    results.push_back(part.value("result", json()));
  }
  if (!fault.empty()) throw Fault(fault);
  return results;
}

// The first tag of gathers. Messages of passes and gradients use lower tags, which count within one step.
constexpr std::uint32_t kGatherTag = 0xC0000000U;

// State that goes into one file per rank. An entry's tag is `first_tag` plus its number; parts are ordered by their tags.
struct StatePart {
  std::string file;  // name of this rank's
  std::vector<NamedState> state;
  std::uint32_t first_tag = kGatherTag;
  std::function<StoredForm(const NamedState&)> form;  // the form of each entry in the file
};

// Call it on every rank: writes their shares into `unfinished`, which is renamed to `folder`, so that this is complete or absent.
// `what` is being done, for messages. `finish`: on rank 0 before that, with what each rank wrote: {"files": [{"name", "bytes",
// "sha256"}], "tensors": {name in the file: file}}. On failure every rank throws MachineError with the failing rank and the
// reason, and `unfinished` is removed. NoAnswer instead if an update made a parameter infinite or not a number.
void write_folder(const Trainer& trainer, const std::string& what, const std::vector<StatePart>& parts,
                  const std::filesystem::path& unfinished, const std::filesystem::path& folder,
                  const std::function<void(const std::vector<nlohmann::json>& shares)>& finish);

}  // namespace panpipe::exec
