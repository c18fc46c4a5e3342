#include "costmodel/plan/model_costs.hpp"

namespace panpipe {

ModelCosts::ModelCosts(const CostModel& model)
    : model_(&model), measured_(model.source().layers.has_value() || model.scenario().cluster.given) {}

Breakdown ModelCosts::optimizer(std::int64_t elements, int device_type) const {
  return measured_ && !model_->scenario().profile ? Breakdown{} : model_->optimizer(elements, device_type);
}

// What is kept is divided under ZeRO 2 and 3, what travels is not; a second copy that some frameworks keep stays at home.
double ModelCosts::reduced_bytes() const {
  const Scenario& scenario = model_->scenario();
  double bytes = model_->gradient_bytes();
  if (scenario.parallel.zero >= 2) bytes *= scenario.parallel.data;
  if (scenario.precision == Precision::Bf16) bytes -= scenario.framework.bf16_extra_gradient_bytes;
  return bytes;
}

Duration ModelCosts::host_bound(Duration device, int launches, int device_type) const {
  return measured_ ? device : model_->host_bound(device, launches, device_type);
}

double ModelCosts::stage_jitter(int pipeline) const { return measured_ ? 1.0 : model_->stage_jitter(pipeline); }

}  // namespace panpipe
