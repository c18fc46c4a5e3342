#include "costmodel/prediction/evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/files/files_read.hpp"
#include "base/files/input_registry.hpp"
#include "base/index.hpp"
#include "base/input/json_input.hpp"
#include "base/input/reader.hpp"
#include "base/text/json_writer.hpp"
#include "base/text/percent.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/prediction/given_evidence.hpp"

namespace panpipe {
namespace {

constexpr std::string_view kEvidenceSchema = "panpipe-evidence/2";
constexpr double kInOrder = 0.8;  // share of pairs of plans that a difference of `tie` puts in the right order
constexpr std::size_t kMostValues = 10;

using Json = nlohmann::json;

// The words of traits in a document.
constexpr std::pair<const char*, std::string StepTraits::*> kWords[] = {{"device", &StepTraits::device},
                                                                        {"framework", &StepTraits::framework},
                                                                        {"precision", &StepTraits::precision},
                                                                        {"parallel", &StepTraits::parallel},
                                                                        {"schedule", &StepTraits::schedule}};

StepClass class_named(const std::string& name) {
  for (std::size_t c = 0; c < kStepClasses; ++c)
    if (name_of(static_cast<StepClass>(c)) == name) return static_cast<StepClass>(c);
  throw InputError("there is no class of steps '" + name + "'");
}

std::vector<Weighted> read_grid(const Json& grid) {
  std::vector<Weighted> read;
  for (const Json& entry : grid) read.push_back({entry.at(0), entry.at(1)});
  return read;
}

UncertaintyPrior read_prior(const Json& document, const std::string& name) {
  UncertaintyPrior prior;
  for (std::size_t d = 0; d < kDirections; ++d)
    prior.spread[d] = document.at("spread").at(std::string(name_of(static_cast<Direction>(d))));
  prior.block_spread = document.at("block_spread");
  prior.scale = read_grid(document.at("scale"));
  prior.scatter = read_grid(document.at("scatter"));
  for (std::size_t c = 0; c < kStepClasses; ++c)
    prior.missing[c] = document.at("missing").at(std::string(name_of(static_cast<StepClass>(c))));
  for (const Json& entry : document.at("widening")) {
    Widening& from = prior.widening.emplace_back(Widening{entry.at("given"), {}});
    for (std::size_t c = 0; c < kStepClasses; ++c) from.factor[c] = entry.at(std::string(name_of(static_cast<StepClass>(c))));
  }
  prior.sources = document.at("sources");
  prior.steps = document.at("steps");
  check_prior(prior, name + ": prior");
  return prior;
}

EvidenceTable table_of(const Json& document, const std::string& name) {
  EvidenceTable table;
  table.prior = read_prior(document.at("prior"), name);
  for (const Json& row : document.at("runs")) {
    ComparedRuns& group = table.runs.emplace_back();
    group.source = row.at("source");
    group.traits.of = class_named(row.at("class"));
    for (const auto& [word, member] : kWords) group.traits.*member = row.at(word);
    group.runs = row.at("runs");
    group.mean_error = row.at("mean_error");
    group.worst_error = row.at("worst_error");
    if (group.runs < 1) throw InputError(fmt::format("{}: runs[{}].runs: from 1", name, table.runs.size() - 1));
  }
  for (const Json& row : document.at("plans")) {
    ComparedPlans group{row.at("source"), row.at("pairs"), row.at("apart")};
    const std::string place = fmt::format("{}: plans[{}].apart", name, table.plans.size());
    if (group.pairs < 1 || group.apart.empty() || group.apart.size() > std::min(kMostValues, at(group.pairs)))
      throw InputError(fmt::format("{}: {} values for {} of them; 1 to 10 are expected, and no more than there are", place,
                                   group.apart.size(), group.pairs));
    if (!std::is_sorted(group.apart.begin(), group.apart.end()))
      throw InputError(place + ": the values are not in ascending order");
    table.plans.push_back(std::move(group));
  }
  return table;
}

std::string evidence_file() { return data_directory() + "/evidence/steps.json"; }

EvidenceTable read_shipped() {
  const std::string path = evidence_file();
  const std::optional<std::string> text = input_bytes(path);
  if (!text)
    throw InputError(path + ": this file cannot be read", "it comes with Panpipe; `make accuracy` writes it anew", code::kNoFile);
  return parse_evidence(*text, path);
}

void write_grid(JsonWriter& out, const char* name, const std::vector<Weighted>& grid) {
  out.list(name);
  for (const Weighted& entry : grid) out.value(std::vector<double>{entry.value, entry.weight});
  out.end();
}

void write_prior(JsonWriter& out, const UncertaintyPrior& prior) {
  out.object("prior", JsonLayout::Lines).field("sources", prior.sources).field("steps", prior.steps);
  out.object("spread");
  for (std::size_t d = 0; d < kDirections; ++d) out.field(name_of(static_cast<Direction>(d)), prior.spread[d]);
  out.end().field("block_spread", prior.block_spread);
  write_grid(out, "scale", prior.scale);
  write_grid(out, "scatter", prior.scatter);
  out.object("missing");
  for (std::size_t c = 0; c < kStepClasses; ++c)
    out.field(name_of(static_cast<StepClass>(c)), std::vector<double>(prior.missing[c].begin(), prior.missing[c].end()));
  out.end().list("widening");
  for (const Widening& from : prior.widening) {
    out.object().field("given", from.given);
    for (std::size_t c = 0; c < kStepClasses; ++c) out.field(name_of(static_cast<StepClass>(c)), from.factor[c]);
    out.end();
  }
  out.end().end();
}

// "half", of a share.
const char* words_of(double share) {
  if (share >= 0.85) return "nearly all";
  if (share >= 0.6) return "most";
  if (share >= 0.4) return "half";
  return share >= 0.28 ? "a third" : "a quarter";
}
// Given costs have no errors to learn.
void leave_out_all(Evidence& evidence, const Scenario& scenario) {
  if (!scenario.given_evidence) return;
  for (const GivenPiece& piece : scenario.given_evidence->pieces)
    evidence.pieces.push_back({piece.file, piece.kind, 0, 0, piece.what, "the costs of this step are given, not predicted"});
}

// Indexed by Direction.
constexpr const char* kCauseWords[kDirections] = {"the machine as a whole",
                                                  "matrix products",
                                                  "memory traffic",
                                                  "attention",
                                                  "the host's time with this trainer",
                                                  "links in a node",
                                                  "the network",
                                                  "communication that may not be hidden",
                                                  "the host's waits for the device"};
constexpr double kNamed = 0.2;  // share of the spread from which on a cause is named
constexpr std::size_t kMostNamed = 3;

}  // namespace

double weighted_quantile(std::vector<std::pair<double, double>> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  double total = 0;
  for (const auto& value : values) total += value.second;
  double before = 0, last_middle = 0, last = values.front().first;
  for (const auto& [value, weight] : values) {
    const double middle = (before + weight / 2) / total;
    if (share <= middle) return last + (value - last) * (share - last_middle) / (middle - last_middle);
    before += weight;
    last_middle = middle;
    last = value;
  }
  return last;
}

std::vector<double> representatives(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  if (values.size() <= kMostValues) return values;
  std::vector<std::pair<double, double>> weighted;
  for (const double value : values) weighted.emplace_back(value, 1);
  std::vector<double> few;
  for (std::size_t i = 0; i < kMostValues; ++i)
    few.push_back(weighted_quantile(weighted, (static_cast<double>(i) + 0.5) / static_cast<double>(kMostValues)));
  return few;
}

double EvidenceTable::tie() const {
  std::vector<std::pair<double, double>> sizes;  // a source with n pairs weighs n^-0.5 a pair: many count for more, none for all
  for (const ComparedPlans& group : plans)
    for (const double apart : group.apart)
      sizes.emplace_back(apart, std::sqrt(group.pairs) / static_cast<double>(group.apart.size()));
  return weighted_quantile(std::move(sizes), kInOrder);
}

EvidenceTable parse_evidence(const std::string& text, const std::string& name) {
  const Json document = parse_json<Json>(text, name);
  if (!document.is_object() || document.value("schema", Json()) != kEvidenceSchema)
    throw InputError(name + ": this is no document of schema 'panpipe-evidence/2'");
  try {
    return table_of(document, name);
  } catch (const Json::exception& error) {
    throw InputError(name + ": this evidence is broken: " + error.what());
  }
}

std::string to_json(const EvidenceTable& table) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", kEvidenceSchema);
  write_prior(out, table.prior);
  out.list("runs", JsonLayout::Lines);
  for (const ComparedRuns& group : table.runs) {
    out.object().field("source", group.source).field("class", name_of(group.traits.of));
    for (const auto& [word, member] : kWords) out.field(word, group.traits.*member);
    out.field("runs", group.runs).field("mean_error", group.mean_error).field("worst_error", group.worst_error).end();
  }
  out.end().list("plans", JsonLayout::Lines);
  for (const ComparedPlans& group : table.plans)
    out.object().field("source", group.source).field("pairs", group.pairs).field("apart", group.apart).end();
  return out.end().end().finish() + "\n";
}

