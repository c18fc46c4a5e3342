// Runs passes and groups on the compute lanes of all pipeline groups while links are shared. It is the event-driven form of the
// rules in costmodel/lowering/pass_lanes.hpp, step by step, or as one timer where that makes no difference. The event loop owns
// time and flows; the runner decides what starts when.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "costmodel/lowering/pass_lanes.hpp"
#include "sim/congruence.hpp"
#include "sim/flow_table.hpp"
#include "sim/task_net.hpp"

namespace panpipe::sim {

// Per task: true if its cell is one timer. That requires a fixed duration, links of its collectives that no other flow uses
// (`merged`, per rank), and that all separately simulated members of its groups end it together.
std::vector<bool> cells_as_timers(const TaskGraph& graph, const Folding& folding, const std::vector<bool>& merged);

// Ends of timers and flows, each with a number. The runner starts those of the first four, the event loop the others.
enum class EventKind : std::uint8_t {
  StepEnd,              // a compute step of a pass, or the whole of a cell
  GroupEnd,             // (rank, group): a cell as one timer of all the group's members
  RingReady,            // (rank, group): latency of a collective inside a pass is over
  RingMemberEnd,        // same
  TaskEnd,              // (task, class): a copy
  TransferReady,        // (transfer, class)
  TransferEnd,          // same
  CollectiveReady,      // (collective): latency of a collective that is a task
  CollectiveMemberEnd,  // same
  PointReached,         // (wait for a point inside a pass, class)
};

// The event loop, as the runner uses it. The end of a timer or flow calls CellRunner::ended(), at once if nothing takes time.
class CellHost {
 public:
  virtual ~CellHost() = default;
  virtual double now() const = 0;
  virtual void wait(Ticks delay, EventKind kind, std::int64_t number) = 0;
  virtual void send(const FlowSpec& spec, EventKind kind, std::int64_t number) = 0;
  virtual bool sends_are_through(std::int32_t cell, std::int32_t cls) const = 0;            // the sends that the lane waits for
  virtual void output_made(std::int32_t task, std::int32_t cls) = 0;                        // its transfers may start
  virtual void cell_ended(std::int32_t task, std::int32_t cls) = 0;                         // once per task
  virtual void cell_begun(std::int32_t task, std::int32_t cls) = 0;                         // as one timer, starting now
  virtual void steps_reached(std::int32_t task, std::int32_t cls, std::int32_t steps) = 0;  // of a lone pass, from its first step
};

// Number of kinds of groups that passes synchronise: one for each kind of collective, and one for all of them.
constexpr std::size_t kCompanies = kAmongPasses + 1;

struct CollectiveRecord {
  std::int32_t cls = 0, task = 0, step = 0;
  double start = 0, end = 0;
};

class CellRunner {
 public:
  CellRunner(const TaskGraph& graph, const TaskNet& net, const Folding& folding, const FlowTable& flows,
             const std::vector<bool>& merged, const std::vector<bool>& timers, CellHost& host);

  // Starts the first cell of every compute lane.
  void begin();
  void inputs_there(std::int32_t task, std::int32_t cls);
  void sends_arrived(std::int32_t task, std::int32_t cls);  // the sends that the lane waits for after `task`
  void ended(EventKind kind, std::int64_t number);
  // Starts everything that can start at this instant. Returns true if anything did.
  bool drain();

  // [task * classes + class], ticks; the event loop notes the other lanes' tasks in the first two
  std::vector<double> start, end, waiting;
  std::vector<CollectiveRecord> collectives;

 private:
  struct Issued {
    std::int32_t task = 0, step = 0;
  };
  // The compute lane of a rank, for one class.
  struct Lane {
    std::int32_t cell = -1;     // first task of the running cell; -1 = all done
    std::deque<Issued> issued;  // unfinished collectives in order; they run one at a time
    std::int32_t next = 0;      // step of the cell
    std::int32_t in_cell = 0;   // number of these in the current cell
    std::uint32_t version = 0;  // of the running step's timer
    bool computing = false, slowed = false, listed = false;
    double step_start = 0, work = 0;
    double busy = 0;  // in the current cell
  };
  // A group of a rank, at a collective or at a cell that is one timer for all members.
  struct Ring {
    std::int32_t arrived = 0;
    std::int32_t sending = 0;
    Issued now{};  // the collective under way
    double start = 0;
  };
  struct Member {
    std::int32_t outstanding = 0;
    bool ready = false, started = false, sent = false, finished = false;
  };

  std::size_t pair(std::int32_t task, std::int32_t cls) const {
    return static_cast<std::size_t>(task) * static_cast<std::size_t>(classes_) + static_cast<std::size_t>(cls);
  }
  std::int64_t timer_token(std::int32_t lane) const {
    return static_cast<std::int64_t>(lanes_[lane].version) * static_cast<std::int64_t>(lanes_.size()) + lane;
  }
  // Number of a rank's group of a kind, and the reverse.
  std::int64_t ring_of(std::int32_t rank, int kind, std::int32_t cls) const {
    return (static_cast<std::int64_t>(rank) * kCompanies + kind) * classes_ + company(kind).of[cls];
  }
  const ClassGroups& company(std::int64_t kind) const {
    return kind < static_cast<std::int64_t>(kAmongPasses) ? folding_.groups[kind] : folding_.pass_groups;
  }
  const std::vector<std::int32_t>& members_of_ring(std::int64_t ring) const {
    return company(ring / classes_ % static_cast<std::int64_t>(kCompanies)).members[ring % classes_];
  }
  std::int32_t rank_of_ring(std::int64_t ring) const {
    return static_cast<std::int32_t>(ring / classes_ / static_cast<std::int64_t>(kCompanies));
  }
  const Program* program_of(std::int32_t task) const;
  std::int32_t members_of(std::int32_t cell) const;
  void list(std::int32_t lane);
  void advance(std::int32_t lane);
  void step_ended(std::int64_t token);
  void ring_ready(std::int64_t ring);
  bool may_go_on(const Lane& lane, const Program& program, const ProgramStep& step, std::int32_t cls) const;
  void start_timer(std::int32_t lane, const Program& program);
  void end_timer(std::int32_t lane);
  void start_compute(std::int32_t lane, const ProgramStep& step);
  void issue(std::int32_t lane, std::int32_t step, std::int32_t task);
  void mark_start(std::int32_t task, std::int32_t cls);
  bool leave_cell(std::int32_t lane);
  void settle(std::int32_t cell, std::int32_t cls);
  void arrive(std::int32_t lane);
  void end_ring(std::int64_t ring);

  const TaskGraph& graph_;
  const TaskNet& net_;
  const Folding& folding_;
  const FlowTable& flows_;
  const std::vector<bool>&merged_, &timers_;
  CellHost& host_;
  const std::int32_t classes_;
  std::vector<Lane> lanes_;           // [rank][class]
  std::vector<Ring> rings_;           // by ring_of
  std::vector<Member> members_;       // [task][class]
  std::vector<std::int32_t> leader_;  // per task, the first task of its cell
  std::vector<bool> watched_;         // per task: another task waits for a point inside its cell
  std::vector<int> company_;          // per program: the kind of groups that it synchronises; -1 = none
  std::vector<MemberRun> runs_;       // of the cell that is ending
  std::vector<std::int32_t> list_;    // lanes to check
};

}  // namespace panpipe::sim
