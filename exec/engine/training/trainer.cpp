#include "exec/engine/training/trainer.hpp"

#include <ATen/Functions.h>

#include <map>
#include <set>

#include "exec/engine/training/synthetic_data.hpp"

namespace panpipe::exec {
namespace {

std::vector<int> stages_of(const Plan& plan, int position) {
  std::vector<int> stages;
  for (int s = 0; s < plan.schedule.stages; ++s)
    if (plan.schedule.stage_to_rank[static_cast<std::size_t>(s)] == position) stages.push_back(s);
  return stages;
}

}  // namespace

Trainer::Trainer(const PreparedRun& run, Transport& transport)
    : run_(run),
      transport_(transport),
      position_(transport.rank() / run.plan.data),
      replica_(transport.rank() % run.plan.data),
      parameters_(run.graph(), run.layout, stages_of(run.plan, position_),
                  static_cast<std::uint64_t>(run.experiment.scenario.seed)),
      worker_(run.graph(), run.plan, run.layout, position_, replica_, parameters_,
              synthetic_data(run.graph(), static_cast<std::uint64_t>(run.experiment.scenario.seed)), transport,
              {.seed = static_cast<std::uint64_t>(run.experiment.scenario.seed),
               .deadline = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(run.request.deadline_s))}) {
  make_groups();
}

// Every rank makes every group in the same order, as transports want it.
void Trainer::make_groups() {
  std::map<int, std::set<int>> holders;  // parameter -> pipeline positions that use it
  for (std::size_t s = 0; s < run_.layout.stages.size(); ++s)
    for (const int tensor : run_.layout.stages[s].parameters) {
      const int root = root_of(run_.graph(), tensor);
      if (run_.graph().tensors[static_cast<std::size_t>(root)].role == TensorRole::Parameter)
        holders[root].insert(run_.plan.schedule.stage_to_rank[s]);
    }
  std::map<std::set<int>, Group> made;
  for (const auto& [root, positions] : holders) {
    if (positions.size() * static_cast<std::size_t>(run_.plan.data) < 2) continue;
    if (!made.count(positions)) {
      std::vector<int> ranks;
      for (const int position : positions)
        for (int replica = 0; replica < run_.plan.data; ++replica) ranks.push_back(position * run_.plan.data + replica);
      made[positions] = transport_.make_group(ranks);
    }
    if (positions.count(position_)) groups_.emplace_back(root, made[positions]);
  }
}

void Trainer::reduce_gradients() {
  std::vector<PendingPtr> pending;
  for (const auto& [root, group] : groups_) {
    at::Tensor value = parameters_.trained().at(root);
    if (!value.grad().defined()) value.mutable_grad() = at::zeros_like(value);
    pending.push_back(transport_.all_reduce(value.grad(), group));
  }
  for (const PendingPtr& reduction : pending)
    reduction->wait(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(run_.request.deadline_s)),
                    "the sum of gradients");
}

StepResult Trainer::step(std::int64_t step_index) {
  for (const auto& [root, value] : parameters_.trained()) at::Tensor(value).mutable_grad() = at::Tensor();
  StepResult result = worker_.step(step_index);
  reduce_gradients();
  return result;
}

}  // namespace panpipe::exec