const EvidenceTable& shipped_evidence() {
  static const EvidenceTable table = read_shipped();
  report_file_read(evidence_file());  // of every result, also of those that find it in memory
  return table;
}

std::vector<std::string> limits_of(const StepPosterior& posterior, const StepTraits& traits) {
  const StepCauses causes = posterior.causes(traits);
  std::vector<std::pair<double, std::string>> named;
  for (std::size_t c = 0; c < causes.size(); ++c) {
    if (causes[c] < kNamed) continue;
    std::string cause;
    if (c < kDirections) cause = kCauseWords[c];
    if (c == kCauseBlock) cause = "this trainer, split and device together";
    if (c == kCauseScatter) cause = "the scatter of single runs";
    if (c == kCauseMissing) cause = fmt::format("what the model misses ({})", name_of(traits.of));
    named.emplace_back(causes[c], fmt::format("{} of it: {}", words_of(causes[c]), cause));
  }
  std::stable_sort(named.begin(), named.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> limits;
  for (const auto& [share, text] : named)
    if (limits.size() < kMostNamed) limits.push_back(text);
  return limits;
}

void state_evidence(Metrics& figures, const Scenario& scenario, const StepTraits& traits) {
  if (has_given_costs(scenario)) return leave_out_all(figures.evidence, scenario);
  const UncertaintyPrior& prior = shipped_evidence().prior;
  WeighedEvidence weighed;
  if (scenario.given_evidence) weighed = weigh(*scenario.given_evidence, prior, traits);
  const StepPosterior posterior(prior, weighed.counting, traits.of);
  const auto state = [&](const StepDistribution& distribution, double& p10_s, double& p50_s, double& p90_s) {
    const Quantiles seconds = quantiles_of(figures.step_time_s, distribution);
    p10_s = seconds.p10, p50_s = seconds.p50, p90_s = seconds.p90;
  };
  Evidence& evidence = figures.evidence;
  state(posterior.distribution(traits), figures.step_time_p10_s, figures.step_time_p50_s, figures.step_time_p90_s);
  if (!weighed.counting.empty())
    state(StepPosterior(prior, {}, traits.of).distribution(traits), evidence.p10_before_s, evidence.p50_before_s,
          evidence.p90_before_s);
  evidence.pieces = std::move(weighed.pieces);
  evidence.of_class = name_of(traits.of);
  evidence.limits = limits_of(posterior, traits);
}

void write_evidence(JsonWriter& out, const Evidence& evidence) {
  out.object("evidence").list("pieces");
  for (const EvidencePiece& piece : evidence.pieces) {
    out.object().field("file", piece.file).field("kind", piece.kind);
    out.field("half_width_before", piece.half_width_before).field("half_width_after", piece.half_width_after);
    out.field("what", piece.what);
    if (!piece.left_out.empty()) out.field("left_out", piece.left_out);
    out.end();
  }
  out.end();
  if (evidence.p90_before_s > 0)
    out.object("before")
        .field("step_time_p10_s", evidence.p10_before_s)
        .field("step_time_p50_s", evidence.p50_before_s)
        .field("step_time_p90_s", evidence.p90_before_s)
        .end();
  out.field("class", evidence.of_class).field("limits", evidence.limits).end();
}

std::string sureness_text(double p10_s, double p50_s, double p90_s, const Evidence& evidence) {
  if (p90_s <= 0) return "";
  std::string text = fmt::format("80 % of runs are expected from {} to {}, half above {}", to_text(Duration(p10_s)),
                                 to_text(Duration(p90_s)), to_text(Duration(p50_s)));
  for (const std::string& limit : evidence.limits) text += "; " + limit;
  return text;
}

std::vector<std::string> evidence_lines(double p50_s, const Evidence& evidence) {
  std::vector<std::string> lines;
  if (evidence.p90_before_s > 0)
    lines.push_back(fmt::format("by the evidence, half of the runs take more than {}; without it {}, and 80 % from {} to {}",
                                to_text(Duration(p50_s)), to_text(Duration(evidence.p50_before_s)),
                                to_text(Duration(evidence.p10_before_s)), to_text(Duration(evidence.p90_before_s))));
  for (const EvidencePiece& piece : evidence.pieces) {
    std::string line = fmt::format("{} ({})", piece.file, piece.kind);
    if (!piece.what.empty()) line += ": " + piece.what;
    line += piece.left_out.empty()
                ? fmt::format("; half width {} -> {}", percent(piece.half_width_before), percent(piece.half_width_after))
                : "; left out: " + piece.left_out;
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string evidence_text(double p50_s, const Evidence& evidence) {
  std::string text;
  for (const std::string& line : evidence_lines(p50_s, evidence)) text += "  " + line + "\n";
  return text;
}

}  // namespace panpipe
