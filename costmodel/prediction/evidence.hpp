// How sure a prediction is: an interval from the errors of runs whose source had no part in the prediction, and how many runs
// were alike. Method, limits and validation: docs/models/uncertainty.md.
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
  // ln(measured / predicted), ascending; of many runs ten quantiles, each of which stands for a tenth of them.
  std::vector<double> off;
  double worst = 0;  // of the largest size, among all of them
};

// Pairs of plans of one model on one machine, of one source: how far the errors of the two were apart.
struct ComparedPlans {
  std::string source;
  int pairs = 0;
  std::vector<double> apart;  // |difference of ln(measured / predicted)|, ascending; as `off`
};

// Shares of the predicted step.
struct StepInterval {
  double low = 1, high = 1;  // exp(-width), exp(width)
  Evidence evidence;         // what was alike
  Evidence stands_on;        // the runs whose errors the interval is from
};

class EvidenceTable {
 public:
  double widening = 1;  // the factor at which intervals held 80 % of the runs of sources left out
  std::vector<ComparedRuns> runs;
  std::vector<ComparedPlans> plans;

  // Without the runs of one source, when it has a name: so that no source judges itself; and without those of one device
  // (Likeness::device): what is known of one that was never compared. Without any runs: 1 to 1.
  StepInterval interval(const Likeness& kind, std::string_view without_source = "", std::string_view without_device = "") const;
  // ln of the ratio of two plans' predicted steps up to which one run in ten, or more, has them the other way round: a tie.
  double tie(std::string_view without_source = "") const;
};

// Up to ten values that stand for all: the values themselves, else their quantiles at 5, 15, ... 95 %.
std::vector<double> representatives(std::vector<double> values);

// Of (value, weight): linear between the middles of the values' weights, constant beyond; 0 of none.
double weighted_quantile(std::vector<std::pair<double, double>> values, double share);

// A run of a source that has n weighs as much as n^-0.5: sources of many runs do not drown the others, and still count for more.
double run_weight(int runs_of_source);

// The file panpipe-evidence/1. Throws InputError with the place of what is wrong.
EvidenceTable parse_evidence(const std::string& text, const std::string& name);
std::string to_json(const EvidenceTable& table);
// What comes with the program: evidence/steps.json of the data folder, read once. Throws InputError.
const EvidenceTable& shipped_evidence();

// Interval and evidence of a prediction.
void state_evidence(Metrics& figures, const Likeness& kind);

// The field `evidence` of a document.
void write_evidence(JsonWriter& out, const Evidence& evidence);

// What a text says of a step: "80 % of runs are expected from 101 ms to 119 ms; validated on 63 runs of 2 sources (...)", or that
// nothing alike was ever compared; empty where no evidence was stated. Seconds.
std::string sureness_text(double p10_s, double p90_s, const Evidence& evidence);

// "validated on 63 runs of 2 sources (A100-SXM, megatron, pipeline)"; "nothing alike was ever compared".
std::string to_text(const Evidence& evidence);

}  // namespace panpipe
