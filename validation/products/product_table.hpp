// Compares published matrix products by shape with the cost model's: a check of single kernels without a training step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "validation/runs/csv_table.hpp"

namespace panpipe::validation {

// A row of a table with the columns gpu, m, n, k, tflops, and optionally source, where, precision, batch, used, note.
struct ProductRow {
  std::string source, where, gpu, precision = "bf16", note;
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  double tflops = 0;  // measured
  bool used = false;  // a shipped calibration uses it
};

struct ProductPrediction {
  ProductRow row;
  std::string skipped;  // reason; not empty: nothing was predicted
  double tflops = 0;
  // The error of the time: predicted / measured - 1. nullopt if nothing was predicted.
  std::optional<double> error() const;
};

// True if a table holds products instead of runs: it has a column 'tflops'.
bool holds_products(const CsvTable& table);

// Throws InputError with all faults of the table.
std::vector<ProductRow> read_products(const CsvTable& table);

// Uses the devices' own calibrations, or those in `calibrations` (files, each for the devices it names). In the order of the
// rows.
std::vector<ProductPrediction> predict_products(const std::vector<ProductRow>& rows,
                                                const std::vector<std::string>& calibrations);

// Errors by device and source, then the rows, worst first; at most `most` rows, 0 = all.
std::string products_table(const std::vector<ProductPrediction>& products, std::size_t most);
std::string products_json(const std::vector<ProductPrediction>& products);

}  // namespace panpipe::validation
