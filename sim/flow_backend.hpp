// The event loop's interface to a network: it lets time pass, and lets flows share links max-min fairly. SimGrid (sim/simgrid/)
// and FlowSolver (sim/flow_solver.hpp) implement it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/quantity.hpp"

namespace panpipe::sim {

// A capacity that flows share. With folding it represents `alike` resources with the same users.
struct SharedResource {
  std::string name;
  double capacity = 0;  // bytes per second
  int alike = 1;
};

// A flow's use of a resource: `uses` times its rate counts there. Greater than 1 if the route crosses the resource several times
// (a copy staged in host memory), or if the flow represents several real flows through one real resource.
struct SharedHop {
  std::int32_t resource = 0;
  std::int32_t uses = 1;
  std::int32_t flows = 1;  // real flows per real resource that this flow represents
};

constexpr double kNoRateCap = 0;

// A route with a rate limit for a kind of flow: no such flow exceeds `rate_cap` bytes per second, under any load.
struct Way {
  std::int32_t route = 0;
  double rate_cap = kNoRateCap;  // kNoRateCap: limited only by the route
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
  // May start more of them.
  virtual void on_timer(Token token) = 0;
  virtual void on_arrival(std::int32_t slot) = 0;  // of a flow's last byte
};

// Time starts at 0 and is counted in whole picoseconds. The end of a flow is rounded to the nearest one, so sums are exact and
// both back ends give identical results.
class FlowBackend {
 public:
  virtual ~FlowBackend() = default;
  virtual Ticks now() const = 0;
  virtual void set_timer(Ticks delay, Token token) = 0;  // delay > 0
  // bytes > 0. No two flows under way have one slot, and slots are small: arrays are indexed by them.
  virtual void start_flow(std::int32_t way, double bytes, std::int32_t slot) = 0;
  virtual void run(EventHandler& handler) = 0;  // until no event remains; at least one must have been started
};

}  // namespace panpipe::sim
