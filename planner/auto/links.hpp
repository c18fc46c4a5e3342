// The cluster as closed forms see it: classes of routes between ranks, the cost of a hand-over on each, and the cost of reducing
// gradients over the replicas of a rank.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/cost/occupancy.hpp"
#include "costmodel/plan/replica_traffic.hpp"
#include "planner/auto/configuration.hpp"

namespace panpipe::planner {

// The device of a position. Without a stated placement the two numbers are equal.
class Positions {
 public:
  explicit Positions(const Scenario& scenario) : placement_(scenario.placement) {}
  int device(std::int64_t position) const { return placement_ ? (*placement_)[position] : static_cast<int>(position); }
  bool stated() const { return placement_.has_value(); }

 private:
  std::optional<std::vector<int>> placement_;
};

// Routes between positions, grouped into classes of equal latency and bandwidth. Not thread-safe.
class RouteClasses {
 public:
  explicit RouteClasses(const Scenario& scenario)
      : cluster_(scenario.cluster), profile_(scenario.profile.get()), positions_(scenario) {}
  struct Hop {
    int forward = -1, backward = -1;  // classes; -1 = both ends are on one device
  };
  // Hops from rank r to r + 1 at positions `stride` apart, for r = 0 .. ranks - 2, then the hop from the last rank to the first.
  const std::vector<Hop>& chain(std::int64_t stride, int ranks);
  // A pair of devices whose route belongs to the class.
  std::pair<int, int> example(int route_class) const { return examples_[route_class]; }
  int classes() const { return static_cast<int>(examples_.size()); }
  const Positions& positions() const { return positions_; }

 private:
  int class_of(int from, int to);
  const Cluster& cluster_;
  const Profile* profile_;  // measured transfers take precedence over routes
  Positions positions_;
  std::vector<std::pair<int, int>> examples_;
  std::vector<Route> routes_;
  std::map<std::pair<std::int64_t, int>, std::vector<Hop>> chains_;
};

// Seconds of a hand-over by class and size, for one tensor and one data degree, whose ranks share a node's network link.
class HandOvers {
 public:
  HandOvers(const CostModel& model, const RouteClasses& routes, const Degrees& degrees)
      : model_(model), routes_(routes), degrees_(degrees) {}
  // Sets the devices of the plan. `occupancy` must outlive the calls that follow.
  void use(const Occupancy& occupancy);
  double time(int route_class, std::int64_t bytes);

 private:
  struct Known {
    int route_class;
    std::int64_t bytes;
    double network;
    double time;
  };
  const CostModel& model_;
  const RouteClasses& routes_;
  Degrees degrees_;
  const Occupancy* occupancy_ = nullptr;
  double network_ = 0;  // the largest share of any sender
  std::vector<Known> known_;
};

// Lower bounds of a collective's time over the replicas of a rank, interpolated between sizes queried from the cost model. Its
// time is a minimum of straight lines (one per algorithm and protocol), which no chord exceeds. Only a tree's line bends; its
// chord lies up to 3.2 % above it (AllReduce.ChordsHardlyExceedIt). For a measured time, the next smaller size is the bound.
class Reductions {
 public:
  Reductions() = default;
  Reductions(const CostModel& model, const Occupancy& occupancy, const std::vector<std::vector<int>>& groups);
  double all_reduce(double bytes) const { return between(all_reduce_, bytes) * (trees_ ? kUnderChord : 1); }
  double scatter(double bytes) const { return between(scatter_, bytes); }  // reduce-scatter, or all-gather
  // The time of exchanges one after another. Exchanges in groups of some of the replicas are not priced here: they count as 0,
  // which is a lower bound.
  double time(std::span<const Exchanged> all) const;

 private:
  static constexpr std::size_t kPoints = 7;
  static const std::array<double, kPoints>& sizes();
  static constexpr double kUnderChord = 0.96;
  double between(const std::array<double, kPoints>& times, double bytes) const;
  bool measured_ = false, trees_ = false;
  std::array<double, kPoints> all_reduce_{}, scatter_{};
};

// The replicas of a rank, one group for each way in which they lie on the nodes. Rank r's first replica is at position r * step,
// each next one `stride` further.
std::vector<std::vector<int>> data_groups(int data, std::int64_t stride, std::int64_t step, std::int64_t ranks,
                                          const Positions& positions, const Cluster& cluster, const Occupancy& occupancy);

}  // namespace panpipe::planner
