// Orders in the form that the search uses: their times, their memory, and the conversion from and to schedules.
#pragma once

#include <string>
#include <vector>

#include "schedule/search/order_problem.hpp"

namespace panpipe::search {

// Times the rows of one problem repeatedly without allocating.
class RowTimer {
 public:
  explicit RowTimer(const OrderProblem& problem);
  // Numbers the passes from 0, those of one stage and kind one after another.
  std::size_t place(Kind kind, int stage, int microbatch) const {
    return (size(static_cast<int>(kind)) * stages_ + size(stage)) * microbatches_ + size(microbatch);
  }
  // Returns false if the rows cannot finish. Rows must hold each pass once, F before I before W.
  bool run(const Rows& rows, Score& score);
  // Results of the last run: end of a pass, the rank that ends last, the rank with the longest span, the mean end of the ranks.
  double end(Kind kind, int stage, int microbatch) const { return end_[place(kind, stage, microbatch)]; }
  int last_rank() const { return last_; }
  int longest_rank() const { return longest_; }
  double mean_end() const { return mean_end_; }

 private:
  bool advance(int rank, const std::vector<Op>& row);

  // Duration and input of a pass, by rank, kind and chunk; computed once instead of for each pass.
  struct Timing {
    double length = 0, delay = 0;
    std::size_t end = 0, input = 0;  // of microbatch 0, as indices into end_
    bool has_input = false;
  };
  Timing timing(Kind kind, int stage) const;

  const OrderProblem problem_;
  std::size_t stages_, microbatches_;
  std::vector<Timing> timings_;
  std::vector<double> end_;  // negative: has not run
  std::vector<std::size_t> position_;
  std::vector<double> free_at_, first_start_;
  int last_ = 0, longest_ = 0;
  double mean_end_ = 0;
};

int peak_activations(const std::vector<Op>& row);
bool fits_memory(const OrderProblem& problem, const Rows& rows);

// Converts orders that exist as schedules (published families). Returns no rows if a row holds anything but F, I and W.
Rows rows_of(const OrderProblem& problem, const Schedule& schedule);
Schedule schedule_of(const OrderProblem& problem, const Rows& rows, std::string name);

}  // namespace panpipe::search
