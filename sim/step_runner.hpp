// Passes as blocks on one lane: a compute step or a collective after the other, or, where nobody else uses their links, one timer
// each. The replay owns time and flows; this says what starts when. (Passes that run by units: unit_runner.hpp.)
#pragma once

#include <cstdint>
#include <vector>

#include "sim/congruence.hpp"
#include "sim/flow_table.hpp"

namespace panpipe::sim {

// What the runner asks of the replay. What takes time comes back as the call of the same name in StepRunner; what takes none may
// come back at once.
class StepHost {
 public:
  virtual ~StepHost() = default;
  virtual void compute_timer(Ticks time, std::int32_t run) = 0;
  virtual void ring_timer(Ticks latency, std::int32_t ring) = 0;
  virtual void ring_flow(const FlowSpec& spec, std::int32_t ring) = 0;
  virtual void pass_timer(Ticks time, std::int32_t task, std::int32_t cls) = 0;  // of one copy: pass_ended follows by itself
  virtual void group_timer(Ticks time, std::int32_t ring) = 0;
  virtual void pass_ended(std::int32_t task, std::int32_t cls) = 0;
  virtual void pass_begun(std::int32_t task, std::int32_t cls) = 0;                       // as one timer, which starts now
  virtual void steps_ended(std::int32_t task, std::int32_t cls, std::int32_t steps) = 0;  // of its program, from the first
};

class StepRunner {
 public:
  StepRunner(const TaskGraph& graph, const Folding& folding, const FlowTable& flows, const std::vector<bool>& merged,
             StepHost& host);

  // A task with a program that is at the head of its lane.
  void start(std::int32_t task, std::int32_t cls);
  void compute_ended(std::int32_t run) { advance(run); }
  void ring_ready(std::int32_t ring);
  void ring_member_ended(std::int32_t ring);
  void group_ended(std::int32_t ring);
  // Goes on with a run whose collective has ended. False when there is none.
  bool resume();

 private:
  // A pass of one copy, step by step.
  struct Run {
    std::int32_t task = -1;
    std::int32_t next = 0;  // step
    bool open = false;      // a collective is under way
    bool beside = false;    // the compute step beside it has been started
    bool waiting = false;   // nothing goes on until the collective ends
  };
  // A collective inside a pass, over the members of a tensor group; or the group's merged pass.
  struct Ring {
    std::int32_t arrived = 0;
    std::int32_t sending = 0;
    std::int32_t step = -1;
  };

  std::int32_t run_index(const Task& task, std::int32_t cls) const;
  std::int32_t ring_index(const Task& task, std::int32_t cls) const;
  const std::vector<std::int32_t>& group_of(std::int32_t ring) const;
  void start_merged(std::int32_t task, std::int32_t cls);
  void advance(std::int32_t run);
  void join_ring(const Task& task, std::int32_t step, std::int32_t cls);
  void close_ring(std::int32_t ring);

  const TaskGraph& graph_;
  const Folding& folding_;
  const FlowTable& flows_;
  const std::vector<bool>& merged_;
  StepHost& host_;
  const std::int32_t classes_;
  std::vector<Run> runs_;                                  // [rank][lane][class]
  std::vector<Ring> rings_;                                // [rank][lane][tensor group]
  std::vector<std::vector<std::int32_t>> tensor_members_;  // classes of each tensor group
  std::vector<bool> joins_;                                // per program: has a blocking collective
  std::vector<std::int32_t> resume_;                       // runs whose collective has ended
};

}  // namespace panpipe::sim
