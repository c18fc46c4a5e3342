// What the event loop asks of a network: let time pass, and let flows share links max-min fairly. Two implementations: SimGrid
// (sim/simgrid/) and our own (sim/flow_solver.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/quantity.hpp"

namespace panpipe::sim {

// A capacity that flows share. When congruent devices are folded it stands for `alike` resources with the same users.
struct SharedResource {
  std::string name;
  double capacity = 0;  // bytes per second
  int alike = 1;
};

// A flow's share of a resource: `uses` times its rate counts there. Larger than 1 where the route crosses the resource more
// than once (a copy staged in host memory) or where the flow stands for several real flows through one real resource.
struct SharedHop {
  std::int32_t resource = 0;
  std::int32_t uses = 1;
  std::int32_t flows = 1;  // real flows of one real resource that this flow stands for
};

constexpr double kNoRateCap = 0;

// A route as a kind of flow uses it: none goes faster than `rate_cap` bytes per second, whatever else is under way.
struct Way {
  std::int32_t route = 0;
  double rate_cap = kNoRateCap;  // kNoRateCap: only the route counts
};

struct Network {
  std::vector<SharedResource> resources;
  std::vector<std::vector<SharedHop>> routes;  // never empty
  std::vector<Way> ways;
};

using Token = std::uint64_t;

class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void on_event(Token token) = 0;  // a timer ran out or a flow's last byte arrived; may start more of them
};

// Time starts at 0 and is counted in whole picoseconds: the end of a flow is rounded to the nearest one, so that sums are
// exact and two back ends give the same bytes.
class FlowBackend {
 public:
  virtual ~FlowBackend() = default;
  virtual Ticks now() const = 0;
  virtual void set_timer(Ticks delay, Token token) = 0;                      // delay > 0
  virtual void start_flow(std::int32_t way, double bytes, Token token) = 0;  // bytes > 0
  virtual void run(EventHandler& handler) = 0;  // until nothing is under way; something must have been started
};

}  // namespace panpipe::sim
