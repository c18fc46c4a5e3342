#include "costmodel/workload/pack_samples.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "base/index.hpp"

namespace panpipe {
namespace {

using Shapes = std::vector<SequenceShape>;

// Descending lengths.
Shapes first_fit(const std::vector<int>& lengths, int tokens) {
  Shapes shapes;
  std::vector<int> filled;
  for (const int length : lengths) {
    std::size_t k = 0;
    while (k < shapes.size() && filled[k] + length > tokens) ++k;
    if (k == shapes.size()) {
      shapes.emplace_back();
      filled.push_back(0);
    }
    shapes[k].samples.push_back(length);
    filled[k] += length;
  }
  return shapes;
}

// A sample of the fullest sequence that has several goes into one of its own.
bool add_sequence(Shapes& shapes) {
  const auto more = [](const SequenceShape& a, const SequenceShape& b) {
    return std::pair(a.samples.size() > 1, a.tokens()) < std::pair(b.samples.size() > 1, b.tokens());
  };
  const auto fullest = std::max_element(shapes.begin(), shapes.end(), more);
  if (fullest == shapes.end() || fullest->samples.size() < 2) return false;
  const int sample = fullest->samples.back();
  fullest->samples.pop_back();
  shapes.push_back({{sample}});
  return true;
}

double heaviest(const Shapes& shapes, const SequenceWork& work) {
  double most = 0;
  for (const SequenceShape& shape : shapes) most = std::max(most, work.of(shape));
  return most;
}

// The least heaviest of so many runs of neighbours: least[k][n] over the first n samples in k runs.
Shapes in_runs(const std::vector<int>& lengths, int tokens, const SequenceWork& work, std::size_t sequences) {
  const std::size_t count = lengths.size();
  const double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> least(sequences + 1, std::vector<double>(count + 1, never));
  std::vector<std::vector<std::size_t>> from(sequences + 1, std::vector<std::size_t>(count + 1));
  least[0][0] = 0;
  for (std::size_t k = 1; k <= sequences; ++k)
    for (std::size_t end = k; end <= count; ++end) {
      std::int64_t filled = 0;
      double own = 0;
      for (std::size_t first = end; first-- > k - 1;) {
        filled += lengths[first];
        if (filled > tokens) break;
        own += work.of({{lengths[first]}});
        if (const double all = std::max(least[k - 1][first], own); all < least[k][end]) least[k][end] = all, from[k][end] = first;
      }
    }
  Shapes shapes;
  if (least[sequences][count] == never) return shapes;
  for (std::size_t k = sequences, end = count; k > 0; --k) {
    const std::size_t first = from[k][end];
    shapes.push_back(
        {{lengths.begin() + static_cast<std::ptrdiff_t>(first), lengths.begin() + static_cast<std::ptrdiff_t>(end)}});
    end = first;
  }
  std::reverse(shapes.begin(), shapes.end());
  return shapes;
}

class Balance {
 public:
  Balance(Shapes& shapes, int tokens, const SequenceWork& work) : shapes_(shapes), tokens_(tokens), work_(work) {}

  // Of the heaviest sequence that another can relieve: it becomes lighter, and the other one not as heavy as it was. False if
  // none can.
  bool improve() {
    std::vector<std::size_t> order(shapes_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return work_.of(shapes_[a]) > work_.of(shapes_[b]); });
    return std::any_of(order.begin(), order.end(), [&](std::size_t heavy) { return relieve(heavy); });
  }

 private:
  static constexpr std::size_t kNothing = std::numeric_limits<std::size_t>::max();
  struct Exchange {
    double heavier = 0;  // of both sequences, afterwards
    std::size_t to = kNothing, give = 0, take = 0;
  };

