// What `panpipe validate` and panpipe.validate() are asked: measured runs, or matrix products, beside their predictions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "validation/products/product_table.hpp"
#include "validation/runs/run_evidence.hpp"
#include "validation/runs/run_report.hpp"

namespace panpipe::cli {

struct RunsRequest {
  std::vector<std::string> files, tolerances;
  std::vector<std::string> left_out;  // tables of `panpipe fit --left-out`
  std::vector<std::string> without;   // ids or sources of rows
  PredictionOptions prediction;       // its calibrations and threads
  bool own_evidence = false;          // judge the rows by what they say themselves, not by the shipped evidence
  bool alone = true;                  // nothing else is asked that a table of products has no answer to
};

struct RunsAnswer {
  std::vector<ProductPrediction> products;
  std::optional<RunReport> report;        // absent: the files hold products
  std::optional<EvidenceTable> evidence;  // of own_evidence
};

// `ready` hears which rows will be predicted, and may throw; may be empty. InputError: tables that cannot be read, products
// beside anything else, a name that no row has.
RunsAnswer answer_runs(const RunsRequest& request, const std::function<void(const std::vector<RunRow>&)>& ready);

}  // namespace panpipe::cli
