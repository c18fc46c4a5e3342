#include "sim/event_loop.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "base/stop.hpp"

namespace panpipe::sim {
namespace {

using Kind = EventKind;

// A token has the kind of its event in the top bits; the rest is the number.
constexpr int kKindShift = 56;
Token token(Kind kind, std::int64_t index) { return static_cast<Token>(kind) << kKindShift | static_cast<Token>(index); }

// A collective that is a task: members of a data group, or tasks of several ranks.
struct PendingCollective {
  std::int32_t task = -1;  // the first
  std::int32_t group = 0;  // data group, or class when ranks meet
  std::int32_t members = 0;
  std::int32_t arrived = 0;
  std::int32_t sending = 0;
};

class EventLoop final : public EventHandler, private CellHost {
 public:
  EventLoop(const EventInput& input, FlowBackend& backend)
      : graph_(*input.graph),
        net_(*input.net),
        folding_(*input.folding),
        flows_(*input.flows),
        backend_(backend),
        log_(input.folding->network),
        classes_(input.folding->classes),
        cells_(graph_, net_, folding_, flows_, input.merged, input.timers, static_cast<CellHost&>(*this)) {
    record_.transfer_start.assign(graph_.transfers.size() * at(classes_), 0);
    record_.transfer_end = record_.transfer_start;
    spread(net_.prerequisites, waiting_for_);
    spread(net_.gated, gates_);
    point_reached_.assign(net_.point_waits.size() * at(classes_), false);
    if (graph_.rendezvous)
      for (const std::int32_t before : net_.receiver_before)
        transfer_waits_.insert(transfer_waits_.end(), at(classes_), before >= 0 ? 2 : 1);
    make_collectives();
  }

  EventRecord run() {
    for (std::size_t pair = 0; pair < waiting_for_.size(); ++pair)
      if (waiting_for_[pair] == 0) ready_.push_back(static_cast<std::int32_t>(pair));
    cells_.begin();
    drain();
    if (record_.activities > 0) backend_.run(*this);
    record_.task_start = std::move(cells_.start);
    record_.task_end = std::move(cells_.end);
    record_.waiting = std::move(cells_.waiting);
    record_.collectives = std::move(cells_.collectives);
    record_.uses = log_.uses();
    return std::move(record_);
  }

  void on_arrival(std::int32_t slot) override { on_timer(log_.end(slot, backend_.now())); }
  void on_timer(Token event) override {
    throw_if_stopped();
    handle(static_cast<Kind>(event >> kKindShift), static_cast<std::int64_t>(event & ((Token{1} << kKindShift) - 1)));
    drain();
  }

 private:
  // --- set-up ---
  void spread(const std::vector<std::int32_t>& per_task, std::vector<std::int32_t>& per_pair) const {
    per_pair.reserve(per_task.size() * at(classes_));
    for (const std::int32_t value : per_task) per_pair.insert(per_pair.end(), at(classes_), value);
  }

  void make_collectives() {
    first_collective_.assign(graph_.tasks.size(), -1);
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
      const Task& task = graph_.tasks[t];
      if (task.kind != TaskKind::Collective || task.flow < 0) continue;
      const std::int32_t round = net_.round[t];
      const std::int32_t first = round < 0 ? static_cast<std::int32_t>(t) : net_.rounds[round].front();
      if (first_collective_[first] < 0) {
        first_collective_[first] = static_cast<std::int32_t>(collectives_.size());
        const auto& in_groups = groups_of(task).members;
        const int groups = round < 0 ? static_cast<int>(in_groups.size()) : classes_;
        for (std::int32_t g = 0; g < groups; ++g)
          collectives_.push_back(
              {first, g, static_cast<std::int32_t>(round < 0 ? in_groups[g].size() : net_.rounds[round].size())});
      }
      first_collective_[t] = first_collective_[first];
    }
  }

