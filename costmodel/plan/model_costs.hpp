// The cost model behind LoweringCosts, queried with the degrees and devices of one plan.
#pragma once

#include <map>

#include "costmodel/cost/occupancy.hpp"
#include "costmodel/plan/lowering_costs.hpp"

namespace panpipe {

class ModelCosts : public LoweringCosts {
 public:
  ModelCosts(const CostModel& model, const Plan& plan);  // the model must outlive it
  // Uses the devices of the scenario's placement, or of the default one.
  ModelCosts(const CostModel& model, const Degrees& degrees);

  // Sites of further lengths are numbered apart.
  int site_of(const Cluster&, const PassGroups& groups, int length) const override {
    const auto own = of_context_.find(length);
    return model_->of_length(length).site_of(groups, own == of_context_.end() ? occupancy_ : own->second) +
           length * kSitesOfLength;
  }
  const WorkloadCost& workload(int site) const override { return of(site).workload(site % kSitesOfLength); }
  const WorkloadCost& units(int site) const override { return of(site).units(site % kSitesOfLength); }
  TransferCost transfer(int from_device, int to_device, Bytes tensor_bytes) const override {
    return model_->transfer(occupancy_.hand_over(from_device, to_device), tensor_bytes, degrees_);
  }
  Duration message_work(Bytes bytes) const override { return model_->message_work(bytes, degrees_); }
  CollectiveCost collective(CollectiveKind kind, Bytes bytes, const std::vector<int>& devices) const override {
    return model_->collective(kind, bytes, devices, occupancy_.network_of(devices));
  }
  Breakdown optimizer(std::int64_t elements, std::int64_t tensors, int site) const override;
  Breakdown expert_optimizer(std::int64_t elements, std::int64_t tensors, int site) const override;
  Breakdown around_update(const ParameterSums& others, const ParameterSums& experts, int site) const override;
  Breakdown accumulation(std::int64_t others, std::int64_t experts, int splits, int site) const override;
  Duration host_bound(Duration device, const HostWork& work, int site) const override;
  Duration overlap_slowdown(Duration collective, int site) const override {
    return of(site).overlap_slowdown(collective, site % kSitesOfLength);
  }
  double stage_jitter(int pipeline) const override;
  double parameter_bytes() const override { return model_->parameter_bytes(degrees_); }
  double gradient_bytes() const override { return model_->gradient_bytes(degrees_); }
  double optimizer_bytes() const override { return model_->optimizer_bytes(degrees_); }
  double state_bytes() const override { return model_->state_bytes(degrees_); }
  ElementBytes expert_bytes() const override;
  OptimizerTemporary optimizer_temporary() const override { return panpipe::optimizer_temporary(model_->scenario()); }
  double reduced_bytes() const override;
  std::vector<UnitAllocations> unit_allocations(int site, bool copies_weights) const override {
    return of(site).unit_allocations(site % kSitesOfLength, copies_weights);
  }
  Bytes framework_context() const override { return model_->framework_context(); }
  double allocator_factor() const override { return model_->allocator_factor(); }
  std::int64_t trained_parameters() const override { return model_->source().trained_parameters; }
  int tokens_per_sample(int length) const override { return panpipe::tokens_per_sample(model_->of_length(length).source()); }
  Flops model_flops(int length) const override { return model_->of_length(length).source().model_flops; }
  bool measured() const override { return measured_; }
  bool temporary_over_before() const override { return model_->source().layers.has_value(); }

 protected:
  const Occupancy& occupancy() const { return occupancy_; }

 private:
  static constexpr int kSitesOfLength = 1 << 20;
  const CostModel& of(int site) const { return model_->of_length(site / kSitesOfLength); }
  bool optimizer_is_given() const { return measured_ && model_->scenario().profile == nullptr; }

  const CostModel* model_;
  Degrees degrees_;
  Occupancy occupancy_;
  std::map<int, Occupancy> of_context_;  // of lengths with a context degree of their own
  bool measured_;
};

}  // namespace panpipe
