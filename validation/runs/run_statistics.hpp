// The quality of predictions: errors, order, and the cost of choosing by them. Definitions: docs/validate.md.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "validation/error_sizes.hpp"
#include "validation/runs/run_prediction.hpp"

namespace panpipe::validation {

// Of rows that were predicted and measured. Shares are fractions; 0 if there are no rows to count.
struct ErrorSummary : ErrorSizes {
  int skipped = 0;  // of all rows
  std::string worst_id;
  double pairs_ordered = 1;  // share among the pairs measured more than 5 % apart
  long long pairs = 0;
  int judged = 0;     // rows with an interval
  double inside = 0;  // share of them measured inside the interval
};

// Rows with equal model, GPUs and global batch: plans among which a user could have chosen.
struct ChoiceSummary {
  int groups = 0;            // of at least two rows
  int best_found = 0;        // groups in which the fastest row is also predicted fastest
  double pairs_ordered = 1;  // share within groups, among pairs measured more than 5 % apart
  long long pairs = 0;
  double mean_regret = 0, worst_regret = 0;  // measured time of the row predicted fastest over that of the fastest, less 1
};

struct MemorySummary : ErrorSizes {
  std::string worst_id;
};

struct Summary {
  ErrorSummary errors;
  ChoiceSummary choice;
  MemorySummary memory;
};

// Kind of group ("source", "gpu", "framework", "parallelism", "model_size") -> name -> summary.
using Groups = std::map<std::string, std::map<std::string, Summary>>;

// The groups for choices: rows with equal source, framework, GPU, model, number of GPUs and global batch. Includes groups of one
// row.
std::vector<std::vector<const RunPrediction*>> choice_groups(const std::vector<const RunPrediction*>& runs);

Summary summarize(const std::vector<const RunPrediction*>& runs);
Summary summarize(const std::vector<RunPrediction>& runs);
Groups summarize_groups(const std::vector<RunPrediction>& runs);

std::string parallelism_of(const RunRow& row);        // "one GPU", "data", "tensor", "pipeline", "tensor + pipeline"
std::string model_size_of(const RunPrediction& run);  // "under 1 B", "1 to 10 B", "10 to 100 B", "over 100 B"

}  // namespace panpipe::validation
