// The request of `panpipe validate` and panpipe.validate(): measured runs, or matrix products, next to their predictions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "validation/products/product_table.hpp"
#include "validation/runs/run_evidence.hpp"
#include "validation/runs/run_report.hpp"

namespace panpipe::app {

struct RunsRequest {
  std::vector<std::string> files, tolerances;
  std::vector<std::string> left_out;         // tables written by `panpipe fit --left-out`
  std::vector<std::string> without;          // rows to leave out, by id or source
  validation::PredictionOptions prediction;  // calibrations and threads
  std::vector<std::string> given;            // ids of rows that are evidence for the others of their source
  bool learn = false;                        // evidence from these rows, and intervals by it
  bool judge = false;                        // judge the rows with families of sources left out
  bool alone = true;                         // false if the call requests something that tables of products do not have
};

struct RunsAnswer {
  std::vector<validation::ProductPrediction> products;
  std::optional<validation::RunReport> report;  // absent if the files hold products
  std::optional<EvidenceTable> evidence;        // with `learn`
};

// `ready` receives the rows that will be predicted. It may throw, and it may be empty. Throws InputError for tables that cannot
// be read, for products together with anything else, and for a name that no row has.
RunsAnswer answer_runs(const RunsRequest& request, const std::function<void(const std::vector<validation::RunRow>&)>& ready);

}  // namespace panpipe::app
