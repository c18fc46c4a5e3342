#include "costmodel/lowering/allocation_recorder.hpp"

#include <fmt/format.h>

#include "base/index.hpp"

namespace panpipe {
namespace {

std::string name_of_pass(ActionKind kind) {
  switch (kind) {
    case ActionKind::F:
      return "forward";
    case ActionKind::I:
      return "input gradient";
    case ActionKind::W:
      return "weight gradient";
    case ActionKind::R:
      return "recompute";
    default:
      return "backward";
  }
}

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
                          : fmt::format("{} of microbatch {}, stage {}", name_of_pass(pass->kind), pass->microbatch, pass->stage);
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

std::string AllocationRecorder::what_of(ReplaySpace space, ReplayStream stream) const {
  const bool of_block = stream != ReplayStream::Compute;
  switch (space) {
    case ReplaySpace::Weights:
      return "parameter";
    case ReplaySpace::Gradients:
      return of_block ? "this rank's shard of gradients" : "gradient";
    case ReplaySpace::Buckets:
      return "bucket of gradients";
    case ReplaySpace::Whole:
      return "gathered whole";
    case ReplaySpace::NewGradient:
      return "gradient of this microbatch";
    case ReplaySpace::Sums:
      return of_block ? "this rank's shard of reduced gradients" : "whole gradient, not yet reduced";
    case ReplaySpace::Reduced:
      return "buffer that reduces gradients";
    case ReplaySpace::Flat:
      return "gradients in one tensor";
    case ReplaySpace::Outputs:
      return "results of a microbatch";
    case ReplaySpace::Scratch:
      return stream == ReplayStream::Casts ? "this rank's shard, cast" : of_block ? "buffer of a collective" : "temporary";
    case ReplaySpace::Late:
      return "";
    case ReplaySpace::States:
      break;
  }
  return "optimizer's state";
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
  const auto space = number <= static_cast<int>(ReplaySpace::States) ? ReplaySpace::States : static_cast<ReplaySpace>(number);
  label.what = what_of(space, stream);
  if (space == ReplaySpace::States) label.what += fmt::format(" {}", static_cast<int>(ReplaySpace::States) - number + 1);
  // FSDP's buffers are those of a block, whose first unit is the number.
  const bool of_block = stream != ReplayStream::Compute || space == ReplaySpace::Reduced;
  if (space != ReplaySpace::Buckets && space != ReplaySpace::Outputs) label.where = of_block ? unit(tensor) : parameter(tensor);
  static const std::map<ReplaySpace, MemoryUse> uses = {
      {ReplaySpace::Weights, MemoryUse::Parameters},  {ReplaySpace::Gradients, MemoryUse::Gradients},
      {ReplaySpace::Sums, MemoryUse::Gradients},      {ReplaySpace::Buckets, MemoryUse::GradientBuckets},
      {ReplaySpace::Outputs, MemoryUse::Activations}, {ReplaySpace::States, MemoryUse::Optimizer}};
  if (const auto use = uses.find(space); use != uses.end()) label.use = use->second;
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
