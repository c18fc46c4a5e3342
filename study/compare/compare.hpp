// Compares two results of one plan: metrics, actions by class, waits of devices. docs/compare.md defines every figure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "present/result/read_result.hpp"

namespace panpipe::study {

// "step_time_s=3%" is relative to the reference; "bubble_step=0.02" is in the metric's unit.
struct Tolerance {
  std::string metric;
  double value = 0;
  bool relative = true;
};
// Throws InputError for malformed text.
Tolerance parse_tolerance(const std::string& text);

struct ComparedMetric {
  std::string name;
  std::optional<double> a, b;      // absent if one kind of result lacks the metric
  double difference = 0;           // see Comparison::reference
  std::optional<double> relative;  // to the reference's value; absent if that is 0
  bool two_currencies = false;     // the amounts are not comparable: no difference is given, and every tolerance fails
  std::optional<Tolerance> tolerance;
  bool ok = true;
};

// The spans of one pass of one stage, of one hand-over, or of one collective.
struct ComparedClass {
  std::string name;  // "F", "SEND_B", "all_reduce"
  Lane lane{};
  std::int32_t stage = -1;
  int count_a = 0, count_b = 0;
  double mean_a = 0, mean_b = 0;  // seconds
  double total_difference = 0;    // of the sums, other - reference
};

// One action with a large difference in time.
struct ComparedAction {
  std::string action;
  std::int32_t device = 0;
  double a = 0, b = 0;
};

// Idle time of a device's compute lane, by the awaited event.
struct ComparedWait {
  std::int32_t device = 0;
  std::string reason;      // "activations of stage 0", "gradients of stage 2", "sums over replicas", "the end of the step" ...
  std::int32_t peer = -1;  // the device that it waited for
  double a = 0, b = 0;     // seconds idle
  double transit_a = 0, transit_b = 0;  // part of it while the transfer was under way (before that it was not yet sent)
};

struct Comparison {
  const present::ResultDocument* a = nullptr;
  const present::ResultDocument* b = nullptr;
  // Differences are (other - reference). The reference is the measured result if exactly one is, else A.
  bool reference_is_b = false;
  // For a measured and a predicted result: true if the measured step lies in the predicted interval, if there is one.
  std::optional<bool> inside;
  std::vector<ComparedMetric> metrics;
  std::vector<ComparedClass> classes;
  std::vector<ComparedAction> worst;
  std::vector<ComparedWait> waits;
  bool ok() const;
};

// Both must outlive the comparison. Throws InputError for a tolerance on an unknown metric, and unless `metrics_only` for a
// result without timeline or timelines of different plans.
Comparison compare(const present::ResultDocument& a, const present::ResultDocument& b, const std::vector<Tolerance>& tolerances,
                   bool metrics_only = false);

// A difference as part of its reference: "+12.3 %"; beyond ten times as much, where per cent are hard to read: "988.7 times".
constexpr double kFactorFrom = 9;
std::string relative_text(double relative);

std::string to_table(const Comparison& comparison);
std::string to_json(const Comparison& comparison);

}  // namespace panpipe::study
