#include "costmodel/lowering/allocation_recorder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/index.hpp"

namespace panpipe {
namespace {

constexpr std::string_view kPasses[] = {"forward", "input gradient", "weight gradient", "backward",
                                        "recompute"};  // by ActionKind

// What a tensor of a space is, and where it is one of a block as FSDP's are; by number below 0.
struct SpaceWords {
  MemoryUse use{};
  std::string_view what, of_block = what;
};
constexpr SpaceWords kSpaces[] = {
    {MemoryUse::Parameters, "parameter"},
    {MemoryUse::Gradients, "gradient", "this rank's shard of gradients"},
    {MemoryUse::Temporary, "temporary", "buffer of a collective"},
    {MemoryUse::GradientBuckets, "bucket of gradients"},
    {MemoryUse::Temporary, "gathered whole"},
    {MemoryUse::Temporary, "gradient of this microbatch"},
    {MemoryUse::Gradients, "whole gradient, not yet reduced", "this rank's shard of reduced gradients"},
    {MemoryUse::Temporary, "buffer that reduces gradients"},
    {MemoryUse::Temporary, "gradients in one tensor"},
    {MemoryUse::Temporary, ""},
    {MemoryUse::Activations, "results of a microbatch"},
    {MemoryUse::Optimizer, "optimizer's state"},
};

}  // namespace

AllocationRecorder::AllocationRecorder(const OperatorGraph& graph, const std::vector<UnitAllocations>& units,
                                       AllocationHistory& history)
    : graph_(graph), history_(history), kept_(graph.tensors.size()), first_extra_(2 * static_cast<int>(graph.tensors.size())) {
  for (const UnitAllocations& unit : units) {
    for (const int t : unit.kept)
      if (t < static_cast<int>(kept_.size())) kept_[at(t)] = true;
    // What an operator keeps in addition is taken before its results.
    std::vector<int> waiting;
    for (const AllocationStep& step : unit.forward) {
      if (step.kind != AllocationStep::Kind::Take) continue;
      if (step.tensor >= first_extra_) {
        waiting.push_back(step.tensor);
        continue;
      }
      for (const int extra : waiting) extra_[extra] = graph.tensors[at(step.tensor)].producer;
      waiting.clear();
    }
  }
}

void AllocationRecorder::begin(int step, const Action* pass) {
  step_ = step;
  when_ = pass == nullptr ? (step == 0 ? "before the first step" : "optimizer")
                          : fmt::format("{} of microbatch {}, stage {}", kPasses[at(pass->kind)], pass->microbatch, pass->stage);
}

std::string AllocationRecorder::parameter(int tensor) const {
  return tensor >= 0 && at(tensor) < graph_.tensors.size() ? graph_.tensors[at(tensor)].name : "";
}

std::string AllocationRecorder::unit(int number) const {
  return number >= 0 && at(number) < graph_.units.size() ? graph_.units[at(number)].name : "";
}

// Tensors, their gradients, and what operators keep in addition: the numbers of unit_allocations.hpp.
void AllocationRecorder::name_activation(int tensor, AllocationLabel& label) const {
  const int tensors = static_cast<int>(graph_.tensors.size());
  const bool gradient = tensor >= tensors && tensor < first_extra_;
  int made_by = -1;
  if (tensor < first_extra_) {
    made_by = graph_.tensors[at(gradient ? tensor - tensors : tensor)].producer;
  } else if (const auto found = extra_.find(tensor); found != extra_.end()) {
    made_by = found->second;
  }
  const bool kept = tensor < tensors ? kept_[at(tensor)] : extra_.contains(tensor);
  label.use = kept ? MemoryUse::Activations : MemoryUse::Temporary;
  const std::string what = tensor < tensors ? "the result"
                           : gradient       ? "gradient of the result"
                                            : "scores, masks, statistics or copies";
  if (made_by < 0) {
    label.what = tensor < first_extra_ ? what : "gradients of the loss";
    return;
  }
  const Operator& of = graph_.operators[at(made_by)];
  label.what = fmt::format("{}: {}{}", of.target, what, kept ? ", kept for the backward" : "");
  label.where = of.module.empty() ? unit(of.unit) : of.module;
}

AllocationLabel AllocationRecorder::label_of(TensorKey key, ReplayStream stream) const {
  const int number = space_of(key), tensor = tensor_of(key);
  AllocationLabel label{MemoryUse::Temporary, "", "", when_, step_};
  if (number >= 0 && tensor >= 0) {
    name_activation(tensor, label);
    return label;
  }
  if (number >= 0) {
    label.use = MemoryUse::BoundaryBuffers;
    label.what = tensor == kReceivedGradient ? "gradient from the next stage" : "activations from the previous stage";
    return label;
  }
  const auto space = static_cast<ReplaySpace>(std::max(number, static_cast<int>(ReplaySpace::States)));
  const SpaceWords& words = kSpaces[at(-1 - static_cast<int>(space))];
  const bool of_block = stream != ReplayStream::Compute;
  label.use = words.use;
  label.what = of_block ? words.of_block : words.what;
  if (space == ReplaySpace::Scratch && stream == ReplayStream::Casts) label.what = "this rank's shard, cast";
  if (space == ReplaySpace::States) label.what += fmt::format(" {}", static_cast<int>(ReplaySpace::States) - number + 1);
  // FSDP's buffers are those of a block, whose first unit is the number.
  if (space != ReplaySpace::Buckets && space != ReplaySpace::Outputs)
    label.where = of_block || space == ReplaySpace::Reduced ? unit(tensor) : parameter(tensor);
  return label;
}

int AllocationRecorder::number_of(const AllocationLabel& label) {
  const auto [found, is_new] = numbers_.try_emplace(label, static_cast<int>(history_.labels.size()));
  if (is_new) history_.labels.push_back(label);
  return found->second;
}

void AllocationRecorder::taken(TensorKey key, std::int64_t bytes) {
  const int label = number_of(label_of(key, static_cast<ReplayStream>(events_.back().stream)));
  held_[events_.back().address] = {bytes, label};
  for (const AllocatorEvent& event : events_)
    history_.events.push_back({event, event.action == AllocatorAction::Allocate ? bytes : event.size, label});
  events_.clear();
}

void AllocationRecorder::given() {
  for (const AllocatorEvent& event : events_) {
    const auto held = held_.find(event.address);
    if (held == held_.end()) continue;
    history_.events.push_back({event, held->second.asked, held->second.label});
    held_.erase(held);
  }
  events_.clear();
}

void AllocationRecorder::given_late(std::int64_t address) {
  const auto held = held_.find(address);
  if (held == held_.end()) return;
  for (auto event = history_.events.rbegin(); event != history_.events.rend(); ++event)
    if (event->of.action == AllocatorAction::Allocate && event->of.address == address) {
      history_.events.push_back(
          {{AllocatorAction::RequestFree, address, event->of.size, event->of.stream}, held->second.asked, held->second.label});
      return;
    }
}

}  // namespace panpipe
