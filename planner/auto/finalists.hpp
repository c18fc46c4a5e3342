// The answer in words and documents: finalists with contention, what was searched, what was excluded and why.
#pragma once

#include <string>
#include <vector>

#include "planner/auto/exact.hpp"

namespace panpipe::planner {

struct Account {
  const Tally* tally = nullptr;
  std::int64_t replayed = 0, estimated = 0;
  std::int64_t without_room = 0, without_order = 0;  // of the estimated
  double least_memory = 0;                           // of those without room, bytes
  std::string fault;                                 // of the first without an order
  std::int64_t excluded = 0;                         // by a bound of closed form or order, after a better plan was found
  std::int64_t open = 0;                             // neither excluded nor estimated
  std::int64_t tried_last = 0;                       // plans of families without closed forms
  double gained_last = 0;                            // share of the step time that they take off
  int largest_micro = 0;                             // larger microbatches were left out: this one fits nowhere; 0 = none were
};

std::vector<std::string> notes_of(const Account& account, const Space& space, const SearchState& state);
std::string reason_of(const Account& account, const Ground& ground);

// The best ones, simulated where the options say how: fastest first by what the simulation says of them.
std::vector<Candidate> finalists(std::vector<Exact>& best, Evaluator& evaluator, const SearchOptions& options);

}  // namespace panpipe::planner
