#include "costmodel/plan/model_costs.hpp"

#include "costmodel/cost/gradient_traffic.hpp"
#include "costmodel/scenario/dynamic_context.hpp"

namespace panpipe {
namespace {

bool times_are_given(const CostModel& model) { return model.source().layers.has_value() || model.scenario().cluster.given; }

// Of the lengths that run in other groups than the plan's.
std::map<int, Occupancy> occupancies(const Scenario& scenario, const Degrees& degrees, const std::vector<int>& devices) {
  std::map<int, Occupancy> made;
  if (!has_dynamic_context(scenario)) return made;
  for (int length = 0; length < std::ssize(scenario.lengths.shapes); ++length)
    if (const Degrees own = degrees_of_length(scenario, degrees, length); own.context != degrees.context)
      made.emplace(length, Occupancy(scenario.cluster, own, devices));
  return made;
}

}  // namespace

ModelCosts::ModelCosts(const CostModel& model, const Plan& plan)
    : model_(&model),
      degrees_(plan),
      occupancy_(model.scenario().cluster, plan, plan.devices),
      of_context_(occupancies(model.scenario(), plan, plan.devices)),
      measured_(times_are_given(model)) {}

ModelCosts::ModelCosts(const CostModel& model, const Degrees& degrees)
    : model_(&model),
      degrees_(degrees),
      occupancy_(Occupancy::of(model.scenario(), degrees)),
      of_context_(occupancies(model.scenario(), degrees, occupancy_.devices())),
      measured_(times_are_given(model)) {}

Breakdown ModelCosts::optimizer(std::int64_t elements, std::int64_t tensors, int site) const {
  return optimizer_is_given() ? Breakdown{} : model_->optimizer(elements, tensors, site, degrees_);
}

Breakdown ModelCosts::expert_optimizer(std::int64_t elements, std::int64_t tensors, int site) const {
  if (elements == 0 || optimizer_is_given()) return {};
  const Degrees experts = degrees_of_experts(degrees_);
  Breakdown cost = model_->optimizer(elements, tensors, site, experts);
  const Breakdown once = model_->optimizer(0, 0, site, experts);
  cost.launch -= once.launch;
  cost.total -= once.total;
  return cost;
}

Breakdown ModelCosts::around_update(const ParameterSums& others, const ParameterSums& experts, int site) const {
  if (optimizer_is_given()) return {};
  const Breakdown cost = model_->around_update(others.matrix_elements, others.matrix_tensors, site, degrees_);
  return experts.matrix_elements == 0
             ? cost
             : cost + model_->around_update(experts.matrix_elements, experts.matrix_tensors, site, degrees_of_experts(degrees_));
}

Breakdown ModelCosts::accumulation(std::int64_t others, std::int64_t experts, int splits, int site) const {
  if (measured_) return {};
  const CostModel& model = of(site);
  const int place = site % kSitesOfLength;
  const Breakdown cost = model.accumulation(others, splits, place, degrees_);
  return experts == 0 ? cost : cost + model.accumulation(experts, splits, place, degrees_of_experts(degrees_));
}

ElementBytes ModelCosts::expert_bytes() const {
  const Degrees experts = degrees_of_experts(degrees_);
  return {model_->parameter_bytes(experts), model_->gradient_bytes(experts), model_->optimizer_bytes(experts),
          model_->state_bytes(experts)};
}

double ModelCosts::reduced_bytes() const { return travelling_gradient_bytes(model_->scenario()); }

Duration ModelCosts::host_bound(Duration device, const HostWork& work, int site) const {
  return measured_ ? device : of(site).host_bound(device, work, site % kSitesOfLength, degrees_);
}

double ModelCosts::stage_jitter(int pipeline) const {
  Degrees degrees = degrees_;
  degrees.pipeline = pipeline;
  return model_->stage_jitter(degrees, occupancy_);
}

}  // namespace panpipe
