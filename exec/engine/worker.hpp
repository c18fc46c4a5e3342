// One rank of a run: executes its actions of the schedule, step after step.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/fault.hpp"
#include "exec/engine/layout.hpp"
#include "exec/engine/measure/memory_account.hpp"
#include "exec/engine/stage.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// Data of one microbatch: value of a graph input. `sample` counts microbatches over steps and replicas.
using DataSource = std::function<at::Tensor(int graph_input, std::int64_t sample)>;

struct WorkerOptions {
  std::uint64_t seed = 0;
  at::Device device = at::kCPU;                         // that the rank computes on
  Clock::duration deadline = std::chrono::seconds(10);  // longest wait for a peer
  int receives_ahead = 4;                               // actions whose receives are posted before their turn
  std::int64_t first_sample = 0;                        // added to the count of microbatches: data begin further on
  std::optional<at::ScalarType> autocast{};             // mixed precision of an fp32 graph
  // Called around each entry of the rank's order, and with each microbatch's loss.
  std::function<void(std::size_t)> before_action{}, after_action{};
  std::function<void(int, double)> on_loss{};
  double loss_scale = 1.0;  // multiplies the loss's gradient; the optimizer divides
};

struct StepResult {
  double loss_sum = 0;  // over this rank's loss microbatches; 0 where the loss stage is not
  // Device and peer = world ranks; times since `started`. The flow id of a transfer is its message's tag, the same on both sides;
  // a send ends here when it was handed over, a receive starts when it was posted: gathering puts the two together.
  std::vector<Span> spans;
  Clock::time_point started;
  MemoryAccount::Trace memory;
  std::vector<MemoryPart> kept;  // parameters, gradients, optimizer state: bytes at the end of the step
};

class Worker {
 public:
  // `position` is the pipeline rank, `replica` the data-parallel index. References must outlive the worker.
  Worker(const OperatorGraph& graph, const Plan& plan, const Layout& layout, int position, int replica,
         const ParameterStore& parameters, DataSource data, Transport& transport, const WorkerOptions& options);

  // Forward and backward of one step: gradients are summed into the parameters' grad(), scaled by 1 / (microbatches x replicas).
  StepResult step(std::int64_t step_index);

  void set_loss_scale(double scale) { options_.loss_scale = scale; }  // of the steps that follow

  // What the rank is doing, for messages of faults: "0B3 (waiting for the gradient from stage 1, rank 1)".
  std::string doing() const;

 private:
  struct Posted {
    Clock::time_point at;
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
  Duration since_start(Clock::time_point time) const;
  void note_transfer(int message, int microbatch, bool backward, bool sends, Clock::time_point start, Clock::time_point end,
                     std::int64_t bytes);

  const OperatorGraph& graph_;
  const Plan& plan_;
  const Layout& layout_;
  int position_, replica_;
  DataSource data_;
  Transport& transport_;
  WorkerOptions options_;
  Fault fault_;
  std::map<int, std::unique_ptr<Stage>> stages_;
  std::map<MessageKey, std::vector<Posted>> posted_;
  std::map<MessageKey, std::vector<at::Tensor>> local_;  // messages between stages of this rank
  std::vector<PendingPtr> sends_;
  std::int64_t step_ = 0;
  StepResult* result_ = nullptr;  // of the current step
  std::string doing_;
  Clock::time_point work_started_;  // of the current action

  // A GPU runs behind the host: its spans come from events on the rank's stream, read when the step is over.
  struct Marks {
    std::size_t span;
    c10::Event start, end;
  };
  void begin_work();
  void end_work(Span& span);
  void read_marks();
  std::optional<c10::Event> step_mark_, work_mark_;
  std::vector<Marks> marks_;
};

}  // namespace panpipe::exec
