// The uncertainty of a prediction: an interval from the errors of runs whose source had no part in the prediction, and the number
// of alike runs. Method, limits and validation: docs/models/uncertainty.md.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/prediction/likeness.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

class JsonWriter;

// Compared runs of one source that are alike.
struct ComparedRuns {
  std::string source;
  Likeness kind;
  int runs = 0;
  // ln(measured / predicted), ascending. Many runs are reduced to ten quantiles, each of which represents a tenth of them.
  std::vector<double> off;
  double worst = 0;  // error with the largest size, over all runs
};

// Pairs of plans of one model on one machine, from one source: the differences between the errors of the two.
struct ComparedPlans {
  std::string source;
  int pairs = 0;
  std::vector<double> apart;  // |difference of ln(measured / predicted)|, ascending; reduced like `off`
};

// An interval, as factors on the predicted step.
struct StepInterval {
  double low = 1, high = 1;  // exp(-width), exp(width)
  Evidence evidence;         // the runs that were alike
  Evidence stands_on;        // the runs whose errors determine the interval
};

class EvidenceTable {
 public:
  double widening = 1;  // the factor with which intervals held 80 % of the runs of sources left out
  std::vector<ComparedRuns> runs;
  std::vector<ComparedPlans> plans;

  // Leaves out the runs of `without_source`, so that no source judges itself, and of `without_device` (Likeness::device), to
  // learn the interval of a device that was never compared. Without any runs the interval is 1 to 1.
  StepInterval interval(const Likeness& kind, std::string_view without_source = "", std::string_view without_device = "") const;
  // ln of the ratio of two plans' predicted steps below which at least one run in ten has the opposite order: a tie.
  double tie(std::string_view without_source = "") const;
};

// Up to ten values that represent all: the values themselves, else their quantiles at 5, 15, ... 95 %.
std::vector<double> representatives(std::vector<double> values);

// Quantile of (value, weight) pairs: linear between the middles of the weights, constant beyond; 0 if there are none.
double weighted_quantile(std::vector<std::pair<double, double>> values, double share);

// Weight of each run of a source with n runs: n^-0.5. Sources with many runs count for more but do not dominate the others.
double run_weight(int runs_of_source);

// Reads the file panpipe-evidence/1. Throws InputError with the place of the fault.
EvidenceTable parse_evidence(const std::string& text, const std::string& name);
std::string to_json(const EvidenceTable& table);
// The shipped table, evidence/steps.json of the data folder, read once. Throws InputError.
const EvidenceTable& shipped_evidence();

// Sets the interval and evidence of a prediction.
void state_evidence(Metrics& figures, const Likeness& kind);

// Writes the field `evidence` of a document.
void write_evidence(JsonWriter& out, const Evidence& evidence);

// A sentence about a step: "80 % of runs are expected from 101 ms to 119 ms; validated on 63 runs of 2 sources (...)", or that
// nothing alike was ever compared. Empty without evidence. Seconds.
std::string sureness_text(double p10_s, double p90_s, const Evidence& evidence);

// "validated on 63 runs of 2 sources (A100-SXM, megatron, pipeline)"; "nothing alike was ever compared".
std::string to_text(const Evidence& evidence);

}  // namespace panpipe
