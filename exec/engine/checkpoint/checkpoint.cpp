#include "exec/engine/checkpoint/checkpoint.hpp"
#include "exec/engine/run/deadline.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "exec/launch/checkpoint_folder.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// A disk may be slow, and a rank that waits for it neither computes nor sends: waits around files are longer than others. A dead
// rank is noticed at once all the same.
constexpr auto kDiskDeadline = std::chrono::minutes(5);

Clock::duration disk_deadline(const PreparedRun& run) {
  return std::max<Clock::duration>(kDiskDeadline, deadline_of(run.request));
}

void flush_folder(const fs::path& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);  // best effort: not every file system can
  ::close(file);
}

// Runs `work` on this rank, tells all ranks how it went, and throws on all of them when it failed on one. Returns what each
// rank's work returned.
template <class Fault, class Work>
std::vector<json> together(Transport& transport, Clock::duration deadline, const std::string& what, Work work) {
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

// One kind of state, written into one file. Tags count the entries of all parts, the same on all tensor-parallel ranks: they keep
// the same things.
struct StatePart {
  const char* kind;
  std::vector<NamedState> state;
  std::uint32_t first_tag;
};

std::vector<StatePart> parts_of(const Trainer& trainer) {
  std::vector<StatePart> parts;
  parts.push_back({"model", trainer.model_state(), kGatherTag});
  parts.push_back({"optimizer", trainer.optimizer_state(), kGatherTag + static_cast<std::uint32_t>(parts[0].state.size())});
  return parts;
}

at::Tensor on_host(const at::Tensor& value) { return value.detach().to(at::kCPU).contiguous(); }

// What is cut over tensor-parallel ranks is put together by the first of them, tensor after tensor, on the host: the GPU's memory
// may be full. It asks for each shard when it is about to write the tensor, so that no shard waits in its memory.
class ShardGather {
 public:
  explicit ShardGather(const Trainer& trainer)
      : plan_(trainer.run().plan),
        transport_(trainer.transport()),
        deadline_(disk_deadline(trainer.run())),
        place_(place_of(plan_, transport_.rank())),
        open_(static_cast<std::size_t>(plan_.tensor)) {}

  // On the first shard: what will be asked for, in this order.
  void expect(const NamedState& entry, std::uint32_t tag) {
    for (const int shard : others(entry)) open_[static_cast<std::size_t>(shard)].push_back(tag);
  }
  at::Tensor whole(const NamedState& entry, std::uint32_t tag) {
    std::vector<PendingPtr> asked, arriving;
    for (const int shard : others(entry)) {
      open_[static_cast<std::size_t>(shard)].pop_front();
      arriving.push_back(
          transport_.receive({entry.value.sizes().vec(), entry.value.scalar_type(), at::kCPU}, rank_of(shard), tag));
      asked.push_back(answer(shard, tag, true));
    }
    std::vector<at::Tensor> shards = {on_host(entry.value)};
    for (const PendingPtr& one : arriving) {
      one->wait(deadline_, kWhat);
      shards.push_back(std::move(one->value));
    }
    for (const PendingPtr& one : asked) one->wait(deadline_, kWhat);
    return whole_of(*entry.parameter, shards);
  }
  // The file could not be written: nobody needs to wait for being asked.
  void stop() {
    for (std::size_t shard = 0; shard < open_.size(); ++shard)
      if (!open_[shard].empty()) answer(static_cast<int>(shard), open_[shard].front(), false)->wait(deadline_, kWhat);
  }

  // On the other shards: false when nothing more is wanted.
  bool give(const NamedState& entry, std::uint32_t tag) {
    const std::vector<int> from = others(entry);
    if (std::find(from.begin(), from.end(), place_.shard) == from.end()) return true;
    const PendingPtr question = transport_.receive({{1}, at::kBool, at::kCPU}, rank_of(0), tag);
    question->wait(deadline_, kWhat);
    if (!question->value.item<bool>()) return false;
    transport_.send(on_host(entry.value), rank_of(0), tag)->wait(deadline_, kWhat);
    return true;
  }

 private:
  static constexpr const char* kWhat = "gathering the checkpoint";

  std::vector<int> others(const NamedState& entry) const {
    std::vector<int> shards = first_holders(*entry.parameter, plan_.tensor);
    shards.erase(shards.begin());  // the first is shard 0
    return shards;
  }
  int rank_of(int shard) const { return world_rank(plan_, {place_.position, place_.replica, shard}); }
  PendingPtr answer(int shard, std::uint32_t tag, bool wanted) {
    return transport_.send(at::full({1}, wanted, at::kBool), rank_of(shard), tag);
  }

  const Plan& plan_;
  Transport& transport_;
  Clock::duration deadline_;
  MeshPlace place_;
  std::vector<std::deque<std::uint32_t>> open_;  // by shard: tags of what it was not asked for yet
};

// Calls `use` with each entry that this rank's position and replica write, until it returns false.
template <class Use>
void for_each_written(const StatePart& part, Use use) {
  for (std::size_t i = 0; i < part.state.size(); ++i)
    if (part.state[i].writes && !use(part.state[i], part.first_tag + static_cast<std::uint32_t>(i))) return;
}

json write_part(const Trainer& trainer, const StatePart& part, ShardGather& gather, const fs::path& folder, json& tensors) {
  std::vector<TensorToWrite> to_write;
  const std::string name = fmt::format("{}-{}.safetensors", part.kind, trainer.transport().rank());
  for_each_written(part, [&](const NamedState& entry, std::uint32_t tag) {
    to_write.push_back({entry.name, entry.value.scalar_type(), whole_shape(*entry.parameter),
                        [&gather, &entry, tag] { return gather.whole(entry, tag); }});
    tensors[entry.name] = name;
    return true;
  });
  if (to_write.empty()) return nullptr;
  const WrittenFile written = write_safetensors(folder / name, to_write, {{"format", "pt"}});
  return {{"name", written.name}, {"bytes", written.bytes}, {"sha256", written.sha256}};
}

json write_share(const Trainer& trainer, const fs::path& folder) {
  json files = json::array(), tensors = json::object();
  const std::vector<StatePart> parts = parts_of(trainer);
  ShardGather gather(trainer);
  if (place_of(trainer.run().plan, trainer.transport().rank()).shard > 0) {
    bool wanted = true;
    for (const StatePart& part : parts)
      for_each_written(part,
                       [&](const NamedState& entry, std::uint32_t tag) { return wanted = wanted && gather.give(entry, tag); });
  } else {
    for (const StatePart& part : parts)
      for_each_written(part, [&](const NamedState& entry, std::uint32_t tag) {
        gather.expect(entry, tag);
        return true;
      });
    try {
      for (const StatePart& part : parts)
        if (json file = write_part(trainer, part, gather, folder, tensors); !file.is_null()) files.push_back(std::move(file));
    } catch (const MachineError&) {
      gather.stop();
      throw;
    }
  }
  return {{"files", std::move(files)}, {"tensors", std::move(tensors)}};
}

Manifest manifest_of(const Trainer& trainer, const std::vector<json>& shares) {
  const Scenario& scenario = trainer.run().experiment.scenario;
  Manifest manifest;
  manifest.model = trainer.run().graph().name;
  manifest.fingerprint = fingerprint_of(trainer.run().graph());
  manifest.optimizer = scenario.optimizer.name;
  manifest.precision = std::string(name_of(scenario.precision));
  manifest.seed = scenario.seed;
  manifest.ranks = trainer.transport().size();
  manifest.data = trainer.run().plan.data;
  manifest.position = trainer.position();
  for (const json& share : shares) {
    for (const json& file : share.at("files")) manifest.files.push_back({file.at("name"), file.at("bytes"), file.at("sha256")});
    for (const auto& [tensor, file] : share.at("tensors").items()) manifest.tensors[tensor] = file;
  }
  return manifest;
}

void write_manifest(const Manifest& manifest, const fs::path& folder) {
  const fs::path path = folder / "manifest.json";
  const std::string text = to_json(manifest);
  const auto fail = [&] { throw MachineError(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno))); };
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) fail();
  const bool whole = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(file) == 0;
  const int reason = errno;
  ::close(file);
  errno = reason;
  if (!whole) fail();
}

}  // namespace

