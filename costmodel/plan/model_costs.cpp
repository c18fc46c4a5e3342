#include "costmodel/plan/model_costs.hpp"

namespace panpipe {

ModelCosts::ModelCosts(const CostModel& model)
    : model_(&model), measured_(model.source().layers.has_value() || model.scenario().cluster.given) {}

Breakdown ModelCosts::optimizer(std::int64_t elements, int device_type) const {
  return measured_ || elements == 0 ? Breakdown{} : model_->optimizer(elements, device_type);
}

Duration ModelCosts::step_overhead(int device_type) const {
  return measured_ ? Duration(0) : model_->calibration(device_type).step;
}

Duration ModelCosts::host_bound(Duration device, int launches, int device_type) const {
  return measured_ ? device : model_->host_bound(device, launches, device_type);
}

double ModelCosts::stage_jitter(int pipeline) const { return measured_ ? 1.0 : model_->stage_jitter(pipeline); }

}  // namespace panpipe
