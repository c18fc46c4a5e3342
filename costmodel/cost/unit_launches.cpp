#include "costmodel/cost/unit_launches.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/cost/launch.hpp"

namespace panpipe {
namespace {

// Host launches around the layers (first and last stage): forward, backward. Fitted with the layers' counts.
constexpr int kEndForward = 8, kEndBackward = 12;
// Operators of a backward pass relative to those of the forward, if no count per layer applies.
constexpr double kBackwardOperators = 1.5;

// Launches of sorting rows by expert, of the activation and of adding rows up again, each, where a layer's number is stated
// (megatron/core/transformer/moe, 0.12; docs/models/expert-parallelism.md).
constexpr int kBehindWait = 3;

class Sharing {
 public:
  Sharing(const OperatorGraph& graph, const TensorUse& use, const std::vector<UnitTemplate>& templates,
          const std::vector<std::size_t>& shape_of)
      : graph_(graph), use_(use), templates_(templates), shape_of_(shape_of), launches_(graph.units.size()) {}

  std::vector<Launches> run(const Framework& framework) {
    const std::size_t count = graph_.units.size();
    for (std::size_t u = 0, end = 0; u < count; u = end) {
      for (end = u + 1; end < count && together(u, end);) ++end;
      if (use_.transformer[u] && framework.forward_operators > 0) {
        share(u, end, {framework.forward_operators, framework.backward_operators});
        for (std::size_t one = u; one < end; ++one) launches_[one].experts = of(one).dispatch >= 0;
      } else if (use_.transformer[u]) {
        for (std::size_t one = u; one < end; ++one) launches_[one] = counted(one);
      } else if (is_end(u, end)) {
        share(u, end, {kEndForward, kEndBackward});
      } else {
        for (std::size_t one = u; one < end; ++one) launches_[one] = own(one);
      }
    }
    return std::move(launches_);
  }

 private:
  const UnitTemplate& of(std::size_t u) const { return templates_[shape_of_[u]]; }

  bool together(std::size_t u, std::size_t other) const {
    return use_.transformer[other] == use_.transformer[u] &&
           (!use_.transformer[u] || (graph_.units[other].layer == graph_.units[u].layer &&
                                     (graph_.units[u].layer >= 0 || graph_.units[other].block == graph_.units[u].block)));
  }

  Launches counted(std::size_t u) const {
    Launches sum{.counted = true};
    for (const OperatorTime& op : of(u).operators) {
      sum.forward += op.forward_launches;
      sum.backward += op.backward_launches;
    }
    return sum;
  }

  Launches own(std::size_t u) const {
    const UnitTemplate& shape = of(u);
    if (shape.embedding || shape.loss) return {kEndForward, kEndBackward};
    return {shape.counted, static_cast<int>(std::ceil(kBackwardOperators * shape.counted))};
  }

  bool is_end(std::size_t first, std::size_t end) const {
    if (first > 0 && end < graph_.units.size()) return false;
    int operators = 0;
    bool embedding = false, loss = false;
    for (std::size_t u = first; u < end; ++u) {
      operators += of(u).counted;
      embedding |= of(u).embedding;
      loss |= of(u).loss;
    }
    return operators <= kEndForward && (first == 0 ? embedding && end < graph_.units.size() : loss);
  }

  void share(std::size_t first, std::size_t end, const Launches& all) {
    int operators = 0, before = 0;
    for (std::size_t u = first; u < end; ++u) operators += of(u).sharing;
    const auto part = [&](int total, int upto) { return total * upto / std::max(operators, 1); };
    for (std::size_t u = first; u < end; ++u) {
      const int after = before + of(u).sharing;
      launches_[u] = {part(all.forward, after) - part(all.forward, before),
                      part(all.backward, after) - part(all.backward, before)};
      before = after;
    }
  }