  // --- helpers ---
  const ClassGroups& groups_of(const Task& task) const { return folding_.groups[index_of(graph_.flows[task.flow].among)]; }
  std::size_t pair(std::int32_t task, std::int32_t cls) const { return at(task) * at(classes_) + at(cls); }

  // The event comes at once when nothing takes time.
  void wait(Ticks delay, Kind kind, std::int64_t number) override {
    if (delay <= Ticks(0)) return handle(kind, number);
    ++record_.activities;
    backend_.set_timer(delay, token(kind, number));
  }

  void send(const FlowSpec& spec, Kind kind, std::int64_t number) override {
    if (spec.route < 0) return wait(spec.transfer, kind, number);
    ++record_.activities;
    ++record_.flows;
    const Token event = token(kind, number);
    backend_.start_flow(spec.way, spec.bytes, log_.begin(spec.route, spec.bytes, spec.transfer, event, backend_.now()));
  }

  // --- tasks ---
  void release(std::int32_t task, std::int32_t cls) {
    if (--waiting_for_[pair(task, cls)] == 0) ready_.push_back(static_cast<std::int32_t>(pair(task, cls)));
  }

  // Lists and not recursion: chains of tasks without duration may be long.
  void drain() {
    for (;;) {
      if (ready_.empty()) {
        if (cells_.drain()) continue;
        return;
      }
      const std::int32_t next = ready_.back();
      ready_.pop_back();
      start(next / classes_, next % classes_);
    }
  }

  void start(std::int32_t t, std::int32_t cls) {
    const Task& task = graph_.tasks[t];
    if (task.lane == Lane::Compute) return cells_.inputs_there(t, cls);
    cells_.start[pair(t, cls)] = now();
    if (task.kind == TaskKind::Collective && task.flow >= 0) {
      arrive(first_collective_[t] + (net_.round[t] < 0 ? groups_of(task).of[cls] : cls));
    } else if (const FlowSpec* copy = flows_.host_copy(task, cls)) {
      send(*copy, Kind::TaskEnd, pair(t, cls));
    } else {
      wait(task.program < 0 ? Ticks(0) : graph_.programs[task.program].duration, Kind::TaskEnd, pair(t, cls));
    }
  }

  // Ends a task of another lane than compute.
  void finish(std::int32_t t, std::int32_t cls) {
    cells_.end[pair(t, cls)] = now();
    output_made(t, cls);
    cell_ended(t, cls);
    if (net_.next_on_lane[t] >= 0) release(net_.next_on_lane[t], cls);
  }

  // --- points inside passes ---
  void reach_point(std::int32_t wait, std::int32_t cls) {
    if (point_reached_[pair(wait, cls)]) return;
    point_reached_[pair(wait, cls)] = true;
    release(net_.point_waits[wait].waiter, cls);
  }
  void cell_begun(std::int32_t task, std::int32_t cls) override {
    for (const std::int32_t w : net_.points[task])
      wait(graph_.points[net_.point_waits[w].point].at, Kind::PointReached, pair(w, cls));
  }
  void steps_reached(std::int32_t task, std::int32_t cls, std::int32_t steps) override {
    for (const std::int32_t w : net_.points[task])
      if (graph_.points[net_.point_waits[w].point].steps <= steps) reach_point(w, cls);
  }

  // --- cells of the compute lanes ---
  double now() const override { return backend_.now().base(); }
  bool sends_are_through(std::int32_t cell, std::int32_t cls) const override { return gates_[pair(cell, cls)] == 0; }
  void output_made(std::int32_t task, std::int32_t cls) override {
    for (const std::int32_t transfer : net_.transfers[task]) offer_transfer(transfer, cls);
  }
  void cell_ended(std::int32_t task, std::int32_t cls) override {
    ++record_.finished;
    for (const std::int32_t transfer : net_.taken_after[task]) offer_transfer(transfer, cls);
    for (const std::int32_t successor : net_.successors[task]) release(successor, cls);
  }

