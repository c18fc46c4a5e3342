// The cost model behind the lowering's face, asked with the degrees of one plan.
#pragma once

#include "costmodel/plan/lowering_costs.hpp"

namespace panpipe {

class ModelCosts : public LoweringCosts {
 public:
  ModelCosts(const CostModel& model, const Degrees& degrees);  // the model must outlive it

  const WorkloadCost& workload(int device_type) const override { return model_->workload(device_type); }
  const WorkloadCost& units(int device_type) const override { return model_->units(device_type); }
  TransferCost transfer(int from_device, int to_device, Bytes tensor_bytes) const override {
    return model_->transfer(from_device, to_device, tensor_bytes, degrees_);
  }
  Duration message_work(Bytes bytes) const override { return model_->message_work(bytes, degrees_); }
  CollectiveCost collective(CollectiveKind kind, Bytes bytes, const std::vector<int>& devices) const override {
    return model_->collective(kind, bytes, devices);
  }
  Breakdown optimizer(std::int64_t elements, int device_type) const override;
  Duration host_bound(Duration device, int launches, int device_type) const override;
  Duration overlap_slowdown(Duration collective) const override { return model_->overlap_slowdown(collective); }
  double stage_jitter(int pipeline) const override;
  double parameter_bytes() const override { return model_->parameter_bytes(degrees_); }
  double gradient_bytes() const override { return model_->gradient_bytes(degrees_); }
  double optimizer_bytes() const override { return model_->optimizer_bytes(degrees_); }
  double reduced_bytes() const override;
  Bytes framework_context() const override { return model_->framework_context(); }
  double allocator_factor() const override { return model_->allocator_factor(); }
  Flops model_flops() const override { return model_->source().model_flops; }
  bool measured() const override { return measured_ || model_->scenario().profile; }  // the executor does not block either
  bool temporary_over_before() const override { return model_->source().layers.has_value(); }

 private:
  const CostModel* model_;
  Degrees degrees_;
  bool measured_;
};

}  // namespace panpipe
