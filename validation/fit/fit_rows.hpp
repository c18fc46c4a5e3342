// Measured runs prepared for repeated prediction with different calibrations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/profile/calibration.hpp"
#include "validation/runs/run_row.hpp"

namespace panpipe::validation {

// Scenario, workload and plan are made once, and only costs change. Searched orders (zb-auto) use the costs of `start`.
class FitRow {
 public:
  // Throws InputError or NoAnswer if the row cannot be predicted: see scenario_of.
  explicit FitRow(RunRow row, const Calibration& start = {});
  ~FitRow();
  FitRow(FitRow&&) noexcept;

  const RunRow& row() const { return row_; }
  const std::string& framework() const;                      // the preset used for the prediction
  double predicted_s(const Calibration& calibration) const;  // by the estimate; thread-safe

 private:
  struct Prepared;
  RunRow row_;
  std::unique_ptr<Prepared> prepared_;
};

struct FitRows {
  std::vector<FitRow> rows;
  std::vector<std::string> left_out;  // "id: reason"
};

// Prepares, on several threads, the predictable rows that were measured on one of the devices (column gpu).
FitRows prepare_rows(const std::vector<RunRow>& rows, const std::vector<std::string>& devices, const Calibration& start = {});

}  // namespace panpipe::validation
