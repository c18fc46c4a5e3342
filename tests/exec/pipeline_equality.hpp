// Small models trained for one step over any plan, on threads of this process, to be held against one process.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "costmodel/workload/workload.hpp"
#include "exec/engine/slices/slice_graph.hpp"
#include "exec/engine/stage_layout.hpp"

namespace panpipe::exec {

struct Trained {
  double loss = 0;                              // mean over microbatches
  std::map<std::string, at::Tensor> gradients;  // whole, by parameter name
  std::vector<std::vector<Span>> spans;         // by rank
};

WorkloadRequest small_request(const std::string& model);
// A few layers, sharded for `tensor` ranks.
Workload small_model(const std::string& model, int tensor = 1, bool sequence_parallel = false);
// A few layers of a class of language models, by its config.json ("qwen3_moe").
WorkloadRequest small_config_request(const std::string& type);
Workload small_config_model(const std::string& type, const WorkloadShape& shape);
Workload small_config_model(const std::string& type, int tensor = 1, bool sequence_parallel = false);
// One slice of its sequence.
SliceGraph small_slices(const std::string& model, int splits, int tensor = 1, bool sequence_parallel = false);

// A rank's part of its sequences, and the model of whole ones.
struct SharedModel {
  Workload whole;
  SliceGraph part;
};
SharedModel small_shared(const std::string& model, int context, ContextExchange exchange, int tensor = 1,
                         bool sequence_parallel = false);
SharedModel shared_model(const WorkloadRequest& request, WorkloadShape shape);  // `shape`: of the part

// Units dealt evenly to the stages of each of the schedule's forward paths.
Plan plan_over(const OperatorGraph& graph, Schedule schedule, int data = 1, Recompute recompute = Recompute::None);
Plan plan_of(const OperatorGraph& graph, const std::string& family, int ranks, int microbatches, int data = 1,
             const ScheduleOptions& options = {});

// `slices`: of this graph, where the plan's schedule or its ranks cut sequences. `ignore_labels`: some labels do not count, and
// more of them at the sequence's beginning. `recompute`: what the plan's modes mean.
Trained train(const OperatorGraph& graph, const Plan& plan, const SliceGraph* slices = nullptr, bool ignore_labels = false,
              const RecomputeScope& recompute = {});

// The plans of plan_of() and plan_over().
Trained train(const Workload& workload, const std::string& family, int ranks, int microbatches, int data = 1,
              const ScheduleOptions& options = {});
Trained train(const Workload& workload, Schedule schedule, int data = 1, Recompute recompute = Recompute::None);
// One process.
Trained alone(const Workload& workload, int microbatches, bool ignore_labels = false);
const Trained& alone(const std::string& model, int microbatches, bool ignore_labels = false);  // the small one, trained once

// Within 1e-5 of the largest value, fp32.
void expect_equal(const Trained& one, const Trained& other);

}  // namespace panpipe::exec
