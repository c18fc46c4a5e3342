#include <fmt/format.h>

#include "base/error.hpp"
#include "costmodel/cost/matrix_optimizer.hpp"
#include "costmodel/plan/plan_features.hpp"
#include "costmodel/scenario/at_key.hpp"
#include "costmodel/scenario/check_together.hpp"
#include "costmodel/workload/model_config.hpp"
#include "exec/engine/context/context_graph.hpp"
#include "exec/engine/microbatch_lengths.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/slices/attention_partner.hpp"
#include "exec/engine/slices/slice_graph.hpp"
#include "exec/engine/stage/autocast_region.hpp"
#include "exec/engine/training/gradients.hpp"
#include "exec/engine/training/training_run.hpp"
#include "exec/engine/training/weight_slots.hpp"
#include "exec/engine/vocabulary_parts.hpp"
#include "exec/engine/weights/published_weights.hpp"
#include "exec/launch/run_options.hpp"
#include "present/result/result_files.hpp"
#include "schedule/walk.hpp"

namespace panpipe::exec {
namespace {

// Refuses formats that predictions support and the executor does not.
void check_formats(const Scenario& scenario) {
  if (has_narrow_products(scenario.precision))
    throw fault_at(scenario, "precision",
                   fmt::format("the executor has no products in 8 or 4 bits ({})", name_of(scenario.precision)),
                   "run with precision bf16");
  const OptimizerRequest& optimizer = scenario.optimizer;
  if (optimizer.states.value_or(StateFormat::Fp32) != StateFormat::Fp32 ||
      optimizer.master.value_or(MasterFormat::Fp32) != MasterFormat::Fp32)
    throw fault_at(scenario, "optimizer", "the executor's optimizers keep moments and masters in fp32",
                   "run without optimizer.states and optimizer.master");
  if (scenario.samples.any() && !scenario.lengths.any())
    throw fault_at(scenario, "batch.packed", "the executor's attention is over whole sequences", "run without batch.packed");
  if (scenario.workload.tuning.any())
    throw fault_at(scenario, "workload", "the executor trains every parameter of a built-in model, without LoRA",
                   "run without workload.lora and workload.frozen; an exported model may have frozen parameters");
}

// Optimizers of matrices: the executor has Muon, and gathers a matrix whose parts lie on several ranks.
void check_matrices(const Scenario& scenario, const Plan& plan) {
  const OptimizerRequest& optimizer = scenario.optimizer;
  if (!steps_matrices(optimizer.name)) return;
  if (!executes_matrices(optimizer.name))
    throw fault_at(scenario, "optimizer", fmt::format("the executor has no {}: it is predicted and not run", optimizer.name),
                   "run with muon or adamw; estimate, simulate and plan know it");
  const MatrixTensorMode mode = optimizer.tensor_mode;
  if (plan.tensor > 1 && mode != MatrixTensorMode::Duplicated && mode != MatrixTensorMode::Blockwise)
    throw fault_at(scenario, "optimizer.tensor_mode",
                   "the executor's tensor-parallel ranks each step the whole matrix, or each its shard",
                   "run with tensor_mode duplicated, which has the same result; estimate, simulate and plan know the others");
  if (plan.experts_apart() && plan.expert_tensor_group() > 1)
    throw fault_at(scenario, "parallel.expert_tensor", "the executor's Muon steps whole matrices, and ranks share each expert's",
                   "run with parallel.expert_tensor 1");
  const bool exchanges = plan.exchanges();
  if (exchanges && divides_parameters(plan) && matrix_sharding(scenario, plan.zero) != MatrixSharding::Gathered)
    throw fault_at(scenario, "optimizer",
                   fmt::format("under zero {} the executor's replicas each step all matrices, which they gather", plan.zero),
                   "run with optimizer.sharding gathered, which has the same result, or with parallel.zero 0 or 1");
  if (exchanges) (void)matrix_sharding(scenario, plan.zero);
}

// A stage that runs backwards alone makes its forward again, and would update running statistics a second time.
void check_ways(const Scenario& scenario, const Plan& plan, const OperatorGraph& graph) {
  if (ways_of_stages(plan.schedule).empty()) return;
  const auto written = [](const Tensor& tensor) { return tensor.role == TensorRole::Buffer && tensor.written; };
  if (std::any_of(graph.tensors.begin(), graph.tensors.end(), written))
    throw fault_at(scenario, "schedule",
                   fmt::format("the model has running statistics, which the executor does not keep under {}", plan.schedule.name),
                   "run with another schedule");
}

void check_exchange(const PreparedRun& run) {
  const Scenario& scenario = run.experiment.scenario;
  if (!exchange_of(run.plan.schedule, scenario.schedule.options).any()) return;
  const std::string remedy = "set exchange: off in the schedule";
  if (run.request.device == "cuda")
    throw fault_at(scenario, "schedule", "the executor exchanges attention between CPUs, not yet between GPUs", remedy);
  if (has_action(run.plan.schedule, ActionKind::Offload))
    throw fault_at(scenario, "schedule", "the executor parks no activations of attention that ranks share", remedy);
  if (std::any_of(run.plan.stages.begin(), run.plan.stages.end(),
                  [](const StagePlan& stage) { return stage.recompute == Recompute::Selective; }))
    throw fault_at(scenario, "recompute", "the executor exchanges no attention of passes that are recomputed selectively",
                   remedy);
  at_key(scenario, "schedule", [&] { check_shares_attention(run.graph()); });
}

void check_rolling(const Scenario& scenario, const Plan& plan) {
  if (rolling_of(plan.schedule) != Rolling::Stale || plan.microbatches >= plan.pipeline) return;
  throw fault_at(scenario, "batch.microbatches",
                 fmt::format("the executor runs {} with as many microbatches in a step as ranks: {}, not {}", plan.schedule.name,
                             plan.pipeline, plan.microbatches),
                 fmt::format("take {} microbatches, or another schedule", plan.pipeline));
}

// ZeRO 2 and 3: who holds which part.
void divide_parameters(PreparedRun& run) {
  const Scenario& scenario = run.experiment.scenario;
  if (!divides_parameters(run.plan)) return;
  if (run.plan.zero >= 3 && autocast_of(run.graph(), scenario.precision))
    throw fault_at(
        scenario, "parallel.zero",
        fmt::format("the exported model is of float32: precision {} keeps a copy of every weight, which zero 3 cannot free",
                    name_of(scenario.precision)),
        "run with parallel.zero 2, or with precision fp32, or export the model in two bytes");
  if (run.plan.zero >= 3) lay_out_gathers(run.graph(), run.plan, run.layout);
  run.shards = make_shard_layout(run.graph(), run.plan, run.layout, is_mixed(scenario.precision), Gradients::kBucketBytes);
}

}  // namespace

PreparedRun::PreparedRun(RunRequest asked)
    : request(std::move(asked)), experiment(load_scenario(request.scenario, all_overrides(request), request.plan)) {
  const Scenario& scenario = experiment.scenario;
  if (!experiment.workload.graph)
    throw fault_at(scenario, "workload", "measured layers are times, not operators: there is nothing to execute",
                   "name a built-in model, or give an exported one: {pt2: FILE}");
  if (scenario.expert_load.capacity)
    throw fault_at(scenario, "experts.capacity", "the executor drops and pads no tokens",
                   "run without experts.capacity; estimate and simulate know more");
  check_formats(scenario);
  if (scenario.workload.config && !scenario.workload.config->not_followed.empty())
    throw InputError(scenario.workload.config->not_followed);
  plan = experiment.plan(request.plan);
  check_together(scenario, features_of(scenario, plan), Where::Executed);
  check_hosted_state(scenario, plan, *experiment.workload.graph);
  check_matrices(scenario, plan);
  check_rolling(scenario, plan);
  check_ways(scenario, plan, *experiment.workload.graph);
  (void)microbatch_lengths(experiment, plan);  // or throws
  if (plan.context > 1) {
    Degrees degrees = scenario.degrees;
    degrees.context = 1;
    whole = make_workload(scenario, degrees);
    slices = at_key(scenario, "parallel.context", [&] { return context_graph(*experiment.workload.graph, *whole->graph); });
  } else if (plan.schedule.splits > 1) {
    slices = at_key(scenario, "schedule", [&] {
      check_slice_order(plan.schedule);
      return slice_graph(scenario.workload, experiment.workload.shape, *experiment.workload.graph, plan.schedule.splits);
    });
  }
  layout = make_stage_layout(graph(), plan, slices ? slices->cut : std::vector<int>{});
  if (plan.schedule.vocabulary_barriers > 0)
    at_key(scenario, "schedule", [&] { cut_vocabulary(*experiment.workload.graph, plan, layout); });
  at_key(scenario, "recompute.modules", [&] { choose_recomputed(graph(), plan, scenario.recompute_scope, layout); });
  check_exchange(*this);
  divide_parameters(*this);
  weights = published_weights(scenario, whole_graph());
  check_training(*this);
  check_run_outputs(request);
  if (!request.output.empty()) present::check_result_files(request.output);
}

}  // namespace panpipe::exec
