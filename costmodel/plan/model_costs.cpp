#include "costmodel/plan/model_costs.hpp"

#include "costmodel/cost/gradients.hpp"

namespace panpipe {

ModelCosts::ModelCosts(const CostModel& model)
    : model_(&model), measured_(model.source().layers.has_value() || model.scenario().cluster.given) {}

Breakdown ModelCosts::optimizer(std::int64_t elements, int device_type) const {
  return measured_ && !model_->scenario().profile ? Breakdown{} : model_->optimizer(elements, device_type);
}

double ModelCosts::reduced_bytes() const { return travelling_gradient_bytes(model_->scenario()); }

Duration ModelCosts::host_bound(Duration device, int launches, int device_type) const {
  return measured_ ? device : model_->host_bound(device, launches, device_type);
}

double ModelCosts::stage_jitter(int pipeline) const { return model_->stage_jitter(pipeline); }

}  // namespace panpipe
