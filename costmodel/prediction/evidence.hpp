// The shipped evidence of how far measured steps lie from predictions, and the interval of a prediction that follows from it.
// Method, limits and validation: docs/models/uncertainty.md.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/prediction/uncertainty.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

class JsonWriter;

// Compared runs of one source that share their block.
struct ComparedRuns {
  std::string source;
  StepTraits traits;  // without sensitivity
  int runs = 0;
  double mean_error = 0;   // of |predicted / measured - 1|
  double worst_error = 0;  // the largest, with its sign
};

// Pairs of plans of one model on one machine, from one source: the differences between the errors of the two.
struct ComparedPlans {
  std::string source;
  int pairs = 0;
  // |difference of ln(measured / predicted)|, ascending. Many are reduced to ten quantiles, each of a tenth of them.
  std::vector<double> apart;
};

struct EvidenceTable {
  UncertaintyPrior prior;
  std::vector<ComparedRuns> runs;
  std::vector<ComparedPlans> plans;

  // ln of the ratio of two plans' predicted steps below which at least one run in ten has the opposite order: a tie.
  double tie() const;
};

// Up to ten values that represent all: the values themselves, else their quantiles at 5, 15, ... 95 %.
std::vector<double> representatives(std::vector<double> values);

// Quantile of (value, weight) pairs: linear between the middles of the weights, constant beyond; 0 if there are none.
double weighted_quantile(std::vector<std::pair<double, double>> values, double share);

// Reads the file panpipe-evidence/2. Throws InputError with the place of the fault.
EvidenceTable parse_evidence(const std::string& text, const std::string& name);
std::string to_json(const EvidenceTable& table);
// The shipped table, evidence/steps.json of the data folder, read once. Throws InputError.
const EvidenceTable& shipped_evidence();

// Sets the quantiles and evidence of a prediction; nothing with given costs.
void state_evidence(Metrics& figures, const Scenario& scenario, const StepTraits& traits);

// What a step's interval is made of, one phrase each, the largest first: "half of it: host". At most three.
std::vector<std::string> limits_of(const StepPosterior& posterior, const StepTraits& traits);

// Writes the field `evidence` of a document.
void write_evidence(JsonWriter& out, const Evidence& evidence);

// A sentence about a step: "80 % of runs are expected from 101 ms to 119 ms, half above 108 ms; half of it: the host's time".
// Empty without an interval. Seconds.
std::string sureness_text(double p10_s, double p50_s, double p90_s, const Evidence& evidence);

// For people: what the pieces moved, and what each contributed after those above it. Empty without pieces. Seconds.
std::vector<std::string> evidence_lines(double p50_s, const Evidence& evidence);
std::string evidence_text(double p50_s, const Evidence& evidence);  // the lines, indented

}  // namespace panpipe
