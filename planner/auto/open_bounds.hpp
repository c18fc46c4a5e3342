// The order in which `--method auto` looks at configurations: rounds of closed forms, then the best bounds, sharpened by a replay
// of their orders and estimated, until none is left below the best plan. Internal to this folder.
#pragma once

#include <map>
#include <vector>

#include "planner/auto/plans_found.hpp"

namespace panpipe::planner {

class OpenBounds {
 public:
  explicit OpenBounds(PlansFound& plans) : common_(plans.common()), space_(common_.space), plans_(plans), enumeration_(common_) {}

  void sweep_all();
  // Best first: bounds are sharpened by replay, then the first are estimated, until nothing open can be better.
  void refine();
  // Prices what was left out because it is unlikely to be better, now that a good plan is known: the most promising first, as far
  // as the limit goes.
  void revisit();

  SearchState state() const;  // without what is proved
  const Tally& tally() const { return enumeration_.tally(); }
  std::vector<Priced> take_tight() { return enumeration_.take_tight(); }
  std::vector<Priced> take_crammed() { return enumeration_.take_crammed(); }
  std::size_t open() const { return open_.size(); }
  std::size_t left_out() const { return left_out_.size(); }
  double least_open() const;  // no configuration with a bound that was not estimated takes less, seconds

  // All configurations with a bound below the limit, the best bounds sharpened; those for which there is no room take at least
  // `dropped` seconds.
  std::vector<Priced> all_below(double limit, double& dropped);

 private:
  enum class End : std::uint8_t { No, Likely, Surely };  // whether larger microbatches of a shape are of use: end_of()
  // A lower bound of a shape's configurations with a microbatch.
  struct LeastBound {
    int micro = 0;
    double bound = kInfinite;
  };
  bool sweep(int micro, const std::vector<bool>& wholes, bool by_shape, std::map<Degrees, End>& ended);
  End end_of(const Tally& tally, const LeastBound& before, int micro) const;
  void note_least(const Degrees& shape, const Tally& tally);
  void merge(std::vector<Priced> found);
  void estimate_first(std::size_t count);
  void drop_slow();
  void sharpen();
  void report();

  Common& common_;
  const Space& space_;
  PlansFound& plans_;
  Enumeration enumeration_;
  std::size_t refined_ = 0;
  std::vector<Priced> open_;                   // best bound first
  std::vector<Degrees> left_out_;              // with a microbatch of which no bound is known
  std::map<Degrees, double> least_bounds_;     // of what was priced
  std::map<Degrees, LeastBound> last_bounds_;  // with the last microbatch, for shapes of any
};

}  // namespace panpipe::planner
