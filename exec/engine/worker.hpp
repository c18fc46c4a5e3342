// One rank of a run: executes its actions of the schedule, step after step.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/layout.hpp"
#include "exec/engine/stage.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// Data of one microbatch: value of a graph input. `sample` counts microbatches over steps and replicas.
using DataSource = std::function<at::Tensor(int graph_input, std::int64_t sample)>;

struct WorkerOptions {
  std::uint64_t seed = 0;
  Clock::duration deadline = std::chrono::seconds(10);  // longest wait for a peer
  int receives_ahead = 4;                               // actions whose receives are posted before their turn
  double loss_scale = 1.0;                              // multiplies the loss's gradient; the optimizer divides
};

struct StepResult {
  double loss_sum = 0;      // over this rank's loss microbatches; 0 where the loss stage is not
  std::vector<Span> spans;  // device = world rank; times since the step's start on this rank's clock
  Clock::time_point started;
};

class Worker {
 public:
  // `position` is the pipeline rank, `replica` the data-parallel index. References must outlive the worker.
  Worker(const OperatorGraph& graph, const Plan& plan, const Layout& layout, int position, int replica,
         const ParameterStore& parameters, DataSource data, Transport& transport, const WorkerOptions& options);

  // Forward and backward of one step: gradients are summed into the parameters' grad(), scaled by 1 / (microbatches x replicas).
  StepResult step(std::int64_t step_index);

  // What the rank is doing, for messages of faults: "0B3 (waiting for the gradient from stage 1, rank 1)".
  std::string doing() const;

 private:
  struct Posted {
    PendingPtr pending;
    int tensor = 0;
  };
  using MessageKey = std::pair<int, std::pair<int, bool>>;  // (message, (microbatch, backward))

  void post_receives(std::size_t from_action, std::size_t to_action);
  void post_message(int message, int microbatch, bool backward);
  std::vector<at::Tensor> take_message(int message, int microbatch, bool backward, const std::string& action);
  void give_message(int message, int microbatch, bool backward, const std::vector<at::Tensor>& values);
  void forward(const Action& action, StepResult& result);
  void backward(const Action& action);
  int rank_of_stage(int stage) const;

  const OperatorGraph& graph_;
  const Plan& plan_;
  const Layout& layout_;
  int position_, replica_;
  DataSource data_;
  Transport& transport_;
  WorkerOptions options_;
  std::map<int, std::unique_ptr<Stage>> stages_;
  std::map<MessageKey, std::vector<Posted>> posted_;
  std::map<MessageKey, std::vector<at::Tensor>> local_;  // messages between stages of this rank
  std::vector<PendingPtr> sends_;
  std::int64_t step_ = 0;
  std::string doing_;
  Clock::time_point work_started_;  // of the current action
};

}  // namespace panpipe::exec
