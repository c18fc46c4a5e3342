// The search of --method pfeife over all members of the family and all cuts. Several threads search members in waves. A wave
// knows only results from before it, so the answer is the same for any number of threads.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "planner/pfeife/cut_search.hpp"
#include "planner/pfeife/tried_schedules.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {

class PfeifeSearch {
 public:
  PfeifeSearch(const Experiment& experiment, const SearchOptions& options);
  Answer run();

 private:
  struct Searched {
    TriedSchedule member;
    std::unique_ptr<CutSearch> search;
    bool improved_again = false, tightened_with_memory = false;
    double bound() const { return search->bound(); }
    int stages() const { return member.schedule.stages; }
  };
  // Order of the search: search_pfeife.cpp.
  void read_partition();
  void add_members(int stages_per_rank);
  void add_member(TriedSchedule member);
  // The members from number `first` on, the least value first; at most so many.
  std::vector<std::size_t> sorted(std::size_t first, double (CutSearch::*value)() const, std::size_t most) const;
  void search_members();
  void prepare(std::size_t first);  // constructs the members from `first` on and runs a few rounds of each
  void search_wave(const std::vector<std::size_t>& wave);
  void search_member(Searched& searched) const;
  void improve_best();
  void raise_lowest_bounds();
  void search_prefetch_vectors();
  Cuts start_for(int stages) const;
  int best_stages() const { return best_index_ < 0 ? 0 : searched_[best_index_].stages() / space_.ranks(); }
  void note(std::size_t index);
  template <class Body>
  void in_parallel(const std::vector<std::size_t>& indices, Body body);
  void report(const Searched& done, const CutCounts& before, std::size_t worker);
  bool stopped() const { return options_.stopped(); }

  // Output: pfeife_answer.cpp.
  Answer answer();
  Candidate candidate(Searched& searched) const;
  std::string why_nothing_fits() const;
  void add_notes(Answer& answer) const;

  const Experiment& experiment_;
  const SearchOptions& options_;
  SearchSpace space_;
  std::optional<Cuts> stated_cuts_;
  std::vector<Searched> searched_;
  std::size_t next_ = 0;  // the members before it are done
  double best_ = CutSearch::kNone;
  int best_index_ = -1;
  std::map<int, Cuts> good_cuts_;  // by number of stages: the best found for any schedule
  std::vector<std::string> illegal_, absent_;
  int excluded_members_ = 0, repeated_ = 0;

  std::mutex reported_mutex_;
  CutCounts reported_;  // for progress only: in the order in which members finish, on any thread
  double reported_best_ = CutSearch::kNone;
};

}  // namespace panpipe::planner
