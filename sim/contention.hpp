// Records shared use of resources and its cost while a plan is simulated, for every back end.
#pragma once

#include <cstdint>
#include <vector>

#include "base/quantity.hpp"
#include "sim/flow_backend.hpp"

namespace panpipe::sim {

struct ResourceUse {
  double busy = 0, shared = 0;  // ticks with at least one, at least two flows
  double lost = 0;              // ticks: sum over flows with this bottleneck of actual time - time alone
  double bytes = 0;             // carried by one real resource
  double flows = 0;             // most at the same time
};

class ContentionLog {
 public:
  explicit ContentionLog(const Network& network);  // must outlive the log

  // Returns a slot that identifies the flow until it ends. `alone`: its time on idle links.
  std::int32_t begin(std::int32_t route, double bytes, Ticks alone, Token token, Ticks now);
  Token end(std::int32_t slot, Ticks now);

  const std::vector<ResourceUse>& uses() const { return uses_; }

 private:
  struct Load {
    double since = 0;  // ticks of the last change
    std::int64_t uses = 0;
    std::int32_t flows = 0;
    double crowding = 0;  // integral over time of uses / capacity; it grows at the inverse of a fair share
  };
  struct Flow {
    Token token = 0;
    std::int32_t route = -1;
    double start = 0, alone = 0, bytes = 0;
  };
  void advance(std::size_t resource, double now);

  const Network* network_;
  std::vector<Load> loads_;
  std::vector<ResourceUse> uses_;
  std::vector<Flow> flows_;
  std::vector<double> crowding_at_start_;  // [slot][hop]
  std::size_t most_hops_ = 0;
  std::vector<std::int32_t> free_;
};

}  // namespace panpipe::sim
