// Measured runs made ready to be predicted many times with different calibrations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/profile/calibration.hpp"
#include "validation/runs/run_row.hpp"

namespace panpipe {

// Scenario, workload and plan are made once; only costs change. Orders that are searched (zb-auto) are so with the costs of
// `start`.
class FitRow {
 public:
  // Throws InputError or NoAnswer when the row cannot be predicted: see scenario_of.
  explicit FitRow(RunRow row, const Calibration& start = {});
  ~FitRow();
  FitRow(FitRow&&) noexcept;

  const RunRow& row() const { return row_; }
  const std::string& framework() const;                      // the preset that it is predicted with
  double predicted_s(const Calibration& calibration) const;  // by the estimate; safe to call from several threads

 private:
  struct Prepared;
  RunRow row_;
  std::unique_ptr<Prepared> prepared_;
};

struct FitRows {
  std::vector<FitRow> rows;
  std::vector<std::string> left_out;  // "id: reason"
};

// Of the rows measured on one of the devices (by gpu column), those that can be predicted; made on several threads.
FitRows prepare_rows(const std::vector<RunRow>& rows, const std::vector<std::string>& devices, const Calibration& start = {});

}  // namespace panpipe
