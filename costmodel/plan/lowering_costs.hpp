// The interface through which the lowering and the partition query costs. It is narrow so that tests and searches can supply
// their own tables. The functions mean the same as CostModel's.
#pragma once

#include <vector>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/cost/unit_allocations.hpp"
#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/plan/held_parameters.hpp"
#include "costmodel/plan/plan.hpp"

namespace panpipe {

// Bytes of one parameter on a rank, and of one element of the optimizer's state.
struct ElementBytes {
  double parameter = 0, gradient = 0, optimizer = 0, state = 0;
};

// The defaults are those of measured layers on an in-place cluster, where nothing is added to the given times and bytes.
class LoweringCosts {
 public:
  virtual ~LoweringCosts() = default;

  // The site of a device's groups (cost_model.hpp); by default its own type.
  // `length`: the sequences' shape, of the scenario's `lengths`; 0 if all are equal.
  virtual int site_of(const Cluster& cluster, const PassGroups& groups, int /* length */) const {
    return cluster.devices[groups.tensor().front()].type;
  }
  virtual const WorkloadCost& workload(int site) const = 0;
  // The same for partitioning: devices without rates are not a fault, their times are 0.
  virtual const WorkloadCost& units(int site) const { return workload(site); }
  virtual TransferCost transfer(int from_device, int to_device, Bytes tensor_bytes) const = 0;
  virtual Duration message_work(Bytes) const { return Duration(0); }  // of a message, at each of its ends
  virtual CollectiveCost collective(CollectiveKind kind, Bytes bytes, const std::vector<int>& devices) const = 0;
  // For a rank's whole parameters, elements and tensors; the result includes ZeRO's division and the work done once per step.
  virtual Breakdown optimizer(std::int64_t, std::int64_t, int) const { return {}; }
  // Of parameters whose update is priced apart, what surrounds it: of so many elements in so many tensors, and of so many of
  // experts that replicas divide.
  virtual Breakdown around_update(const ParameterSums&, const ParameterSums& /* experts */, int) const { return {}; }
  // Additional time for parameters of experts that replicas divide, without the work done once per step.
  virtual Breakdown expert_optimizer(std::int64_t, std::int64_t, int) const { return {}; }
  // Adds a pass's gradients to those of earlier passes: of so many elements, and of so many of experts that replicas divide. The
  // mean over the passes of a step, of which a microbatch has `splits`.
  virtual Breakdown accumulation(std::int64_t, std::int64_t, int /* splits */, int) const { return {}; }
  virtual Duration host_bound(Duration device, const HostWork&, int) const { return device; }
  virtual Duration overlap_slowdown(Duration, int) const { return Duration(0); }
  virtual double stage_jitter(int) const { return 1.0; }
  virtual double parameter_bytes() const { return 4; }
  virtual double gradient_bytes() const { return 4; }
  virtual double optimizer_bytes() const { return 0; }
  virtual double state_bytes() const { return 0; }
  // The same for experts that replicas divide. Fewer ranks hold them, and ZeRO divides them over fewer.
  virtual ElementBytes expert_bytes() const { return {parameter_bytes(), gradient_bytes(), optimizer_bytes(), state_bytes()}; }
  virtual OptimizerTemporary optimizer_temporary() const { return {}; }
  virtual double reduced_bytes() const { return 4; }  // of one gradient element when replicas sum gradients
  // By unit; empty where tensors are not known.
  virtual std::vector<UnitAllocations> unit_allocations(int /* site */, bool /* copies_weights */) const { return {}; }
  virtual Bytes framework_context() const { return Bytes(0); }
  virtual double allocator_factor() const { return 1.0; }
  virtual std::int64_t trained_parameters() const { return 0; }        // of the whole model, a tied one once
  virtual int tokens_per_sample(int /* length */) const { return 0; }  // of a sequence; 0: the model reads no tokens
  // Of one sequence of a length, forward and backward, without recompute.
  virtual Flops model_flops(int /* length */) const { return Flops(0); }
  // True if times come from a measured table or an in-place cluster: transfers then take no time at either end.
  virtual bool measured() const { return true; }
  // True if a unit's temporary counts from before the unit ran (measured layers), false if it comes on top of the bytes that it
  // saves (operator graphs).
  virtual bool temporary_over_before() const { return measured(); }
};

// Seconds that the host adds to the device time it launches: all of its time where the device has nothing to do.
inline double host_wait(const LoweringCosts& costs, double device, const HostWork& work, int site) {
  return costs.host_bound(Duration(device), work, site).base() - device;
}

// Time of a unit's pass run alone, host and device together. Cuts are balanced by it, and searched orders use it. Sums over a
// stage are close to the stage's time (docs/decisions/0010-stage-table.md).
inline Duration time_alone(const LoweringCosts& costs, const PassCost& pass, int site) {
  return costs.host_bound(pass.breakdown.total, pass.host, site);
}

// Of a unit's gradients.
inline Breakdown accumulation(const LoweringCosts& costs, const UnitCost& unit, int splits, int site) {
  std::int64_t others = 0, experts = 0;
  for (const ParameterUse& use : unit.parameters) (use.experts ? experts : others) += use.elements;
  return costs.accumulation(others, experts, splits, site);
}

Plan make_plan(const Scenario& scenario, const PlanRequest& request, const LoweringCosts& costs);
inline Plan make_plan(const Scenario& scenario, const LoweringCosts& costs) {
  return make_plan(scenario, request_of(scenario), costs);
}

}  // namespace panpipe
