// What closed forms know of the cluster: classes of routes between ranks, what a hand-over costs on each, and what the replicas
// of a rank pay for adding up their gradients.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/cost/occupancy.hpp"
#include "planner/auto/configuration.hpp"

namespace panpipe::planner {

// Device of a position; without a stated placement the two are equal.
class Positions {
 public:
  explicit Positions(const Scenario& scenario) : placement_(scenario.placement) {}
  int device(std::int64_t position) const {
    return placement_ ? (*placement_)[static_cast<std::size_t>(position)] : static_cast<int>(position);
  }
  bool stated() const { return placement_.has_value(); }

 private:
  std::optional<std::vector<int>> placement_;
};

// Routes between positions, sorted into classes of equal latency and bandwidth. Not for several threads at once.
class RouteClasses {
 public:
  explicit RouteClasses(const Scenario& scenario)
      : cluster_(scenario.cluster), profile_(scenario.profile.get()), positions_(scenario) {}
  struct Hop {
    int forward = -1, backward = -1;  // classes; -1 = the two are one device
  };
  // From rank r to r + 1, positions `stride` apart, for r = 0 .. ranks - 2, and last the way from the last rank to the first.
  const std::vector<Hop>& chain(std::int64_t stride, int ranks);
  // A pair of devices whose route is of the class.
  std::pair<int, int> example(int route_class) const { return examples_[static_cast<std::size_t>(route_class)]; }
  int classes() const { return static_cast<int>(examples_.size()); }
  const Positions& positions() const { return positions_; }

 private:
  int class_of(int from, int to);
  const Cluster& cluster_;
  const Profile* profile_;  // measured transfers go before routes
  Positions positions_;
  std::vector<std::pair<int, int>> examples_;
  std::vector<Route> routes_;
  std::map<std::pair<std::int64_t, int>, std::vector<Hop>> chains_;
};

// Time of a hand-over by class and size, for one tensor and one data degree: their ranks share a node's way out.
class HandOvers {
 public:
  HandOvers(const CostModel& model, const RouteClasses& routes, const Degrees& degrees)
      : model_(model), routes_(routes), degrees_(degrees) {}
  // For the hand-overs of a plan on these devices; they must outlive the calls that follow.
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
  double network_ = 0;  // the most that any sender gets of it
  std::vector<Known> known_;
};

// Lower bounds of a collective's time over the replicas of a rank, from sizes at which the cost model was asked. Its time is a
// least of straight lines (one per algorithm and protocol), which no chord exceeds; only a tree's line bends, and a chord lies up
// to 3.2 % above it (AllReduce.ChordsHardlyExceedIt). A measured time is no less than that of the next smaller size.
class Reductions {
 public:
  Reductions() = default;
  Reductions(const CostModel& model, const Occupancy& occupancy, const std::vector<std::vector<int>>& groups);
  double all_reduce(double bytes) const { return between(all_reduce_, bytes) * (trees_ ? kUnderChord : 1); }
  double scatter(double bytes) const { return between(scatter_, bytes); }  // reduce-scatter, or all-gather

 private:
  static constexpr std::size_t kPoints = 7;
  static const std::array<double, kPoints>& sizes();
  static constexpr double kUnderChord = 0.96;
  double between(const std::array<double, kPoints>& times, double bytes) const;
  bool measured_ = false, trees_ = false;
  std::array<double, kPoints> all_reduce_{}, scatter_{};
};

// The replicas of a rank, for each way in which such groups can lie on the nodes: rank r's first one at position r * step, each
// next one `stride` further.
std::vector<std::vector<int>> data_groups(int data, std::int64_t stride, std::int64_t step, std::int64_t ranks,
                                          const Positions& positions, const Cluster& cluster, const Occupancy& occupancy);

}  // namespace panpipe::planner
