#include "exec/engine/checkpoint/state_files.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/files/files_write.hpp"
#include "exec/engine/checkpoint/safetensors.hpp"
#include "exec/engine/run/deadline.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"

namespace panpipe::exec {

using nlohmann::json;
namespace fs = std::filesystem;

Clock::duration disk_deadline(const PreparedRun& run) {
  constexpr auto kDiskDeadline = std::chrono::minutes(5);
  return std::max<Clock::duration>(kDiskDeadline, deadline_of(run.request));
}

void write_text_file(const fs::path& path, const std::string& text) {
  OutputFile file(path.string());
  file.write(text.data(), text.size());
  file.finish(true);
}

namespace {

// Best effort: some file systems do not support it.
void flush_folder(const fs::path& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

void check_finite(const Trainer& trainer, const std::string& what) {
  together<NoAnswer>(trainer.transport(), disk_deadline(trainer.run()), what, [&]() -> json {
    const at::NoGradGuard no_graph;
    for (const int root : trainer.gradients().roots()) {
      if (at::isfinite(trainer.parameters().masters().at(root)).all().item<bool>()) continue;
      throw NoAnswer(fmt::format(
          "step {}: the update made '{}' infinite or not a number; {} is refused, and earlier ones stay: go on from one of them, "
          "with a lower learning rate or training.clip_gradients",
          trainer.position().step, trainer.run().graph().tensors[root].name, what));
    }
    return {};
  });
}

// Joins tensors that are cut over neighbours, or that ZeRO 2 and 3 divide over a shard group. The first of these ranks does it,
// tensor after tensor, on the host, because the GPU's memory may be full. It requests each part when it is about to write the
// tensor, so that no part waits in its memory. A rank may write some tensors and hold parts of others, such as those of an
// expert. All ranks take tensors in the order of their tags, so the rank that is furthest behind waits for no other.
class ShardGather {
 public:
  ShardGather(const Trainer& trainer, const std::vector<StatePart>& parts)
      : plan_(trainer.run().plan),
        transport_(trainer.transport()),
        deadline_(disk_deadline(trainer.run())),
        here_(device_of_position(plan_, transport_.rank())) {
    for (const StatePart& part : parts)
      for (const NamedState& entry : part.state) {
        if (!entry.writes) continue;
        const std::uint32_t tag = part.first_tag + entry.number;
        for (const Source& source : sources(entry)) {
          const bool own = source.rank == transport_.rank();
          if (is_first(entry) && !own) open_[source.rank].push_back(tag);
          if (!is_first(entry) && own) to_give_.push_back({&entry, tag});
        }
      }
  }

  // Whether this rank writes what its neighbours hold with it.
  bool is_first(const NamedState& entry) const {
    return here_ == first_device(entry) && (entry.ranks_of_rows == 1 || place_of(plan_, transport_.rank()).position == 0);
  }

  // On the first.
  at::Tensor whole(const NamedState& entry, std::uint32_t tag) {
    give_before(tag);
    std::vector<PendingPtr> asked, arriving;
    for (const Source& source : sources(entry)) {
      if (source.rank == transport_.rank()) {
        arriving.push_back(nullptr);
        continue;
      }
      arriving.push_back(transport_.receive({source.shape, entry.value.scalar_type(), at::kCPU}, source.rank, tag));
      asked.push_back(answer(source.rank, tag, true));
      open_.at(source.rank).pop_front();
    }
    std::vector<at::Tensor> parts;
    for (const PendingPtr& one : arriving) {
      if (one) one->wait(deadline_, kWhat);
      parts.push_back(one ? std::move(one->value) : entry.on_host());
    }
    for (const PendingPtr& one : asked) one->wait(deadline_, kWhat);
    return whole_of(*entry.parameter, parts);
  }
  // The file could not be written: nobody needs to wait for being asked.
  void stop() {
    for (const auto& [rank, tags] : open_)
      if (!tags.empty()) answer(rank, tags.front(), false)->wait(deadline_, kWhat);
  }

  // Shards that the first of others will ask for, as long as they do, up to this tag.
  void give_before(std::uint32_t end) {
    for (; !to_give_.empty() && to_give_.front().second < end; to_give_.pop_front()) {
      const auto& [entry, tag] = to_give_.front();
      const int first = entry->ranks_of_rows > 1 ? here_ : rank_of(*entry, 0);
      if (stopped_.count(first) > 0) continue;
      const PendingPtr question = transport_.receive({{1}, at::kBool, at::kCPU}, first, tag);
      question->wait(deadline_, kWhat);
      if (question->value.item<bool>())
        transport_.send(entry->on_host(), first, tag)->wait(deadline_, kWhat);
      else
        stopped_.insert(first);
    }
  }

 private:
  static constexpr const char* kWhat = "gathering the checkpoint";

  // A rank that has a part of the entry, and its shape; shard by shard, and within a shard the members of the shard group.
  struct Source {
    int rank;
    std::vector<std::int64_t> shape;
  };
  std::vector<Source> sources(const NamedState& entry) const {
    std::vector<Source> found;
    for (int position = 0; position < entry.ranks_of_rows && entry.ranks_of_rows > 1; ++position)
      found.push_back({position * plan_.devices_of_rank() + here_, entry.value.sizes().vec()});
    if (!found.empty()) return found;
    for (const int shard : first_holders(*entry.parameter, plan_)) {
      if (entry.lengths.empty()) found.push_back({rank_of(entry, shard), entry.value.sizes().vec()});
      for (std::size_t member = 0; member < entry.lengths.size(); ++member)
        if (entry.lengths[member] > 0)
          found.push_back({rank_of(entry, shard + static_cast<int>(member) * plan_.tensor), {entry.lengths[member]}});
    }
    return found;
  }
  // For an entry that is divided over a shard group, the first device of the position, because the first group writes.
  int first_device(const NamedState& entry) const {
    return entry.lengths.empty() ? here_ - here_ % devices_that_share(*entry.parameter, plan_) : 0;
  }
  // The world rank of a neighbour that holds a part of the entry.
  int rank_of(const NamedState& entry, int neighbour) const {
    return transport_.rank() - here_ + first_device(entry) + neighbour;
  }
  PendingPtr answer(int rank, std::uint32_t tag, bool wanted) {
    return transport_.send(at::full({1}, wanted, at::kBool), rank, tag);
  }

  const Plan& plan_;
  Transport& transport_;
  Clock::duration deadline_;
  int here_;                                                         // among the devices of the position
  std::map<int, std::deque<std::uint32_t>> open_;                    // by rank: tags of what it was not asked for yet
  std::deque<std::pair<const NamedState*, std::uint32_t>> to_give_;  // in the order of tags
  std::set<int> stopped_;                                            // ranks that ask for nothing more
};

json write_part(const StatePart& part, ShardGather& gather, const fs::path& folder, json& tensors) {
  std::vector<TensorToWrite> to_write;
  for (const NamedState& entry : part.state) {
    if (!entry.writes || !gather.is_first(entry)) continue;
    const std::uint32_t tag = part.first_tag + entry.number;
    const StoredForm form = part.form(entry);
    // Gathered for the first of its tensors, kept for the others.
    const auto whole = std::make_shared<at::Tensor>();
    for (std::size_t k = 0; k < form.parts.size(); ++k) {
      const auto value = [&gather, &entry, tag, whole, form, k, last = k + 1 == form.parts.size()] {
        if (!whole->defined()) *whole = gather.whole(entry, tag);
        at::Tensor tensor = part_of_whole(form, *whole, k);
        if (last) whole->reset();
        return tensor;
      };
      to_write.push_back({form.parts[k].name, entry.value.scalar_type(), form.parts[k].shape, value});
      tensors[form.parts[k].name] = part.file;
    }
  }
  if (to_write.empty()) return nullptr;
  const WrittenFile written = write_safetensors(folder / part.file, to_write, {{"format", "pt"}});
  return {{"name", written.name}, {"bytes", written.bytes}, {"sha256", written.sha256}};
}

json write_share(const Trainer& trainer, const std::vector<StatePart>& parts, const fs::path& folder) {
  json files = json::array(), tensors = json::object();
  ShardGather gather(trainer, parts);
  try {
    for (const StatePart& part : parts)
      if (json file = write_part(part, gather, folder, tensors); !file.is_null()) files.push_back(std::move(file));
    gather.give_before(std::numeric_limits<std::uint32_t>::max());
  } catch (...) {
    gather.stop();
    gather.give_before(std::numeric_limits<std::uint32_t>::max());  // others may still ask
    throw;
  }
  return {{"files", std::move(files)}, {"tensors", std::move(tensors)}};
}

}  // namespace

void write_folder(const Trainer& trainer, const std::string& what, const std::vector<StatePart>& parts,
                  const fs::path& unfinished, const fs::path& folder,
                  const std::function<void(const std::vector<json>& shares)>& finish) {
  check_finite(trainer, what);
  const bool first = trainer.transport().rank() == 0;
  const auto all = [&](auto work) {
    return together<MachineError>(trainer.transport(), disk_deadline(trainer.run()), what, work);
  };
  try {
    all([&]() -> json {
      if (!first) return {};
      std::error_code fault;
      fs::remove_all(unfinished, fault);
      fs::create_directories(unfinished, fault);
      if (fault) throw MachineError(fmt::format("cannot make {}: {}", unfinished.string(), fault.message()));
      return {};
    });
    const std::vector<json> shares = all([&] { return write_share(trainer, parts, unfinished); });
    all([&]() -> json {
      if (!first) return {};
      finish(shares);
      flush_folder(unfinished);
      std::error_code fault;
      fs::rename(unfinished, folder, fault);
      if (fault) throw MachineError(fmt::format("cannot rename {}: {}", unfinished.string(), fault.message()));
      flush_folder(folder.parent_path());
      return {};
    });
  } catch (const MachineError&) {
    std::error_code ignored;
    if (first) fs::remove_all(unfinished, ignored);
    throw;
  }
}

}  // namespace panpipe::exec
