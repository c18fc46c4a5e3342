// The largest microbatch, or the longest sequence, with which a step fits its devices. The caller supplies the step at a value.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/text/text_style.hpp"
#include "costmodel/lowering/memory_part.hpp"

namespace panpipe::study {

enum class LargestOf : std::uint8_t { Micro, Sequence };
LargestOf largest_of_named(const std::string& name);  // "micro", "sequence"; InputError for others
const char* name_of(LargestOf of);

// The step at a value, or why there is none. Bytes of the fullest device.
struct TriedValue {
  int value = 0;
  Bytes need{0}, limit{0};  // both 0 without a step
  std::vector<MemoryPart> parts;
  int samples = 0;      // of a step, over all replicas
  std::string plan;     // of a search: one line
  std::string refused;  // why there is no such step, or no plan; else empty

  // The need over the limit; infinite without a step.
  double share() const;
};

// The values that are tried: ascending, 1 to `count`; either the divisors of a number, or multiples of a step.
class Ladder {
 public:
  static Ladder multiples(int step, int most);
  static Ladder divisors(int number);

  int count() const { return steps_.empty() ? most_ / step_ : static_cast<int>(steps_.size()); }
  int value(int index) const { return steps_.empty() ? index * step_ : steps_[static_cast<std::size_t>(index) - 1]; }
  int index_of(int value) const;      // of the largest that is not above; 0: all are
  int step() const { return step_; }  // 0: divisors

 private:
  int step_ = 1, most_ = 0;
  std::vector<int> steps_;
};

// What a device type can hold.
struct LargestFit {
  std::string device;                // its type
  std::optional<TriedValue> stated;  // at the scenario's own value
  std::optional<TriedValue> largest,
      next;  // the largest that fits; the next value, which does not; none: nothing above was tried
  // The largest that fit with room for twice, and once, the error of the memory model (fits_how); 0: none. Not of searches, whose
  // plans fill what there is.
  std::optional<int> surely, probably;

  // The part of memory that grows most from `largest` to `next`, with its growth; where nothing fits, the largest part of `next`.
  // nullopt where no such step exists.
  std::optional<MemoryPart> ends_by() const;
};

struct LargestAnswer {
  LargestOf of = LargestOf::Micro;
  Ladder ladder;
  bool keeps_batch = false;  // the samples of a step stay; else the microbatches of a step
  bool searched = false;     // the best plan of each value
  int microbatches = 0;      // of a step of a replica, which stay unless `keeps_batch`
  int stated = 0;            // the scenario's own value; 0: it is left to the search
  std::vector<LargestFit> devices;

  bool any_fits() const;
};

// Finds the boundary between values that fit and values that do not, from `stated` on by doubling and halving: O(log values)
// calls. `stated` need not be a step of the ladder. With `margins` also the values that fit with a margin.
LargestFit find_largest(const Ladder& ladder, int stated, bool margins, const std::function<TriedValue(int value)>& try_value);

std::string to_table(const LargestAnswer& answer, const TextStyle& style);
std::string to_json(const LargestAnswer& answer);  // panpipe-largest/1

}  // namespace panpipe::study
