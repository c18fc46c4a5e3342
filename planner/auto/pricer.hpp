// The inputs of a configuration's closed forms, computed once and kept: the workload in its shapes, routes, hand-overs,
// reductions.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/auto/closed_form.hpp"
#include "planner/auto/space.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {

// A workload in one shape, with its costs; the sums are of the shortest microbatches, so that they bound those of all.
struct Variant {
  Variant(const Scenario& scenario, const Degrees& degrees, const std::vector<Calibration>& calibrations, BalancedCuts& balanced);
  Variant(const Variant&) = delete;  // its parts refer to each other
  Workload workload;
  CostModel model;
  UnitSums sums;
};

// What all parts of a search share. Thread-safe.
class Common {
 public:
  Common(const Experiment& experiment, const Space& space, SearchOptions options = {});
  const Experiment& experiment;
  const Space& space;
  const SearchOptions options;
  bool stopped() const { return options.stopped(); }
  const SearchFacts facts;
  const Reductions& reductions(const Configuration& configuration);
  BalancedCuts cuts;
  OrderBook orders;
  std::vector<Calibration> calibrations;  // read once, one for each of the cluster's types
  bool by_stage = false;                  // recompute may differ from stage to stage
  double limit_with_room = 0;             // bytes of a device, less the error of the memory model
  double spare() const { return static_cast<double>(facts.limit) - limit_with_room; }  // that error, in bytes
  bool crowded = false;  // ranks may outnumber a profile's cores, so pass times depend on all degrees

 private:
  std::mutex lock_;
  std::map<std::tuple<int, int, int, int, int>, std::unique_ptr<Reductions>> reductions_;
};

// Closed forms for one variant. For one thread. Throws InputError if the workload cannot be cut so.
class Pricer {
 public:
  Pricer(Common& common, const Degrees& shape);
  Pricer(const Pricer&) = delete;

  const UnitSums& sums() const { return variant_.sums; }
  PlacedStages place_stages(Recompute mode, int ranks, int chunks, StagePlacement placement) {
    return PlacedStages(variant_.sums.table(mode, ranks * chunks), variant_.sums.tied(), common_.facts.memory, ranks, chunks,
                        placement);
  }
  const PerParameter& per_parameter(int zero, int data);
  // Prepares for all ZeRO stages of the space.
  void prepare(StageTraffic& traffic, const PlacedStages& placed, const Configuration& configuration);

 private:
  const Occupancy& occupancy_of(const Configuration& configuration);
  double tied_time(const PlacedStages& placed, const Configuration& configuration);

  Common& common_;
  const Degrees shape_;  // of the variant
  Variant variant_;
  RouteClasses routes_;
  std::map<std::pair<int, int>, std::unique_ptr<PerParameter>> per_parameter_;
  std::map<int, HandOvers> hand_overs_;  // by data degree
  std::map<std::tuple<int, int, double>, double> pair_times_;
  int occupied_by_ = 0;                                         // pipeline length
  std::map<std::pair<int, AxisOrder>, Occupancy> occupancies_;  // by data degree and numbering
};

}  // namespace panpipe::planner
