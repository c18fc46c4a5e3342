// A discrete-event network with max-min fair sharing: an event heap, and a new solution of the affected component whenever flows
// start or end. Small and fast, without a library.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "sim/flow_backend.hpp"

namespace panpipe::sim {

class FlowSolver final : public FlowBackend {
 public:
  explicit FlowSolver(const Network& network);  // `network` must outlive the solver

  Ticks now() const override { return Ticks(now_); }
  void set_timer(Ticks delay, Token token) override;
  void start_flow(std::int32_t way, double bytes, std::int32_t slot) override;
  void run(EventHandler& handler) override;

 private:
  struct Flow {
    double remaining = 0;       // bytes, at `updated`
    double rate = 0;            // bytes per tick; 0 = not yet solved
    double cap = 0;             // bytes per tick
    double updated = 0;         // ticks
    std::uint32_t version = 0;  // of the rate: a finish event with an older version is stale
    std::int32_t route = -1;
    std::uint32_t visited = 0;
    bool fixed = false;
  };
  struct Link {
    double capacity = 0;  // bytes per tick
    std::vector<std::int32_t> flows;
    double free = 0;           // while solving: capacity not yet assigned
    std::int64_t wanting = 0;  // while solving: uses by flows without a rate
    std::uint32_t visited = 0;
    bool dirty = false, full = false;
  };
  struct Event {
    double at;
    std::uint64_t order;  // first come, first served among equal times
    Token token;          // timer: its token; flow: slot and version
    bool is_flow;
    bool operator>(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  void touch(std::int32_t route);
  void end_flow(std::int32_t slot);
  void resolve();
  bool solve_alone(std::int32_t slot);
  void collect_component(std::int32_t link);
  void solve_component();
  void fix(Flow& flow, double rate);
  void update_rates();

  const Network* network_;
  std::vector<Link> links_;
  std::vector<Flow> flows_;  // by slot
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::int32_t> dirty_, component_links_, component_flows_, full_links_;
  std::vector<double> new_rates_;
  double now_ = 0;
  std::uint64_t order_ = 0;
  std::uint32_t visit_ = 0;
};

}  // namespace panpipe::sim