  // --- transfers ---
  // With a rendezvous a transfer starts when its receiver is there too.
  void offer_transfer(std::int32_t transfer, std::int32_t cls) {
    if (graph_.rendezvous && --transfer_waits_[pair(transfer, cls)] > 0) return;
    record_.transfer_start[pair(transfer, cls)] = now();
    const FlowSpec& spec = flows_.transfer(graph_.transfers[transfer].link, cls);
    if (spec.route < 0)
      wait(spec.latency + spec.transfer, Kind::TransferEnd, pair(transfer, cls));
    else
      wait(spec.latency, Kind::TransferReady, pair(transfer, cls));
  }

  void arrive(std::int32_t transfer, std::int32_t cls) {
    record_.transfer_end[pair(transfer, cls)] = now();
    for (const std::int32_t task : net_.consumers[transfer]) release(task, cls);
    const std::int32_t gate = net_.gate[transfer];
    if (gate >= 0 && --gates_[pair(gate, cls)] == 0) cells_.sends_arrived(gate, cls);
  }

  // --- collectives that are tasks ---
  void arrive(std::int32_t index) {
    PendingCollective& collective = collectives_[index];
    if (++collective.arrived < collective.members) return;
    each_member(collective, [&](std::int32_t task, std::int32_t cls) { cells_.start[pair(task, cls)] = now(); });
    wait(graph_.flows[graph_.tasks[collective.task].flow].latency, Kind::CollectiveReady, index);
  }

  template <class Visit>
  void each_member(const PendingCollective& collective, Visit visit) {
    const std::int32_t round = net_.round[collective.task];
    if (round < 0) {
      for (const std::int32_t cls : groups_of(graph_.tasks[collective.task]).members[collective.group])
        visit(collective.task, cls);
    } else {
      for (const std::int32_t task : net_.rounds[round]) visit(task, collective.group);
    }
  }

  void send_collective(std::int32_t index) {
    PendingCollective& collective = collectives_[index];
    collective.sending = collective.members;
    const std::int32_t flow = graph_.tasks[collective.task].flow;
    each_member(collective, [&](std::int32_t task, std::int32_t cls) {
      send(flows_.lane_member(graph_.tasks[task].rank, flow, cls), Kind::CollectiveMemberEnd, index);
    });
  }

  void end_collective_member(std::int32_t index) {
    if (--collectives_[index].sending > 0) return;
    each_member(collectives_[index], [&](std::int32_t task, std::int32_t cls) { finish(task, cls); });
  }

  void handle(Kind kind, std::int64_t number) {
    const auto index = static_cast<std::int32_t>(number), of = index / classes_, cls = index % classes_;
    switch (kind) {
      case Kind::TaskEnd:
        return finish(of, cls);
      case Kind::TransferReady:
        return send(flows_.transfer(graph_.transfers[of].link, cls), Kind::TransferEnd, index);
      case Kind::TransferEnd:
        return arrive(of, cls);
      case Kind::CollectiveReady:
        return send_collective(index);
      case Kind::CollectiveMemberEnd:
        return end_collective_member(index);
      case Kind::PointReached:
        return reach_point(of, cls);
      default:
        return cells_.ended(kind, number);
    }
  }

  const TaskGraph& graph_;
  const TaskNet& net_;
  const Folding& folding_;
  const FlowTable& flows_;
  FlowBackend& backend_;
  ContentionLog log_;
  const std::int32_t classes_;
  EventRecord record_;
  std::vector<std::int32_t> waiting_for_, gates_;  // [task][class]
  std::vector<std::int32_t> transfer_waits_;       // [transfer][class], with a rendezvous
  std::vector<bool> point_reached_;                // [wait for a point][class]
  std::vector<std::int32_t> ready_;                // pairs whose prerequisites are there
  CellRunner cells_;
  std::vector<PendingCollective> collectives_;
  std::vector<std::int32_t> first_collective_;  // per task
};

}  // namespace

EventRecord run_events(const EventInput& input, FlowBackend& backend) { return EventLoop(input, backend).run(); }

}  // namespace panpipe::sim
