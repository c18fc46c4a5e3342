// Orders that closed forms do not know: estimated one by one, and the fastest simulated. Nothing is proved.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/planner.hpp"

namespace panpipe::planner {

class EstimatedOrders {
 public:
  // Estimates the variant's scenario with this order and recompute. Memory that does not suffice, and orders that do not exist,
  // are counted. False: it does not fit, or does not exist.
  bool estimate(const Experiment& variant, const ScheduleRequest& schedule, Recompute recompute, int stages_per_rank);

  std::int64_t estimated() const { return estimated_; }
  std::int64_t without_room() const { return without_room_; }

  // The fastest plans that fit, best first. `kind`: what the orders have in common, for a note.
  Answer answer(const SearchOptions& options, const std::string& kind) const;

 private:
  struct Found {
    double step = 0;
    Scenario scenario;
    std::shared_ptr<const Plan> plan;
  };
  static Candidate candidate_of(const Found& found, const SearchOptions& options);

  std::vector<Found> fit_;  // the fastest
  std::int64_t estimated_ = 0, without_room_ = 0;
  double least_memory_ = 0;  // of those without room
  std::string fault_;        // of the first that does not exist
};

}  // namespace panpipe::planner
