// How good predictions are: errors, order, what choosing by them costs. Definitions: docs/validate.md.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "validation/runs/run_prediction.hpp"

namespace panpipe {

// Shares are fractions; 0 where there is nothing to count.
struct ErrorSummary {
  int rows = 0;                                     // predicted and measured
  int skipped = 0;                                  // of all rows
  double mean = 0, median = 0, p90 = 0, worst = 0;  // of the absolute errors
  std::string worst_id;
  double bias = 0;           // mean of the signed errors
  double pairs_ordered = 1;  // of the pairs measured more than 5 % apart
  long long pairs = 0;
  int judged = 0;     // rows with an interval
  double inside = 0;  // share of them measured inside it
};

// Rows of one model, GPUs and global batch: the plans that somebody could have chosen among.
struct ChoiceSummary {
  int groups = 0;            // of at least two rows
  int best_found = 0;        // groups whose fastest row is the predicted fastest
  double pairs_ordered = 1;  // within groups, measured more than 5 % apart
  long long pairs = 0;
  double mean_regret = 0, worst_regret = 0;  // measured time of the predicted fastest over that of the fastest, less 1
};

struct MemorySummary {
  int rows = 0;
  double mean = 0, median = 0, worst = 0, bias = 0;
  std::string worst_id;
};

struct Summary {
  ErrorSummary errors;
  ChoiceSummary choice;
  MemorySummary memory;
};

// Kind of group ("source", "gpu", "framework", "parallelism", "model_size") -> name -> summary.
using Groups = std::map<std::string, std::map<std::string, Summary>>;

// What choices are made among: rows of one source, framework, GPU, model, number of GPUs and global batch; groups of one row too.
std::vector<std::vector<const RunPrediction*>> choice_groups(const std::vector<const RunPrediction*>& runs);

Summary summarize(const std::vector<const RunPrediction*>& runs);
Summary summarize(const std::vector<RunPrediction>& runs);
Groups summarize_groups(const std::vector<RunPrediction>& runs);

std::string parallelism_of(const RunRow& row);        // "one GPU", "data", "tensor", "pipeline", "tensor + pipeline"
std::string model_size_of(const RunPrediction& run);  // "under 1 B", "1 to 10 B", "10 to 100 B", "over 100 B"

}  // namespace panpipe
