// Two results of one plan side by side: metrics, actions by class, what devices waited for. docs/compare.md defines every figure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "present/result/result_document.hpp"

namespace panpipe {

// "step_time_s=3%": relative to the reference. "bubble_step=0.02": in the metric's own unit.
struct Tolerance {
  std::string metric;
  double value = 0;
  bool relative = true;
};
// Throws InputError for a malformed one.
Tolerance parse_tolerance(const std::string& text);

struct ComparedMetric {
  std::string name;
  std::optional<double> a, b;      // absent where one kind of result has none
  double difference = 0;           // see Comparison::reference
  std::optional<double> relative;  // of the reference's value; absent where that is 0
  bool two_currencies = false;     // amounts that do not compare: no difference, and no tolerance holds
  std::optional<Tolerance> tolerance;
  bool ok = true;
};

// Spans of one pass of one stage, of one hand-over, of one collective.
struct ComparedClass {
  std::string name;  // "F", "SEND_B", "all_reduce"
  Lane lane{};
  std::int32_t stage = -1;
  int count_a = 0, count_b = 0;
  double mean_a = 0, mean_b = 0;  // seconds
  double total_difference = 0;    // of the sums, other less reference
};

// One action whose time differs much.
struct ComparedAction {
  std::string action;
  std::int32_t device = 0;
  double a = 0, b = 0;
};

// Idle time of a device's compute lane by what it waited for.
struct ComparedWait {
  std::int32_t device = 0;
  std::string reason;      // "activations of stage 0", "gradients of stage 2", "sums over replicas", "the end of the step" ...
  std::int32_t peer = -1;  // the device it came from
  double a = 0, b = 0;     // seconds idle
  double transit_a = 0, transit_b = 0;  // of it, while the transfer was under way (else it had not been sent yet)
};

struct Comparison {
  const ResultDocument* a = nullptr;
  const ResultDocument* b = nullptr;
  // Differences are (other - reference): the measured result where exactly one is, else A.
  bool reference_is_b = false;
  // Of a measured and a predicted result: whether the measured step lies in the interval of the predicted one, where it has one.
  std::optional<bool> inside;
  std::vector<ComparedMetric> metrics;
  std::vector<ComparedClass> classes;
  std::vector<ComparedAction> worst;
  std::vector<ComparedWait> waits;
  bool ok() const;
};

// Both must outlive the comparison. InputError: a tolerance for an unknown metric; without `metrics_only` also a result without
// timeline, or timelines of different plans.
Comparison compare(const ResultDocument& a, const ResultDocument& b, const std::vector<Tolerance>& tolerances,
                   bool metrics_only = false);

std::string to_table(const Comparison& comparison);
std::string to_json(const Comparison& comparison);

}  // namespace panpipe
