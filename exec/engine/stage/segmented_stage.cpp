#include "exec/engine/stage/segmented_stage.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <optional>
#include <set>

#include "base/error.hpp"

namespace panpipe::exec {

SegmentedStage::SegmentedStage(const OperatorGraph& graph, const StageRange& range, const ParameterStore& parameters,
                               const std::vector<bool>& needs_gradient, at::Device device, const PassGroups& groups,
                               WeightCopies* copies, ParameterGate* gate)
    : gate_(gate), outputs_(range.outputs) {
  const StageSite site{graph, range, parameters, needs_gradient, device, groups, copies, row_counts_};
  std::set<int> made, read;
  for (const StagePart& part : cut_at_collectives(graph, range)) {
    parts_.push_back({make_operator(site, part)});
    for (const int tensor : part.reads)
      if (made.count(tensor) == 0) read.insert(tensor);
    made.insert(part.makes.begin(), part.makes.end());
  }
  inputs_.assign(read.begin(), read.end());
  if (gate_) mark_groups();
}

void SegmentedStage::mark_groups() {
  std::set<int> seen;
  const auto is_new = [&](const Part& part) {
    const int group = part.op->part().group;
    return group >= 0 && seen.insert(group).second;
  };
  for (Part& part : parts_) part.first = is_new(part);
  seen.clear();
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) part->last = is_new(*part);
}

// Around the parts of a pass: a group's parameters are whole from the first to the last of those that need them.
void SegmentedStage::open(const Part& part, bool backward) {
  if (backward ? part.last : part.first) gate_->open(part.op->part().group);
}

void SegmentedStage::close(const Part& part, bool backward, bool gradients) {
  if (backward ? part.first : part.last) gate_->close(part.op->part().group, gradients);
}

// `run`: parts [first, end) of a step in the order of execution, which for a backward counts from the last part: a step ends with
// the part that posts a collective.
Steps SegmentedStage::in_steps(bool backward, PassStep begin, const std::function<void(std::size_t, std::size_t)>& run,
                               PassStep end) const {
  Steps steps;
  std::size_t first = 0;
  for (std::size_t next = 1; next <= parts_.size(); ++next) {
    const bool last = next == parts_.size();
    if (!last && !parts_[backward ? parts_.size() - next : next - 1].op->posts(backward)) continue;
    steps.emplace_back(
        [run, first, next, begin = std::exchange(begin, {}), end = last ? std::exchange(end, {}) : nullptr](Values& values) {
          if (begin) begin(values);
          run(first, next);
          if (end) end(values);
        });
    first = next;
  }
  return steps;
}

// What runs again has its inputs, and nobody takes its results.
Steps SegmentedStage::forward(ForwardFlow start) {
  const auto flow = std::make_shared<ForwardFlow>(std::move(start));
  return in_steps(
      false,
      [this, flow](Values& values) {
        if (flow->context.again) return;
        for (std::size_t i = 0; i < inputs_.size(); ++i) flow->values[inputs_[i]].tensor = std::move(values[i]);
        if (!flow->recorded && !flow->context.evaluates) dropped_.insert_or_assign(flow->microbatch, *flow);
      },
      [this, flow](std::size_t first, std::size_t end) {
        std::optional<at::NoGradGuard> no_graph;
        if (!flow->recorded) no_graph.emplace();
        for (std::size_t p = first; p < end; ++p) {
          open(parts_[p], false);
          parts_[p].op->forward(*flow);
          close(parts_[p], false, false);
        }
      },
      [this, flow](Values& values) {
        Values made;
        for (const int tensor : outputs_) made.push_back(flow->values.at(tensor).resolve());
        flow->values.clear();
        if (!flow->context.again) values = std::move(made);
      });
}

void SegmentedStage::forget(int microbatch) {
  dropped_.erase(microbatch);
  for (const Part& part : parts_) part.op->forget(microbatch);
}

Steps SegmentedStage::recompute(int microbatch) {
  auto dropped = dropped_.extract(microbatch);
  PANPIPE_CHECK(!dropped.empty(), fmt::format("microbatch {} was not dropped", microbatch));
  dropped.mapped().recorded = dropped.mapped().context.again = true;
  return forward(std::move(dropped.mapped()));
}

Steps SegmentedStage::backward(ActionKind kind, int microbatch) {
  Steps steps;
  if (dropped_.count(microbatch) > 0) steps = recompute(microbatch);
  const auto flow = std::make_shared<BackwardFlow>(BackwardFlow{microbatch, kind});
  const auto part_at = [this](std::size_t p) -> Part& { return parts_[parts_.size() - 1 - p]; };
  Steps own = in_steps(
      true,
      [this, flow](Values& values) {
        for (std::size_t i = 0; i < outputs_.size(); ++i) flow->add(outputs_[i], {std::move(values[i])});
      },
      [this, flow, part_at](std::size_t first, std::size_t end) {
        flow->posting = part_at(end - 1).op->posts(true);
        const auto close_back = [&](std::size_t p) { close(part_at(p), true, flow->kind == ActionKind::B); };
        for (std::size_t p = first; p < end; ++p) {
          open(part_at(p), true);
          part_at(p).op->backward(*flow);
          if (!flow->posting) close_back(p);
        }
        for (Stage* stage : std::exchange(flow->weights, {})) stage->weight_gradient(flow->microbatch);
        for (std::size_t p = first; flow->posting && p < end; ++p) close_back(p);
      },
      [this, flow](Values& values) {
        values.clear();
        for (const int tensor : inputs_) values.push_back(flow->take(tensor));
      });
  std::move(own.begin(), own.end(), std::back_inserter(steps));
  return steps;
}

void SegmentedStage::clear() {
  for (const Part& part : parts_) part.op->clear();
  dropped_.clear();
  row_counts_.clear();
}

Steps SegmentedStage::weight_gradient(int microbatch) {
  Steps steps;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    if (!part->op->has_weights() && !part->first && !part->last) continue;
    steps.emplace_back([this, part = &*part, microbatch](Values&) {
      open(*part, true);
      part->op->weight_gradient(microbatch);
      close(*part, true, true);
    });
  }
  return steps;
}

}  // namespace panpipe::exec