  const OperatorGraph& graph_;
  const TensorUse& use_;
  const std::vector<UnitTemplate>& templates_;
  const std::vector<std::size_t>& shape_of_;
  std::vector<Launches> launches_;
};

}  // namespace

std::vector<Launches> launches_of_units(const OperatorGraph& graph, const TensorUse& use, const Framework& framework,
                                        const std::vector<UnitTemplate>& templates, const std::vector<std::size_t>& shape_of) {
  return Sharing(graph, use, templates, shape_of).run(framework);
}

UnitHost::UnitHost(const UnitTemplate& shape, const Launches& launches, const Framework& framework,
                   const Calibration& calibration)
    : shape_(shape), launches_(launches), framework_(framework) {
  const auto on_this_host = [&](Duration stated, const char* key) {
    return stated > Duration(0) ? launch_of(stated, key, framework, calibration) : stated;
  };
  expert_launch_ = on_this_host(framework.expert_launch, "expert_launch");
  expert_weight_hook_ = on_this_host(framework.expert_weight_hook, "expert_weight_hook");
}

void UnitHost::add(const OperatorTime& op, int launched, PassLaunches& pass) const {
  const bool called = op.each && expert_launch_ > Duration(0);
  pass.host += called ? HostWork(0, expert_launch_ * launched) : HostWork(launched);
  pass.kernels += op.each ? launched / static_cast<double>(op.experts) : launched;
}

void UnitHost::add_around(int launched, PassLaunches& pass) {
  pass.host += launched;
  pass.kernels += launched;
}

PassLaunches UnitHost::again(const std::vector<bool>& runs) const {
  PassLaunches pass;
  int routes = 0, routes_again = 0, shared = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const OperatorTime& op = shape_.operators[i];
    routes += op.routes ? 1 : 0;
    if (!runs[i]) continue;
    routes_again += op.routes ? 1 : 0;
    if (own(op)) add(op, op.forward_launches, pass);
    add_around(op.around_forward, pass);
  }
  if (launches_.counted) return pass;
  const bool all = std::all_of(runs.begin(), runs.end(), [](bool one) { return one; });
  shared = all ? launches_.forward : shared_again(runs);
  if (launches_.experts) shared += framework_.expert_forward_operators * routes_again / std::max(routes, 1);
  pass.host += shared;
  pass.kernels += shared;
  return pass;
}

int UnitHost::shared_again(const std::vector<bool>& runs) const {
  std::array<int, 2> all{}, again{};  // of others, and of attention
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const OperatorTime& op = shape_.operators[i];
    all[op.attention ? 1 : 0] += op.counted ? 1 : 0;
    again[op.attention ? 1 : 0] += op.counted && runs[i] ? 1 : 0;
  }
  const int stated = framework_.forward_operators;
  if (stated == 0) return launches_.forward * (again[0] + again[1]) / std::max(shape_.counted, 1);
  const int core = all[1] == 0 ? 0 : all[0] == 0 ? launches_.forward : std::min(stated / 4, launches_.forward);
  return (launches_.forward - core) * again[0] / std::max(all[0], 1) + core * again[1] / std::max(all[1], 1);
}

PassLaunches UnitHost::input_gradient() const {
  PassLaunches pass;
  int shared = launches_.counted ? 0 : launches_.backward;
  if (launches_.experts) shared += framework_.expert_backward_operators;
  for (const OperatorTime& op : shape_.operators)
    if (own(op))
      add(op, op.backward_launches - op.weight_launches, pass);
    else
      shared -= op.weight_products;
  for (const OperatorTime& op : shape_.operators) add_around(op.around_backward, pass);
  pass.host += std::max(0, shared);
  pass.kernels += std::max(0, shared);
  return pass;
}

PassLaunches UnitHost::weight_gradient(const OperatorTime& op) const {
  PassLaunches pass;
  add(op, own(op) ? op.weight_launches : op.weight_products, pass);
  if (op.each) pass.host.other += expert_weight_hook_ * op.weight_products;
  return pass;
}

PassLaunches UnitHost::weight_gradient() const {
  PassLaunches pass;
  for (const OperatorTime& op : shape_.operators) {
    const PassLaunches one = weight_gradient(op);
    pass.host += one.host;
    pass.kernels += one.kernels;
  }
  return pass;
}

double UnitHost::kernels_of(const OperatorTime& op, const PassLaunches& all, int counted) const {
  if (!launches_.counted) return op.counted ? all.kernels / std::max(counted, 1) : 0;
  PassLaunches one;
  add(op, op.forward_launches, one);
  return one.kernels;
}

PassLaunches UnitHost::behind_wait(const OperatorTime& op) const {
  PassLaunches pass;
  const bool stated = launches_.experts && op.by_expert && !op.for_each_expert;
  const int kernels = op.routes ? 1 : op.forward_launches;
  add(op, stated ? kBehindWait * kernels : op.forward_launches, pass);
  add_around(op.around_forward, pass);
  return pass;
}

}  // namespace panpipe
