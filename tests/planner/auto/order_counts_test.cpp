// The counts that planners take from the orders of the families: against closed forms and against whole orders, of every family.
#include "planner/auto/order_counts.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace panpipe::planner {
namespace {

template <class Use>
void for_forms(Use use) {
  for (const FamilyForm& form : forms())
    if (form.placement != StagePlacement::Opaque)
      for (int v = form.open_chunks() ? 2 : form.chunks; v <= (form.open_chunks() ? 4 : form.chunks); ++v) use(form, v);
}

Schedule order_of(const FamilyForm& form, int p, int v, int m) { return make_schedule(form.name, p, m, form.options(v)); }

// However many microbatches there are: as if the whole order had been walked.
TEST(OrderCounts, AreThoseOfTheWholeOrder) {
  int continued = 0;
  for_forms([&](const FamilyForm& form, int v) {
    OrderBook book;
    for (const int p : {1, 2, 3, 4, 5, 8})
      for (int m = 1; m <= 11 * p; ++m) {
        if (!form.exists(p, v, m)) continue;
        ASSERT_EQ(book.find(form, p, v, m), counts_of(order_of(form, p, v, m))) << form.name << " " << p << " " << v << " " << m;
        continued += m > 6 * p ? 1 : 0;
      }
  });
  EXPECT_GT(continued, 1000);
}

// 60 = 204 mod 16: turns of 17 microbatches, which no smaller number of the same remainder has. And many, of odd remainders.
TEST(OrderCounts, AreThoseOfTheWholeOrderWhereItsTurnsDependOnTheMicrobatches) {
  OrderBook book;
  for (const auto& [name, p, m] : {std::tuple("interleaved-1f1b", 16, 204), std::tuple("interleaved-zero-bubble", 16, 204),
                                   std::tuple("gis-h", 7, 397), std::tuple("kfkb", 9, 401), std::tuple("hanayo", 6, 389)}) {
    const FamilyForm& form = forms()[form_named(name)];
    const int v = form.open_chunks() ? 2 : form.chunks;
    EXPECT_EQ(book.find(form, p, v, m), counts_of(order_of(form, p, v, m))) << name;
  }
}

// Activations in flight and weight gradients at the end as in the papers, of families with one stage a rank.
TEST(OrderCounts, InClosedForm) {
  struct Expected {
    const char* family;
    int (*in_flight)(int p, int m, int r);
    int (*weights_after)(int p, int m, int r);
  };
  const auto none = [](int, int, int) { return 0; };
  const Expected all[] = {
      {"gpipe", [](int, int m, int) { return m; }, none},
      {"1f1b", [](int p, int m, int r) { return std::min(m, p - r); }, none},
      {"kfkb", [](int p, int m, int r) { return std::min(m, 2 * (p - r)); }, none},
      // `depth` (p-1-r) forwards ahead and one; weight gradients `depth` r behind, and that of the last input gradient.
      {"zb-h1", [](int p, int m, int r) { return std::min(m, p - r); }, [](int, int m, int r) { return std::min(m, r + 1); }},
      {"zb-h2", [](int p, int m, int r) { return std::min(m, 2 * (p - 1 - r) + 1); },
       [](int, int m, int r) { return std::min(m, 2 * r + 1); }}};
  OrderBook book;
  for (const Expected& expected : all) {
    const FamilyForm& form = forms()[form_named(expected.family)];
    for (int p = 1; p <= 7; ++p)
      for (const int m : {1, 2, 3, 5, 8, 13, 34, 89, 90}) {
        const OrderCounts& counts = book.find(form, p, 1, m);
        for (int r = 0; r < p; ++r) {
          EXPECT_EQ(counts[r].in_flight, expected.in_flight(p, m, r)) << form.name << p << m << r;
          EXPECT_EQ(counts[r].weights_after, expected.weights_after(p, m, r)) << form.name << p << m;
        }
      }
  }
}

// A rank of a V of four under zb-v: 2p-r-1 forwards of its first stage and r+1 of its second, then a backward of the second.
TEST(OrderCounts, OfAV) {
  const FamilyForm& form = forms()[form_named("zb-v")];
  OrderBook book;
  const OrderCounts& counts = book.find(form, 4, 2, 100);
  for (int r = 0; r < 4; ++r) {
    const Moment fullest{{7 - r, r + 1}, 0, 1, 1, false};
    EXPECT_THAT(counts[r].moments, ::testing::Contains(fullest)) << r;
  }
}

// Passes alone: what is held before and behind each of them can be counted without walking.
bool occurs(const Moment& moment, const std::vector<Action>& row, int ranks) {
  const auto before = [&](std::size_t end, ActionKind kind, int chunk) {
    return static_cast<int>(std::count_if(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(end), [&](const Action& action) {
      return action.kind == kind && (chunk < 0 || action.stage / ranks == chunk);
    }));
  };
  for (std::size_t end = 1; end <= row.size(); ++end) {
    bool same = before(end, ActionKind::I, -1) - before(end, ActionKind::W, -1) == moment.weights;
    for (int c = 0; same && c < static_cast<int>(moment.held.size()); ++c)
      same = before(end, ActionKind::F, c) - before(end, ActionKind::B, c) - before(end, ActionKind::I, c) == moment.held[c];
    if (same && moment.forward >= 0) same = row[end - 1].kind == ActionKind::F && row[end - 1].stage / ranks == moment.forward;
    if (same && moment.backward >= 0)
      same = end < row.size() && row[end].kind == (moment.whole ? ActionKind::B : ActionKind::I) &&
             row[end].stage / ranks == moment.backward;
    if (same) return true;
  }
  return false;
}

TEST(OrderCounts, EveryMomentOccurs) {
  int found = 0;
  for_forms([&](const FamilyForm& form, int v) {
    for (const auto& [p, m] : {std::pair(2, 7), std::pair(3, 12), std::pair(4, 12)}) {
      if (!form.exists(p, v, m)) continue;
      const Schedule order = order_of(form, p, v, m);
      const OrderCounts counts = counts_of(order);
      for (int r = 0; r < p; ++r)
        for (const Moment& moment : counts[r].moments) {
          EXPECT_TRUE(occurs(moment, order.order[r], p)) << form.name << " " << p << " " << m << " " << r;
          ++found;
        }
    }
  });
  EXPECT_GT(found, 300);
}

// --- forms: what is read off an example holds for every size ---

TEST(FamilyForm, HoldsForEverySize) {
  for_forms([&](const FamilyForm& form, int v) {
    for (const int p : {3, 5, 8})
      for (const int m : {p, 3 * p, 5 * p}) {
        if (!form.exists(p, v, m)) continue;
        const Schedule order = order_of(form, p, v, m);
        ASSERT_EQ(order.stages, p * v) << form.name;
        bool split = false, woven = false, whole = false;
        for (const auto& row : order.order)
          for (const Action& action : row) {
            split |= action.kind == ActionKind::I;
            whole |= action.kind == ActionKind::B;
            woven |= action.group != GroupKind::None;
          }
        EXPECT_EQ(std::tuple(split, whole, woven), std::tuple(form.split, form.whole, form.woven)) << form.name << " " << p;
        for (int s = 0; s < order.stages; ++s) {
          const bool back = form.placement == StagePlacement::Vee && s / p % 2 == 1;
          EXPECT_EQ(order.stage_to_rank[s], back ? p - 1 - s % p : s % p) << form.name;
        }
      }
  });
}

TEST(FamilyForm, IsThereForEveryFamilyThatIsPlanned) {
  std::vector<std::string_view> planned, last;
  for (const ScheduleFamily& family : schedule_families())
    if (family.planned) planned.push_back(family.name);
  planned.emplace_back("");  // what the scenario states
  std::vector<std::string_view> names;
  for (const FamilyForm& form : forms()) {
    names.push_back(form.name);
    if (form.last()) last.push_back(form.name);
  }
  EXPECT_EQ(names, planned);
  EXPECT_THAT(last, ::testing::ElementsAre("chimera", "zb-auto", "zb-v-auto", "auto-memory", "dualpipe"));
}

}  // namespace
}  // namespace panpipe::planner
