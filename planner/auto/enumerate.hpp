// Evaluates every configuration of the space in closed form. Keeps those that fit, best bound first, and counts the others by
// reason.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "planner/auto/pricer.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Priced {
  double bound = 0;   // seconds
  double memory = 0;  // bytes
  Configuration configuration;
  bool replayed = false;  // the bound is from a replay of the order, not from the closed form

  bool operator<(const Priced& other) const {
    return bound != other.bound ? bound < other.bound : configuration < other.configuration;
  }
};

struct Tally {
  std::int64_t evaluated = 0;      // step time and memory computed
  std::int64_t without_room = 0;   // of these: above the memory limit
  std::int64_t too_slow = 0;       // of these: bound above a known plan
  std::int64_t skipped_slow = 0;   // not evaluated: their work alone takes longer than a known plan
  std::int64_t skipped_shape = 0;  // not evaluated: the degree does not divide the model
  double least_memory = 0;         // of all that do not fit, bytes
  double least_bound = kInfinite;  // seconds: of all that fit, including those whose work is too slow
  double least_work = 0;           // seconds: work alone, divided evenly, with any cuts and in any order; 0 = none seen
  Configuration least_memory_of;
  std::string shape_reason;

  void add(const Tally& other);
};

class Enumeration {
 public:
  explicit Enumeration(Common& common) : common_(common) {}

  struct Round {
    explicit Round(std::vector<Degrees> of) : shapes(std::move(of)), pricers(shapes.size()) {}
    std::vector<Degrees> shapes;
    std::vector<std::unique_ptr<Pricer>> pricers;
  };
  // Evaluates the configurations of these shapes, over all devices (`whole`) or fewer, and keeps those with a bound below
  // `incumbent` (seconds). The shapes' pricers are kept for a second run (`again`) with the other devices. A tally per shape.
  std::vector<Tally> run_round(Round& round, bool whole, bool again, double incumbent);

  std::vector<Priced> take() { return taken(kept_); }  // kept so far, best first
  // The best bounds of those that do not fit with balanced cuts, though other cuts may make room: best first.
  std::vector<Priced> take_tight() { return taken(tight_); }
  // The same of those that fit with recompute in some blocks, by what they are expected to take then; their recompute is theirs.
  std::vector<Priced> take_crammed() { return taken(crammed_); }
  const Tally& tally() const { return tally_; }
  double dropped() const { return dropped_; }  // least bound of those dropped for lack of space; infinite if none was

 private:
  static std::vector<Priced> taken(std::vector<Priced>& kept);
  void keep(const std::vector<Priced>& found);

  Common& common_;
  Tally tally_;
  std::vector<Priced> kept_, tight_, crammed_;
  double dropped_ = kInfinite;
};

}  // namespace panpipe::planner
