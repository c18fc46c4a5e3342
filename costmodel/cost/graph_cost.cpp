#include "costmodel/cost/graph_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/index.hpp"
#include "costmodel/workload/unit_edges.hpp"

namespace panpipe {

GraphCost::GraphCost(const CostModel& model, const OperatorGraph& graph, const DeviceRates& rates, const Calibration& calibration,
                     const Site& site)
    : model_(model),
      graph_(graph),
      rates_(rates),
      calibration_(calibration),
      site_(site),
      use_(tensor_use(graph)),
      matrices_(steps_matrices(model.scenario().optimizer.name) ? hidden_matrices(graph) : std::vector<MatrixStack>{}) {}

WorkloadCost GraphCost::run() {
  find_templates();
  refuse_capture();
  launches_ = launches_of_units(graph_, use_, framework(), templates_, shape_of_);
  result_.units.reserve(graph_.units.size());
  kept_.assign(graph_.tensors.size(), false);
  input_kept_ = kept_;
  const RecomputeScope& scope = model_.scenario().recompute_scope;
  result_.recompute_spans_block = !scope.attention_only();
  if (result_.recompute_spans_block) recompute_ = listed_recompute(scope);
  for (std::size_t u = 0; u < graph_.units.size(); ++u) add_unit(u);
  result_.edges = unit_edges(graph_);
  return std::move(result_);
}

std::vector<UnitRecompute> GraphCost::listed_recompute(const RecomputeScope& scope) const {
  try {
    return recompute_in_blocks(graph_, use_, scope, rates_);
  } catch (const InputError& error) {
    throw placed(error, model_.scenario(), "recompute.modules");
  }
}

void GraphCost::find_templates() {
  std::unordered_map<std::uint64_t, std::size_t> known;
  const std::size_t count = graph_.units.size();
  shape_of_.resize(count);
  hash_of_.resize(count);
  externals_.resize(count);
  for (std::size_t u = 0; u < count; ++u) {
    const std::uint64_t hash = structure_hash(graph_, use_, static_cast<int>(u), externals_[u]);
    const std::uint64_t cost = cost_hash(graph_, use_, static_cast<int>(u), rates_.narrow, hash);
    const auto [found, is_new] = known.try_emplace(cost, templates_.size());
    if (is_new) templates_.push_back(make_template(view_of_unit(graph_, use_, static_cast<int>(u)), externals_[u], rates_));
    shape_of_[u] = found->second;
    hash_of_[u] = hash;
  }
}

void GraphCost::add_unit(std::size_t u) {
  captured_ = captured(templates_[shape_of_[u]]);
  const auto same = [&](const Variant& v) { return v.shape == shape_of_[u] && v.launches == launches_[u]; };
  auto found = std::find_if(variants_.begin(), variants_.end(), same);
  if (found == variants_.end()) {
    variants_.push_back({shape_of_[u], launches_[u], make_unit(templates_[shape_of_[u]], launches_[u])});
    found = variants_.end() - 1;
  }
  UnitCost& unit = result_.units.emplace_back(found->cost);
  unit.name = graph_.units[u].name;
  unit.block = graph_.units[u].block;
  unit.layer = graph_.units[u].layer;
  if (templates_[shape_of_[u]].loss) result_.loss_unit = static_cast<int>(u);
  unit.structure = fmt::format("{:016x}", hash_of_[u]);
  const Profile* profile = model_.scenario().profile.get();
  const ProfiledUnit* measured = profile ? profile->unit(unit.name, unit.structure) : nullptr;
  if (profile && !measured) result_.unmeasured.push_back(unit.name);
  if (measured) use_measured(*measured, measured->name == unit.name ? CostSource::Measured : CostSource::Interpolated, unit);
  add_saved(u, unit, measured);
  if (!recompute_.empty() && !unit.block.empty()) recompute_listed(templates_[shape_of_[u]], launches_[u], recompute_[u], unit);
  add_parameters(u, unit);
}

// Selective recompute of listed operators.
void GraphCost::recompute_listed(const UnitTemplate& shape, const Launches& launches, const UnitRecompute& recompute,
                                 UnitCost& unit) {
  unit.saved_selective = recompute.kept;
  unit.weight_copies_selective = recompute.weight_copies;
  unit.selective_inputs = recompute.inputs;
  PassCost pass;
  int counted = 0;
  for (std::size_t i = 0; i < shape.operators.size(); ++i) counted += recompute.again[i] && shape.operators[i].counted ? 1 : 0;
  const UnitHost host(shape, launches, framework(), calibration_);
  const PassLaunches all = host.again(recompute.again);
  const auto sends = [&](std::size_t i) {
    return shape.operators[i].forward_collective == CollectiveKind::AllGather || recompute.whole[i];
  };
  add_forward(shape, host,
              {recompute.again, sends, [&](const OperatorTime& op) { return gap(host.kernels_of(op, all, counted)); }}, pass);
  if (captured_) launch_at_once(pass);
  unit.recompute_selective = pass;
}

WorkloadCost cost_of_graph(const CostModel& model, const OperatorGraph& graph, const DeviceRates& rates,
                           const Calibration& calibration, const Site& site) {
  return GraphCost(model, graph, rates, calibration, site).run();
}

}  // namespace panpipe
