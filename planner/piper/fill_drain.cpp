#include "planner/piper/fill_drain.hpp"

#include <algorithm>
#include <tuple>

namespace panpipe::planner::piper {

// The needs of the layers before: devices, and their own time without one stage that may be left out.
bool FillDrain::hopeless(std::size_t outer, const CostLabel& label) const {
  const PlanningProblem& problem = costs_.problem();
  const int spare = problem.devices - label.devices;
  if (front_.devices(outer, label.replicas, limit_) * (1 - kRounding) > spare) return true;
  const auto& replica = costs_.replica_time();
  const double rest = replica.back() - replica[outer];
  if (rest / limit_ * (1 - kRounding) > std::min(problem.devices, problem.microbatches) - label.replicas) return true;
  const double left_out = label.left_out ? 0 : limit_ * spare;
  return label.cost + std::max(0.0, rest - left_out) * (1 - kRounding) >= enough_;
}

// A label beats another that has as few devices and replicas and costs as much, unless only the other may still leave one out.
void FillDrain::insert(std::size_t outer, const CostLabel& label) {
  auto& front = labels_[outer];
  const auto beats = [](const CostLabel& a, const CostLabel& b) {
    return a.stages == b.stages && a.devices <= b.devices && a.replicas <= b.replicas && a.cost <= b.cost &&
           a.left_out <= b.left_out;
  };
  for (const CostLabel& other : front)
    if (beats(other, label)) return;
  std::erase_if(front, [&](const CostLabel& other) { return beats(label, other); });
  front.push_back(label);
}

// More replicas than needed cost more, except where fewer microbatches in flight let a faster choice fit.
void FillDrain::extend(const Cut& cut, const StageBase& base, const CostLabel& behind, std::uint32_t index) {
  if (stages_ > 0 && behind.stages == stages_) return;
  const PlanningProblem& problem = costs_.problem();
  const int tensor = problem.degrees[cut.degree], most_replicas = std::min(problem.devices, problem.microbatches);
  for (const int d : costs_.data_degrees()) {
    const int devices = behind.devices + d * tensor, replicas = behind.replicas + d;
    if (devices > problem.devices || replicas > most_replicas) return;
    const double fastest = (base.time + (d - 1) * base.reduction) / d;
    if (fastest > limit_) continue;
    const double load = costs_.load(cut, base, d, (replicas + d - 1) / d, limit_);
    if (load > limit_ || load == kInfinity) continue;
    CostLabel label{behind.cost + d * load,
                    devices,
                    replicas,
                    static_cast<std::uint32_t>(cut.inner),
                    index,
                    d,
                    static_cast<std::uint16_t>(cut.degree),
                    behind.left_out,
                    static_cast<std::uint16_t>(stages_ > 0 ? behind.stages + 1 : 0)};
    if (!hopeless(cut.outer, label)) insert(cut.outer, label);
    if (!behind.left_out) {
      label.cost = behind.cost;
      label.left_out = true;
      if (!hopeless(cut.outer, label)) insert(cut.outer, label);
    }
    if (load <= fastest) return;
  }
}

void FillDrain::stage_between(std::size_t outer, std::size_t inner) {
  for (std::size_t g = 0; g < costs_.problem().degrees.size(); ++g) {
    const Cut cut{outer, inner, g};
    const double fastest = costs_.fastest(cut);
    if (fastest == kInfinity || fastest > limit_ * costs_.problem().devices) {
      ++counts_.pruned;
      continue;
    }
    ++counts_.evaluated;
    const StageBase base = costs_.base(cut);
    const auto& labels = labels_[inner];
    for (std::size_t i = 0; i < labels.size(); ++i) extend(cut, base, labels[i], static_cast<std::uint32_t>(i));
  }
}

void FillDrain::label(std::size_t outer) {
  const Suffixes& suffixes = costs_.suffixes();
  for (std::size_t inner = 0; inner < outer && !must_stop(); ++inner)
    if (!labels_[inner].empty() && suffixes.within(inner, outer)) stage_between(outer, inner);
  std::sort(labels_[outer].begin(), labels_[outer].end(), [](const CostLabel& a, const CostLabel& b) {
    return std::tuple(a.stages, a.devices, a.replicas, a.cost, a.left_out) <
           std::tuple(b.stages, b.devices, b.replicas, b.cost, b.left_out);
  });
}

std::optional<double> FillDrain::reach(double limit, double enough, const std::atomic<bool>* stop) {
  limit_ = limit;
  enough_ = enough;
  stop_ = stop;
  labels_.assign(costs_.suffixes().size(), {});
  labels_[0].push_back({});
  for (std::size_t outer = 1; outer < labels_.size(); ++outer) {
    label(outer);
    stopped_ = must_stop();
    if (stopped_) return std::nullopt;
  }
  const CostLabel* least = best();
  return least ? std::optional(least->cost) : std::nullopt;
}

const FillDrain::CostLabel* FillDrain::best() const {
  const CostLabel* least = nullptr;
  for (const CostLabel& label : labels_.back())
    if (label.stages == stages_ && (!least || label.cost < least->cost)) least = &label;
  return least;
}

std::vector<StageChoice> FillDrain::stages() const {
  std::vector<StageChoice> stages;
  std::size_t suffix = labels_.size() - 1;
  for (const CostLabel* label = best(); suffix != 0;) {
    stages.push_back(
        costs_.stage({suffix, label->from, label->degree}, label->data, (label->replicas + label->data - 1) / label->data));
    suffix = label->from;
    label = &labels_[suffix][label->from_label];
  }
  return stages;
}

}  // namespace panpipe::planner::piper