  bool relieve(std::size_t heavy) {
    Exchange best{.heavier = work_.of(shapes_[heavy]) * (1 - 1e-9)};
    for (std::size_t to = 0; to < shapes_.size(); ++to) {
      if (to == heavy) continue;
      for (std::size_t give = 0; give < shapes_[heavy].samples.size(); ++give) {
        if (shapes_[heavy].samples.size() > 1) consider(heavy, to, give, kNothing, best);
        for (std::size_t take = 0; take < shapes_[to].samples.size(); ++take) consider(heavy, to, give, take, best);
      }
    }
    if (best.to == kNothing) return false;
    exchange(shapes_[heavy], shapes_[best.to], best.give, best.take);
    return true;
  }

  static void exchange(SequenceShape& heavy, SequenceShape& other, std::size_t give, std::size_t take) {
    if (take != kNothing) return std::swap(heavy.samples[give], other.samples[take]);
    other.samples.push_back(heavy.samples[give]);
    heavy.samples.erase(heavy.samples.begin() + static_cast<std::ptrdiff_t>(give));
  }

  void consider(std::size_t heavy, std::size_t to, std::size_t give, std::size_t take, Exchange& best) const {
    const int given = shapes_[heavy].samples[give], taken = take == kNothing ? 0 : shapes_[to].samples[take];
    if (given <= taken || shapes_[to].tokens() + given - taken > tokens_) return;
    const double moved = work_.of({{given}}) - work_.of({{taken}});
    const double heavier = std::max(work_.of(shapes_[heavy]) - moved, work_.of(shapes_[to]) + moved);
    if (heavier < best.heavier) best = {heavier, to, give, take};
  }

  Shapes& shapes_;
  int tokens_;
  const SequenceWork& work_;
};

// As many for each replica, whose sums of work are about equal: the heaviest first, to the replica with the least.
Shapes dealt(Shapes shapes, std::size_t replicas, const SequenceWork& work) {
  if (replicas == 1) return shapes;
  std::stable_sort(shapes.begin(), shapes.end(),
                   [&](const SequenceShape& a, const SequenceShape& b) { return work.of(a) > work.of(b); });
  const std::size_t each = shapes.size() / replicas;
  std::vector<Shapes> own(replicas);
  std::vector<double> sums(replicas);
  for (SequenceShape& shape : shapes) {
    std::size_t least = replicas;
    for (std::size_t r = 0; r < replicas; ++r)
      if (own[r].size() < each && (least == replicas || sums[r] < sums[least])) least = r;
    sums[least] += work.of(shape);
    own[least].push_back(std::move(shape));
  }
  Shapes all;
  for (Shapes& one : own) all.insert(all.end(), one.begin(), one.end());
  return all;
}

Shapes pack_whole(const std::vector<int>& lengths, int tokens, Packing packing, const SequenceWork& work, std::size_t wanted) {
  Shapes first = first_fit(lengths, tokens);
  while (first.size() < wanted)
    if (!add_sequence(first)) return {};
  const bool fits = first.size() == wanted;
  if (packing == Packing::FirstFit) return fits ? first : Shapes{};
  Shapes runs = in_runs(lengths, tokens, work, wanted);
  if (packing == Packing::Sorted) return runs;
  if (!fits && runs.empty()) return {};
  Shapes best = !fits || (!runs.empty() && heaviest(runs, work) < heaviest(first, work)) ? std::move(runs) : std::move(first);
  Balance balance(best, tokens, work);
  constexpr int kMostExchanges = 10000;
  for (int k = 0; k < kMostExchanges && balance.improve(); ++k) continue;
  return best;
}

}  // namespace

std::vector<SequenceShape> pack_samples(std::vector<int> lengths, int tokens, Packing packing, const SequenceWork& work,
                                        int sequences, int replicas) {
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  const std::size_t fewest = first_fit(lengths, tokens).size(), data = at(replicas);
  return dealt(pack_whole(lengths, tokens, packing, work, sequences > 0 ? at(sequences) : (fewest + data - 1) / data * data),
               data, work);
}

}  // namespace panpipe
