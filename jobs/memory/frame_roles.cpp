#include "jobs/memory/frame_roles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/characters.hpp"
#include "costmodel/lowering/memory_part.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostFrames = 256;  // of one block; deeper ones are the launcher's
constexpr std::size_t kMostPlace = 120;   // bytes

struct Frame {
  std::string_view file, name;
  std::int64_t line = 0;
};

bool has_part(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::vector<Frame> frames_of(const Pickle& pickle, const PickleValue& list) {
  std::vector<Frame> frames;
  const std::span<const PickleValue> items = pickle.items(list);
  for (const PickleValue& item : items.first(std::min(items.size(), kMostFrames))) {
    const PickleValue *file = pickle.find(item, "filename"), *name = pickle.find(item, "name"), *line = pickle.find(item, "line");
    if (file == nullptr || name == nullptr) continue;
    frames.push_back({pickle.text(*file), pickle.text(*name), line && line->kind == PickleKind::Integer ? line->integer : 0});
  }
  return frames;
}

bool of_python(const Frame& frame) { return frame.file.ends_with(".py") || frame.file.ends_with(".ipynb"); }
bool of_torch(const Frame& frame) { return has_part(frame.file, "/torch/"); }

std::string shown_place(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size() && result.size() < kMostPlace;) {
    const std::size_t length = utf8_length(text, i);
    result += length == 0 ? "?" : std::string(text.substr(i, length));
    i += std::max<std::size_t>(1, length);
  }
  return without_controls(result);
}

std::string text_of(const Frame& frame) {
  return shown_place(fmt::format("{}:{} {}", frame.file.substr(frame.file.find_last_of('/') + 1), frame.line, frame.name));
}

// Snapshots that Panpipe wrote name the use.
AllocatedAt of_prediction(const std::vector<Frame>& frames) {
  static constexpr std::pair<MemoryUse, MemoryRole> kRoles[] = {
      {MemoryUse::Parameters, MemoryRole::Parameters},       {MemoryUse::Gradients, MemoryRole::Gradients},
      {MemoryUse::GradientBuckets, MemoryRole::Gradients},   {MemoryUse::Optimizer, MemoryRole::Optimizer},
      {MemoryUse::BoundaryBuffers, MemoryRole::Activations}, {MemoryUse::Activations, MemoryRole::Activations},
      {MemoryUse::Temporary, MemoryRole::Temporary}};
  AllocatedAt result;
  const std::optional<MemoryUse> use = memory_use_named(frames.back().name);
  for (const auto& [of, role] : kRoles)
    if (use == of) result.role = role;
  result.place = shown_place(fmt::format("{} {}", frames.front().file, frames.front().name));
  return result;
}

// In functions of PyTorch's wrappers: FSDP's shards are parameters, and DistributedDataParallel itself allocates buckets.
std::optional<MemoryRole> role_in_wrapper(const std::vector<Frame>& frames) {
  const auto inner = std::find_if(frames.begin(), frames.end(), of_python);
  if (inner == frames.end() || !of_torch(*inner)) return std::nullopt;
  if (inner->file.ends_with("nn/parallel/distributed.py")) return MemoryRole::Gradients;
  if (has_part(inner->file, "/fsdp/") && has_part(inner->name, "init")) return MemoryRole::Parameters;
  return std::nullopt;
}

MemoryRole role_of(const std::vector<Frame>& frames) {
  const auto any = [&](auto test) { return std::any_of(frames.begin(), frames.end(), test); };
  const auto named = [&](std::string_view name) { return any([&](const Frame& frame) { return frame.name == name; }); };
  const auto in_name = [&](std::string_view part) { return any([&](const Frame& frame) { return has_part(frame.name, part); }); };
  if (in_name("AccumulateGrad") || in_name("c10d::Reducer")) return MemoryRole::Gradients;
  const auto in_optimizer = [](const Frame& frame) { return of_python(frame) && has_part(frame.file, "optim"); };
  if (any(in_optimizer)) return in_name("init") ? MemoryRole::Optimizer : MemoryRole::Temporary;
  if (in_name("reduce_scatter")) return MemoryRole::Gradients;
  if (const std::optional<MemoryRole> role = role_in_wrapper(frames)) return *role;
  if (in_name("all_gather") || in_name("unshard")) return MemoryRole::Temporary;
  if (in_name("run_backward") || named("backward")) return MemoryRole::Backward;
  if (named("forward")) return MemoryRole::Activations;
  const auto in_module = [](const Frame& frame) { return has_part(frame.file, "torch/nn/"); };
  const auto makes_weights = [&](const Frame& frame) {
    return in_module(frame) && (frame.name == "_apply" || frame.name == "__init__" || frame.name == "reset_parameters");
  };
  if (any(makes_weights)) return MemoryRole::Parameters;
  const auto own =
      std::find_if(frames.begin(), frames.end(), [](const Frame& frame) { return of_python(frame) && !of_torch(frame); });
  return own != frames.end() && own->name == "__init__" ? MemoryRole::Parameters : MemoryRole::Unknown;
}

}  // namespace

AllocatedAt allocated_at(const Pickle& pickle, const PickleValue& list, bool history) {
  const std::vector<Frame> frames = frames_of(pickle, list);
  if (!frames.empty() && frames.back().file == "panpipe") return of_prediction(frames);
  const bool has_python = std::any_of(frames.begin(), frames.end(), of_python);
  AllocatedAt result;
  if (!has_python) {
    const MemoryRole role = role_of(frames);
    result.role = role != MemoryRole::Unknown ? role : history ? MemoryRole::Backward : MemoryRole::Unknown;
    const auto node = std::find_if(frames.begin(), frames.end(), [](const Frame& frame) {
      return has_part(frame.name, "Backward") || has_part(frame.name, "AccumulateGrad");
    });
    if (node != frames.end())
      result.place = shown_place(node->name);
    else
      result.place = !history ? "without frames" : "without frames of Python: the backward";
    return result;
  }
  result.role = role_of(frames);
  // The line of the user's own code; else PyTorch's innermost.
  const auto own =
      std::find_if(frames.begin(), frames.end(), [](const Frame& frame) { return of_python(frame) && !of_torch(frame); });
  const auto found = own != frames.end() ? own : std::find_if(frames.begin(), frames.end(), of_python);
  result.place = text_of(*found);
  return result;
}

}  // namespace panpipe::jobs
