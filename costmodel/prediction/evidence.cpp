#include "costmodel/prediction/evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/files/files_read.hpp"
#include "base/files/input_registry.hpp"
#include "base/input/json_input.hpp"
#include "base/input/reader.hpp"
#include "base/text/json_writer.hpp"
#include "base/text/quantity_text.hpp"

namespace panpipe {
namespace {

constexpr std::string_view kEvidenceSchema = "panpipe-evidence/1";
constexpr double kInside = 0.8;  // share of runs that an interval shall hold
// Minimum for an interval; fewer runs are no evidence about a source never seen.
constexpr int kLeastSources = 2, kLeastRuns = 8;
constexpr std::size_t kMostOff = 10;

// From the narrowest to everything. The listed properties must be equal; costs are always compared.
struct Rung {
  bool device, choices, split;  // split: precision, kinds of parallelism, host-bound or not
  std::string words(const Likeness& kind) const {
    std::string text;
    const auto add = [&](const std::string& word) { text += (text.empty() ? "" : ", ") + word; };
    if (device) add(kind.device);
    if (choices) add(kind.choices);
    if (!split) return kind.costs == "formulas" ? "everything" : "everything with costs from " + kind.costs;
    if (kind.precision != "16 bit") add(kind.precision);
    add(kind.parallel);
    if (kind.host_bound) add("host-bound");
    if (!device) add("on other devices");
    if (!choices) add("with other kernels");
    return text;
  }
  bool holds(const Likeness& a, const Likeness& b) const {
    return a.costs == b.costs && (!device || a.device == b.device) && (!choices || a.choices == b.choices) &&
           (!split || (a.precision == b.precision && a.parallel == b.parallel && a.host_bound == b.host_bound));
  }
};
constexpr std::array<Rung, 4> kRungs = {Rung{true, true, true}, Rung{false, true, true}, Rung{true, false, true},
                                        Rung{false, false, false}};

using Found = std::vector<const ComparedRuns*>;

struct LeftOut {
  std::string_view source, device;
  bool holds(const ComparedRuns& group) const {
    return (!source.empty() && group.source == source) || (!device.empty() && group.kind.device == device);
  }
};

Found alike(const std::vector<ComparedRuns>& runs, const Rung& rung, const Likeness& kind, const LeftOut& without) {
  Found found;
  for (const ComparedRuns& group : runs)
    if (!without.holds(group) && rung.holds(group.kind, kind)) found.push_back(&group);
  return found;
}

std::map<std::string_view, int> runs_by_source(const Found& found) {
  std::map<std::string_view, int> counts;
  for (const ComparedRuns* group : found) counts[group->source] += group->runs;
  return counts;
}

Evidence evidence_of(const Found& found, const std::string& like) {
  Evidence evidence{0, static_cast<int>(runs_by_source(found).size()), like};
  for (const ComparedRuns* group : found) evidence.runs += group->runs;
  return evidence;
}

// The size of errors within which `kInside` of the runs lie, wider for few sources: the next source's own bias is one more draw,
// so its variance is 1 + 1/M times that of the known sources.
double width_of(const Found& found) {
  const auto counts = runs_by_source(found);
  std::vector<std::pair<double, double>> sizes;
  for (const ComparedRuns* group : found)
    for (const double off : group->off)
      sizes.emplace_back(std::abs(off),
                         group->runs * run_weight(counts.at(group->source)) / static_cast<double>(group->off.size()));
  return weighted_quantile(std::move(sizes), kInside) * (1 + 1 / static_cast<double>(std::max<std::size_t>(1, counts.size())));
}

using Json = nlohmann::json;

// The words of a likeness in a document.
constexpr std::pair<const char*, std::string Likeness::*> kWords[] = {
    {"device", &Likeness::device},       {"choices", &Likeness::choices},   {"framework", &Likeness::framework},
    {"precision", &Likeness::precision}, {"parallel", &Likeness::parallel}, {"schedule", &Likeness::schedule},
    {"costs", &Likeness::costs}};

Likeness read_kind(const Json& row) {
  Likeness kind;
  for (const auto& [name, member] : kWords) kind.*member = row.at(name);
  kind.host_bound = row.at("host_bound");
  return kind;
}

void check_row(int count, const std::vector<double>& values, const std::string& place) {
  if (count < 1 || values.empty() || values.size() > std::min(kMostOff, static_cast<std::size_t>(count)))
    throw InputError(fmt::format("{}: {} values for {} of them; 1 to 10 are expected, and no more than there are", place,
                                 values.size(), count));
  if (!std::is_sorted(values.begin(), values.end())) throw InputError(place + ": the values are not in ascending order");
}

EvidenceTable table_of(const Json& document, const std::string& name) {
  EvidenceTable table;
  table.widening = document.at("widening");
  if (!(table.widening > 0)) throw InputError(name + ": widening is a factor above 0");
  for (const Json& row : document.at("runs")) {
    ComparedRuns group{row.at("source"), read_kind(row), row.at("runs"), row.at("off"), row.at("worst")};
    check_row(group.runs, group.off, fmt::format("{}: runs[{}].off", name, table.runs.size()));
    table.runs.push_back(std::move(group));
  }
  for (const Json& row : document.at("plans")) {
    ComparedPlans group{row.at("source"), row.at("pairs"), row.at("apart")};
    check_row(group.pairs, group.apart, fmt::format("{}: plans[{}].apart", name, table.plans.size()));
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

}  // namespace

double run_weight(int runs_of_source) { return 1 / std::sqrt(static_cast<double>(runs_of_source)); }

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
  if (values.size() <= kMostOff) return values;
  std::vector<std::pair<double, double>> weighted;
  for (const double value : values) weighted.emplace_back(value, 1);
  std::vector<double> few;
  for (std::size_t i = 0; i < kMostOff; ++i)
    few.push_back(weighted_quantile(weighted, (static_cast<double>(i) + 0.5) / static_cast<double>(kMostOff)));
  return few;
}

StepInterval EvidenceTable::interval(const Likeness& kind, std::string_view without_source,
                                     std::string_view without_device) const {
  StepInterval interval;
  interval.evidence.like = "nothing";
  for (const Rung& rung : kRungs) {
    const Found found = alike(runs, rung, kind, {without_source, without_device});
    if (found.empty()) continue;
    const Evidence evidence = evidence_of(found, rung.words(kind));
    if (rung.split && interval.evidence.runs == 0) interval.evidence = evidence;
    if (rung.split && (evidence.sources < kLeastSources || evidence.runs < kLeastRuns)) continue;
    const double width = widening * width_of(found);
    interval.low = std::exp(-width);
    interval.high = std::exp(width);
    interval.stands_on = evidence;
    break;
  }
  return interval;
}

double EvidenceTable::tie(std::string_view without_source) const {
  std::vector<std::pair<double, double>> sizes;
  for (const ComparedPlans& group : plans) {
    if (!without_source.empty() && group.source == without_source) continue;
    for (const double apart : group.apart)
      sizes.emplace_back(apart, group.pairs * run_weight(group.pairs) / static_cast<double>(group.apart.size()));
  }
  return weighted_quantile(std::move(sizes), kInside);
}

EvidenceTable parse_evidence(const std::string& text, const std::string& name) {
  const Json document = parse_json<Json>(text, name);
  if (!document.is_object() || document.value("schema", Json()) != kEvidenceSchema)
    throw InputError(name + ": this is no document of schema 'panpipe-evidence/1'");
  try {
    return table_of(document, name);
  } catch (const Json::exception& error) {
    throw InputError(name + ": this evidence is broken: " + error.what());
  }
}

std::string to_json(const EvidenceTable& table) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", kEvidenceSchema).field("widening", table.widening);
  out.list("runs", JsonLayout::Lines);
  for (const ComparedRuns& group : table.runs) {
    const Likeness& kind = group.kind;
    out.object().field("source", group.source);
    for (const auto& [name, member] : kWords) out.field(name, kind.*member);
    out.field("host_bound", kind.host_bound).field("runs", group.runs).field("off", group.off);
    out.field("worst", group.worst).end();
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

void state_evidence(Metrics& figures, const Likeness& kind) {
  const StepInterval interval = shipped_evidence().interval(kind);
  figures.evidence = interval.evidence;
  if (interval.stands_on.runs == 0) return;
  figures.step_time_p10_s = interval.low * figures.step_time_s;
  figures.step_time_p90_s = interval.high * figures.step_time_s;
}

void write_evidence(JsonWriter& out, const Evidence& evidence) {
  out.object("evidence").field("runs", evidence.runs).field("sources", evidence.sources).field("like", evidence.like).end();
}

std::string sureness_text(double p10_s, double p90_s, const Evidence& evidence) {
  if (evidence.like.empty()) return "";
  if (p90_s <= 0) return to_text(evidence);
  return fmt::format("80 % of runs are expected from {} to {}; {}", to_text(Duration(p10_s)), to_text(Duration(p90_s)),
                     to_text(evidence));
}

std::string to_text(const Evidence& evidence) {
  if (evidence.runs == 0) return "nothing alike was ever compared";
  return fmt::format("validated on {} run{} of {} source{} ({})", evidence.runs, evidence.runs == 1 ? "" : "s", evidence.sources,
                     evidence.sources == 1 ? "" : "s", evidence.like);
}

}  // namespace panpipe