std::string write_checkpoint(const Trainer& trainer, const std::string& directory, int keep) {
  Transport& transport = trainer.transport();
  const Clock::duration deadline = disk_deadline(trainer.run());
  const std::int64_t step = trainer.position().step;
  const fs::path folder = fs::path(directory) / checkpoint_name(step), part = fs::path(directory) / unfinished_name(step);
  const bool first = transport.rank() == 0;
  const std::string what = "writing the checkpoint " + folder.string();
  try {
    together<MachineError>(transport, deadline, what, [&]() -> json {
      if (!first) return {};
      std::error_code fault;
      fs::remove_all(part, fault);
      fs::create_directories(part, fault);
      if (fault) throw MachineError(fmt::format("cannot make {}: {}", part.string(), fault.message()));
      return {};
    });
    const std::vector<json> shares =
        together<MachineError>(transport, deadline, what, [&] { return write_share(trainer, part); });
    together<MachineError>(transport, deadline, what, [&]() -> json {
      if (!first) return {};
      write_manifest(manifest_of(trainer, shares), part);
      flush_folder(part);
      std::error_code fault;
      fs::remove_all(folder, fault);  // of an earlier run from the same step
      fs::rename(part, folder, fault);
      if (fault) throw MachineError(fmt::format("cannot rename {}: {}", part.string(), fault.message()));
      flush_folder(directory);
      return {};
    });
  } catch (const MachineError&) {
    std::error_code ignored;
    if (first) fs::remove_all(part, ignored);
    throw;
  }
  if (first && keep > 0) {
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
    const MeshPlace place = place_of(trainer.run().plan, transport.rank());
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
      entry.value.copy_(shard_of(*entry.parameter, file->second.read(entry.name), place.shard, trainer.run().plan.tensor));
    }
    return {};
  });
  trainer.state_loaded(manifest.position);
}

}  // namespace panpipe::exec
