// What ranks hold of a trainer's state, written as safetensors: each of them what it stands for, cut parameters put together.
// Shared by checkpoints and by folders of models.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "exec/engine/training/trainer.hpp"
#include "exec/engine/weights/stored_form.hpp"

namespace panpipe::exec {

// A disk may be slow, and a rank that waits for it neither computes nor sends: waits around files are longer than others. A dead
// rank is noticed at once all the same.
Clock::duration disk_deadline(const PreparedRun& run);

// Best effort: not every file system can.
void flush_folder(const std::filesystem::path& folder);

// Writes and flushes a small file. MachineError with the reason.
void write_text_file(const std::filesystem::path& path, const std::string& text);

// Runs `work` on this rank, tells all ranks how it went, and throws on all of them when it failed on one. Returns what each
// rank's work returned.
template <class Fault, class Work>
std::vector<nlohmann::json> together(Transport& transport, Clock::duration deadline, const std::string& what, Work work) {
  using nlohmann::json;
  json mine = json::object();
  transport.doing(what);
  try {
    mine["result"] = work();
  } catch (const InputError& error) {
    mine["fault"] = error.diagnostics().front().message;
  } catch (const std::exception& error) {
    mine["fault"] = error.what();
  }
  std::vector<json> results;
  std::string fault;
  int rank = 0;
  for (const std::string& text :
       transport.all_gather(mine.dump(-1, ' ', false, json::error_handler_t::replace), deadline, what)) {
    const json part = json::parse(text);
    if (part.contains("fault") && fault.empty()) fault = fmt::format("rank {}: {}", rank, part["fault"].get<std::string>());
    results.push_back(part.value("result", json()));
    ++rank;
  }
  if (!fault.empty()) throw Fault(fault);
  return results;
}

// Tags of the passes' messages and of gradients stay below: those count within one step.
constexpr std::uint32_t kGatherTag = 0xC0000000U;

// State that goes into one file of each rank. The tag of an entry is `first_tag` and its number; parts stand in the order of
// their tags.
struct StatePart {
  std::string file;  // name of this rank's
  std::vector<NamedState> state;
  std::uint32_t first_tag = kGatherTag;
  std::function<StoredForm(const NamedState&)> form;  // in which each stands in the file
};

// On every rank. What this one wrote: {"files": [{"name", "bytes", "sha256"}], "tensors": {name in the file: file}}.
// MachineError with the reason.
nlohmann::json write_share(const Trainer& trainer, const std::vector<StatePart>& parts, const std::filesystem::path& folder);

}  // namespace panpipe::exec
