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
  std::vector<std::string> tried_last;               // families without closed forms
  double gained_last = 0;                            // share of the estimated step that they take off
  std::size_t simulated = 0;                         // plans
  std::int64_t could_be_faster = 0;                  // not simulated, with a bound below the least simulated step
  bool below_simulated = false;                      // all below that step were looked for
  int largest_micro = 0;                             // larger microbatches were left out: this one fits nowhere; 0 = none were
};

// `least_proved`: no plan that was searched in closed form is estimated faster than the least estimate found.
std::vector<std::string> notes_of(const Account& account, const Space& space, const Answer& answer, bool least_proved);
std::string reason_of(const Account& account, const Ground& ground);

// Fills `simulated`, as the options say how.
void simulate(Exact& exact, Evaluator& evaluator, const SearchOptions& options);

// As many as are shown: those that were simulated, fastest first, then the others of `best` in the order of their estimates.
void add_finalists(const std::vector<Exact>& best, Evaluator& evaluator, const SearchOptions& options, Answer& answer);

}  // namespace panpipe::planner
