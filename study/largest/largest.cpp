#include "study/largest/largest.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "base/option_fault.hpp"
#include "costmodel/timeline/memory_room.hpp"

namespace panpipe::study {
namespace {

bool fits(const TriedValue& tried) { return tried.refused.empty() && tried.need <= tried.limit; }
bool fits_surely(const TriedValue& tried) { return fits(tried) && fits_how(tried.share()) == "surely"; }
bool fits_probably(const TriedValue& tried) { return fits(tried) && fits_how(tried.share()) != "hardly"; }

class Boundary {
 public:
  Boundary(const Ladder& ladder, const std::function<TriedValue(int)>& try_value) : ladder_(ladder), try_value_(try_value) {}

  // The last index that is `good`, next to one that is not (or to the end); 0: none. Begins at `start`.
  template <class Good>
  int last(int start, Good good) {
    int low = 0, high = ladder_.count() + 1;
    for (const auto& [index, tried] : tried_) {
      if (!good(tried)) {
        high = index;
        break;
      }
      low = index;
    }
    while (high - low > 1) {
      const bool open = high > ladder_.count();
      const int probe = !open      ? low + (high - low) / 2
                        : low == 0 ? std::clamp(start, 1, ladder_.count())
                                   : static_cast<int>(std::min<long long>(2LL * low, ladder_.count()));
      (good(at(probe)) ? low : high) = probe;
    }
    return low;
  }

  const TriedValue& at(int index) {
    const auto found = tried_.find(index);
    return found != tried_.end() ? found->second : tried_.emplace(index, try_value_(ladder_.value(index))).first->second;
  }

 private:
  const Ladder& ladder_;
  const std::function<TriedValue(int)>& try_value_;
  std::map<int, TriedValue> tried_;
};

Bytes bytes_of(const std::vector<MemoryPart>& parts, MemoryUse use) {
  Bytes sum{0};
  for (const MemoryPart& part : parts)
    if (part.use == use) sum += part.bytes;
  return sum;
}

}  // namespace

LargestOf largest_of_named(const std::string& name) {
  for (const LargestOf of : {LargestOf::Micro, LargestOf::Sequence})
    if (name == name_of(of)) return of;
  throw unknown_choice("largest", name, {name_of(LargestOf::Micro), name_of(LargestOf::Sequence)});
}

const char* name_of(LargestOf of) { return of == LargestOf::Micro ? "micro" : "sequence"; }

double TriedValue::share() const { return limit > Bytes(0) ? need / limit : std::numeric_limits<double>::infinity(); }

Ladder Ladder::multiples(int step, int most) {
  Ladder ladder;
  ladder.step_ = step;
  ladder.most_ = most;
  return ladder;
}

Ladder Ladder::divisors(int number) {
  Ladder ladder;
  ladder.step_ = 0;
  for (int divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) ladder.steps_.push_back(divisor);
  return ladder;
}

int Ladder::index_of(int value) const {
  if (step_ > 0) return std::min(value, most_) / step_;
  return static_cast<int>(std::upper_bound(steps_.begin(), steps_.end(), value) - steps_.begin());
}

std::optional<MemoryPart> LargestFit::ends_by() const {
  if (!next || !next->refused.empty()) return std::nullopt;
  std::optional<MemoryPart> most;
  for (const MemoryPart& part : next->parts) {
    const Bytes grown = part.bytes - (largest ? bytes_of(largest->parts, part.use) : Bytes(0));
    if (!most || grown > most->bytes) most = MemoryPart{part.use, grown};
  }
  return most;
}

bool LargestAnswer::any_fits() const {
  return std::any_of(devices.begin(), devices.end(), [](const LargestFit& fit) { return fit.largest.has_value(); });
}

LargestFit find_largest(const Ladder& ladder, int stated, bool margins, const std::function<TriedValue(int value)>& try_value) {
  Boundary boundary(ladder, try_value);
  LargestFit fit;
  const int start = ladder.index_of(stated);
  const int largest = boundary.last(start, fits);
  if (largest > 0) fit.largest = boundary.at(largest);
  if (largest < ladder.count()) fit.next = boundary.at(largest + 1);
  if (margins) {
    const auto value_at = [&](int index) { return index > 0 ? ladder.value(index) : 0; };
    fit.probably = value_at(boundary.last(largest, fits_probably));
    fit.surely = value_at(boundary.last(largest, fits_surely));
  }
  if (stated > 0) fit.stated = start > 0 && ladder.value(start) == stated ? boundary.at(start) : try_value(stated);
  return fit;
}

}  // namespace panpipe::study
