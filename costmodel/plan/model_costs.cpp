#include "costmodel/plan/model_costs.hpp"

#include "costmodel/cost/gradients.hpp"

namespace panpipe {

ModelCosts::ModelCosts(const CostModel& model, const Degrees& degrees)
    : model_(&model), degrees_(degrees), measured_(model.source().layers.has_value() || model.scenario().cluster.given) {}

Breakdown ModelCosts::optimizer(std::int64_t elements, int device_type) const {
  return measured_ && !model_->scenario().profile ? Breakdown{} : model_->optimizer(elements, device_type, degrees_);
}

double ModelCosts::reduced_bytes() const { return travelling_gradient_bytes(model_->scenario()); }

Duration ModelCosts::host_bound(Duration device, int launches, int device_type) const {
  return measured_ ? device : model_->host_bound(device, launches, device_type, degrees_);
}

double ModelCosts::stage_jitter(int pipeline) const {
  Degrees degrees = degrees_;
  degrees.pipeline = pipeline;
  return model_->stage_jitter(degrees);
}

}  // namespace panpipe
