// Which values are tried, where the boundary lies and what ends it; without any scenario.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "study/largest/largest.hpp"
#include "tests/fault.hpp"

namespace panpipe::study {
namespace {

using ::testing::HasSubstr;

// 4 GiB of parameters and 2 GiB of activations for each sample, on a card of so many GiB.
TriedValue of_samples(int value, int card) {
  TriedValue tried;
  tried.value = value;
  tried.samples = 8 * value;
  tried.parts = {{MemoryUse::Parameters, gib(4)}, {MemoryUse::Activations, gib(2) * value}};
  tried.need = gib(4) + gib(2) * value;
  tried.limit = gib(card);
  return tried;
}

LargestAnswer answer_on(int card, int stated, const Ladder& ladder = Ladder::multiples(1, 1000), int most = 1000) {
  LargestAnswer answer;
  answer.ladder = ladder;
  answer.stated = stated;
  answer.microbatches = 8;
  answer.devices.push_back(find_largest(ladder, stated, true, [&](int value) {
    TriedValue tried = of_samples(value, card);
    if (value > most) tried.refused = "there are no more positions";
    return tried;
  }));
  answer.devices.back().device = "CARD";
  return answer;
}

// Of 24 GiB: 10 samples need all of them. The error of the memory model is 5 %: 24 / 1.05 = 22.86 GiB hold 9 (22 GiB), and
// 24 / 1.1 = 21.82 hold 8 (20 GiB).
TEST(Largest, IsTheLastThatFitsWithWhatEndsIt) {
  const LargestAnswer answer = answer_on(24, 2);
  const LargestFit& fit = answer.devices.front();
  EXPECT_EQ(fit.largest->value, 10);
  EXPECT_EQ(fit.next->value, 11);
  EXPECT_EQ(fit.probably, 9);
  EXPECT_EQ(fit.surely, 8);
  EXPECT_EQ(fit.stated->need, gib(8));
  EXPECT_EQ(fit.ends_by()->use, MemoryUse::Activations);
  EXPECT_EQ(fit.ends_by()->bytes, gib(2));
  EXPECT_EQ(to_table(answer, {}),
            "the largest microbatch is 10: it fits hardly; 9 fits probably, 8 surely\n"
            "  device     stated  surely  probably  fits       need  of usable  next      needs  ends by\n"
            "  CARD    2, surely       8         9    10  24.00 GiB      100 %    11  26.00 GiB  activations, 2.00 GiB more\n"
            "  kept: the 8 microbatches of a step, so that its samples grow; schedule and cuts are made for each value\n");
  const auto document = nlohmann::json::parse(to_json(answer));
  EXPECT_EQ(document["schema"], "panpipe-largest/1");
  EXPECT_EQ(document["devices"][0]["fits"], 10);
  EXPECT_EQ(document["devices"][0]["ends_by"]["part"], "activations");
  EXPECT_EQ(document["devices"][0]["largest"]["samples"], 80);
  EXPECT_EQ(document["devices"][0]["next"]["fits_how"], "not");
}

TEST(Largest, WhereNothingFitsThePartThatIsTooLargeIsNamed) {
  const LargestAnswer answer = answer_on(5, 3);  // 1 sample: 6 GiB, 4 of them parameters
  const LargestFit& fit = answer.devices.front();
  EXPECT_FALSE(answer.any_fits());
  EXPECT_FALSE(fit.largest);
  EXPECT_EQ(fit.next->value, 1);
  EXPECT_EQ(fit.ends_by()->use, MemoryUse::Parameters);
  EXPECT_EQ(fit.ends_by()->bytes, gib(4));
  EXPECT_THAT(to_table(answer, {}), HasSubstr("no microbatch fits\n"));
  EXPECT_THAT(to_table(answer, {}), HasSubstr("3, not"));
  EXPECT_THAT(to_json(answer), HasSubstr("\"feasible\": false"));
}

TEST(Largest, AValueThatDoesNotExistEndsItToo) {
  const LargestFit fit = answer_on(24, 2, Ladder::multiples(1, 1000), 6).devices.front();
  EXPECT_EQ(fit.largest->value, 6);
  EXPECT_EQ(fit.next->refused, "there are no more positions");
  EXPECT_FALSE(fit.ends_by());
  EXPECT_EQ(fit.surely, 6);
}

TEST(Largest, OfTheDivisorsOfABatchAndOfMultiples) {
  const Ladder divisors = Ladder::divisors(24);  // 1 2 3 4 6 8 12 24
  EXPECT_EQ(divisors.count(), 8);
  EXPECT_EQ(divisors.index_of(7), 5);
  EXPECT_EQ(divisors.index_of(0), 0);
  const LargestFit fit = answer_on(24, 3, divisors).devices.front();
  EXPECT_EQ(fit.largest->value, 8);
  EXPECT_EQ(fit.next->value, 12);
  // 7 is no multiple of 4: it is looked at all the same, and the answer is one.
  const LargestFit multiples = answer_on(24, 7, Ladder::multiples(4, 1000)).devices.front();
  EXPECT_EQ(multiples.stated->need, gib(18));
  EXPECT_EQ(multiples.largest->value, 8);
  EXPECT_EQ(multiples.next->value, 12);
  EXPECT_FALSE(answer_on(4000, 1, Ladder::multiples(4, 1000)).devices.front().next);  // nothing ends it
}

// Also where the need is not monotonic, the answer fits and the next value does not; each value is looked at once.
TEST(Largest, IsABoundaryWhateverTheNeed) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const int step = std::uniform_int_distribution(1, 64)(random), stated = std::uniform_int_distribution(1, 5000)(random);
    const Ladder ladder = Ladder::multiples(step, 4000);
    const auto end = std::uniform_int_distribution<int>(0, 4200)(random), dip = std::uniform_int_distribution(0, 4000)(random);
    std::multiset<int> asked;
    const LargestFit fit = find_largest(ladder, stated, true, [&](int value) {
      asked.insert(value);
      TriedValue tried;
      tried.value = value;
      tried.limit = gib(1);
      tried.need = value <= end && value / step != dip / step ? gib(1) / 2 : gib(2);
      return tried;
    });
    const int largest = fit.largest ? fit.largest->value : 0;
    if (fit.largest) {
      EXPECT_LE(fit.largest->need, gib(1));
    }
    if (fit.next) {
      EXPECT_EQ(fit.next->value, largest + step);
      EXPECT_GT(fit.next->need, gib(1));
    } else {
      EXPECT_EQ(largest, ladder.value(ladder.count()));
    }
    EXPECT_LE(asked.size(), 27u);  // 12 doublings at most, as many halvings, and the scenario's own
    EXPECT_TRUE(std::all_of(asked.begin(), asked.end(), [&](int value) { return asked.count(value) == 1; }));
  }
}

TEST(Largest, AnUnknownQuestionIsRefused) {
  EXPECT_EQ(largest_of_named("sequence"), LargestOf::Sequence);
  EXPECT_THAT(test::fault_of([] { largest_of_named("sequnce"); }), HasSubstr("did you mean 'sequence'?"));
}

}  // namespace
}  // namespace panpipe::study
