#include "planner/piper/threshold.hpp"

#include <algorithm>

namespace panpipe::planner::piper {
namespace {

// The first label of a list with more devices. Devices rise along it, and replicas fall.
template <class List>
auto beyond(List& labels, int devices) {
  return std::upper_bound(labels.begin(), labels.end(), devices,
                          [](int fewer, const Label& label) { return fewer < label.devices; });
}

// Whether a label with as few of both is there, and as fast where both are equal.
bool beaten(const Labels& labels, const Label& label) {
  const auto after = beyond(labels, label.devices);
  if (after == labels.begin() || std::prev(after)->replicas > label.replicas) return false;
  const Label& other = *std::prev(after);
  return other.devices < label.devices || other.replicas < label.replicas || other.value <= label.value;
}

void insert(Labels& labels, const Label& label) {
  if (beaten(labels, label)) return;
  auto first = beyond(labels, label.devices);
  if (first != labels.begin() && std::prev(first)->devices == label.devices) --first;
  auto last = first;
  while (last != labels.end() && last->replicas >= label.replicas) ++last;
  if (first == last) {
    labels.insert(first, label);
    return;
  }
  *first = label;
  labels.erase(first + 1, last);
}

}  // namespace

// The least data degree that works is the best one: more replicas only use more devices and leave more in flight before.
inline void Threshold::extend(const Stage& stage, const Label& behind, std::size_t index, Labels& labels, Counts& counts) const {
  for (std::size_t i = stage.first; i < costs_.data_degrees().size(); ++i) {
    Label label = extended(stage, costs_.data_degrees()[i], behind, index);
    if (!within_limits(stage.cut.outer, label) || beaten(labels, label)) return;
    if (!leaves_devices(stage.cut.outer, label)) {
      ++counts.pruned;
      return;
    }
    const double slowest = load(stage, label);
    if (slowest > limit_ || slowest == kInfinity) continue;
    label.value = std::max(slowest, label.value);
    insert(labels, label);
    return;
  }
}

std::optional<double> Threshold::reach(double limit, const std::atomic<bool>* stop) {
  return walk(limit, stop, [&](auto&&... each) { extend(each...); });
}

}  // namespace panpipe::planner::piper
