// Completes the answer: finalists with contention, the searched space, and the reasons for exclusions.
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
  std::int64_t excluded = 0;            // by a bound from the closed form or the order, after a better plan was found
  std::int64_t open = 0;                // neither excluded nor estimated
  std::vector<std::string> tried_last;  // families without closed forms that were tried at the end
  double gained_last = 0;               // their gain, as a share of the estimated step
  std::size_t simulated = 0;            // plans
  std::int64_t could_be_faster = 0;     // not simulated, but with a bound below the least simulated step
  bool below_simulated = false;         // all plans below that step were searched
  int largest_micro = 0;                // larger microbatches were left out because this one fits nowhere; 0 = none left out
  std::size_t left_out = 0;             // microbatches of degrees that were not priced, and have no bound
  bool by_stage = false;                // recompute may differ from stage to stage
  std::size_t crammed = 0, recomputing_some = 0;  // that fit with recompute of some blocks: tried; of these, plans found
  std::size_t tight = 0, fitted = 0;              // degrees whose balanced cuts do not fit; of these, plans with cuts that fit
};

// `least_proved`: no plan searched in closed form has a faster estimate than the best found.
std::vector<std::string> notes_of(const Account& account, const Space& space, const Answer& answer, bool least_proved);
std::string reason_of(const Account& account, const SearchFacts& facts);

// Fills `simulated`, using the simulator in the search's options.
void simulate(Exact& exact, Evaluator& evaluator);

// Bytes that the fullest device needs once the allocator is replayed.
double replayed_memory(Exact& exact, Evaluator& evaluator);

// Adds as many finalists as are shown: the simulated ones first, fastest first, then the others of `best` in the order of their
// estimates; those that hardly fit once their allocations are replayed stand behind the others, and those that do not fit last.
void add_finalists(std::vector<Exact>& best, Evaluator& evaluator, Answer& answer);

// Adds the plans of a second search of the same scenario, best first again. A faster plan that hardly fits stays among those
// shown.
void take_over(Answer more, const Scenario& scenario, const SearchOptions& options, Answer& answer);

// The least that a replayed finalist's allocator reserves on its fullest rank, over what is asked for; infinite: none was
// replayed.
double least_overhead(const std::vector<Exact>& best);

}  // namespace panpipe::planner
