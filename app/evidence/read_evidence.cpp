#include "app/evidence/read_evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "app/evidence/piece_readers.hpp"
#include "app/plan_question.hpp"
#include "base/error.hpp"
#include "base/files/input_registry.hpp"
#include "base/input/source_text.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/scenario/resolve_document.hpp"
#include "jobs/trainer_data.hpp"

namespace panpipe::app {
namespace {

constexpr std::size_t kFront = 1 << 16;  // bytes that a kind is recognised by

enum class Kind { Log, Runs, Trace, Nccl, Collectives, Profile, Device, Result };

bool holds(std::string_view text, std::string_view words) { return text.find(words) != std::string_view::npos; }

// The first line with anything but a comment on it.
std::string_view first_line(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos && !line.starts_with('#')) return line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

// The value of the key `kind` of a file of ours; empty: it is none.
std::string_view stated_kind(std::string_view text) {
  constexpr std::string_view kKey = "\nkind:";
  const std::size_t key = text.find(kKey);
  if (key == std::string_view::npos || !holds(text, "panpipe:")) return {};
  std::string_view value = text.substr(key + kKey.size());
  value = value.substr(0, value.find_first_of("\r\n#"));
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value.substr(0, value.find(' '));
}

// By its contents alone.
Kind kind_of(std::string_view front) {
  const std::string_view stated = stated_kind(front), heading = first_line(front);
  if (stated == "profile") return Kind::Profile;
  if (stated == "device" || stated == "calibration") return Kind::Device;
  if (stated == "collectives") return Kind::Collectives;
  if (heading.starts_with('{') && holds(front, "\"panpipe-result/1\"")) return Kind::Result;
  constexpr std::string_view kGzip = "\x1f\x8b";
  if (front.starts_with(kGzip) ||
      (heading.starts_with('{') && (holds(front, "\"traceEvents\"") || holds(front, "\"schemaVersion\""))))
    return Kind::Trace;
  if (holds(front, "nThread") && holds(front, "busbw")) return Kind::Nccl;
  if (holds(front, "algbw") && holds(front, "busbw")) return Kind::Nccl;
  if (holds(heading, ",") && holds(heading, "id") && holds(heading, "step_s")) return Kind::Runs;
  return Kind::Log;
}

std::vector<GivenPiece> pieces_of(const EvidenceRequest& request, StatedJob& job) {
  const std::optional<std::string> front = input_bytes(request.file, kFront);
  if (!front) throw InputError(fmt::format("{}: cannot be read", request.file), "", code::kNoFile);
  const Kind kind = kind_of(*front);
  if (!request.ids.empty() && kind != Kind::Runs)
    throw InputError(fmt::format("{}: 'ids' name rows of a table of runs, and this is none", request.file));
  switch (kind) {
    case Kind::Runs:
      return run_pieces(request);
    case Kind::Trace:
      return trace_pieces(request, job);
    case Kind::Nccl:
      return nccl_pieces(request, read_text_file(request.file), job.asked());
    case Kind::Collectives:
      return collective_pieces(request, job.asked());
    case Kind::Profile:
      return profile_pieces(request, job.asked());
    case Kind::Device:
      return device_pieces(request, job.asked());
    case Kind::Result:
      return result_pieces(request, job);
    case Kind::Log:
      break;
  }
  return log_pieces(request, job);
}

bool has_other_overrides(const Node& node) {
  if (node.overridden) return true;
  const auto other = [](const NodePtr& item) { return item && has_other_overrides(*item); };
  return std::any_of(node.items.begin(), node.items.end(), other) ||
         std::any_of(node.entries.begin(), node.entries.end(),
                     [&](const Node::Entry& entry) { return entry.value && entry.key != "evidence" && other(entry.value); });
}

// A tree that no file holds, as from Python, has no lines.
bool is_of_file(const Scenario& scenario) { return scenario.document && scenario.document->line > 0; }

}  // namespace

StatedJob::StatedJob(const Scenario& scenario) : asked_(scenario) {}

const Experiment* StatedJob::experiment() {
  if (std::exchange(tried_, true)) return experiment_.get();
  if (!is_of_file(asked_) && (!asked_.document || has_other_overrides(*asked_.document))) {
    why_ = "this scenario was changed since, and is in no file";
    return nullptr;
  }
  try {
    Scenario stated = is_of_file(asked_) ? resolve_document(scenario_document(asked_.file), asked_.file) : asked_;
    if (!states_plan(stated)) {
      why_ = "this scenario states no whole plan";
      return nullptr;
    }
    auto experiment = std::make_unique<Experiment>(std::move(stated));
    plan_ = experiment->plan("");
    experiment_ = std::move(experiment);
  } catch (const InputError&) {  // a trainer's job, or what only overrides complete
    why_ = "its file alone is no scenario";
  } catch (const NoAnswer&) {
    why_ = "the scenario in its file cannot be predicted";
  }
  return experiment_.get();
}

const Plan* StatedJob::plan() { return experiment() != nullptr ? &*plan_ : nullptr; }

double add_step(GivenPiece& piece, const Experiment& experiment, const Plan& plan, double measured_s) {
  const TaskGraph graph = lower(experiment.scenario, plan, experiment.model);
  const StepFigures figures = step_figures(graph, experiment.scenario, plan);
  ComparedStep& step = piece.observations.emplace_back();
  static_cast<StepTraits&>(step) = figures.traits;
  step.off = std::log(measured_s / figures.step_time_s);
  piece.machine = step.machine;
  piece.trainer = step.framework;
  piece.wiring = step.wiring;
  return step.off;
}

std::string longer_text(double off) {
  const double share = std::expm1(off);
  if (std::abs(share) < 0.0005) return "as predicted";
  return fmt::format("{:.1f} % {} than predicted", 100 * std::abs(share), share > 0 ? "longer" : "shorter");
}

std::shared_ptr<const GivenEvidence> read_evidence(const Scenario& scenario) {
  auto given = std::make_shared<GivenEvidence>();
  StatedJob job(scenario);
  std::set<std::tuple<std::string, std::vector<std::string>, std::string>> seen;
  for (const EvidenceRequest& request : scenario.evidence) try {
      std::error_code unknown;
      const std::string file = std::filesystem::weakly_canonical(request.file, unknown).string();
      if (!seen.insert({unknown ? request.file : file, request.ids, request.job}).second) continue;  // it counts once
      for (GivenPiece& piece : pieces_of(request, job)) given->pieces.push_back(std::move(piece));
    } catch (const InputError& error) {
      throw placed(error, scenario, request.key);
    }
  return given;
}

Scenario with_evidence(Scenario scenario) {
  if (!scenario.evidence.empty()) scenario.given_evidence = read_evidence(scenario);
  return scenario;
}

Scenario EvidenceOfCells::with(Scenario scenario) {
  if (scenario.evidence.empty()) return scenario;
  const auto same = [](const EvidenceRequest& a, const EvidenceRequest& b) {
    return std::tie(a.file, a.ids, a.job) == std::tie(b.file, b.ids, b.job);
  };
  // What pieces are compared with.
  std::string compared;
  if (scenario.document)
    for (const char* key : {"cluster", "workload", "precision", "framework", "trainer", "profile", "optimizer"})
      if (const Node* value = scenario.document->find(key)) compared += fmt::format("{}: {}\n", key, jobs::flow_text(*value));
  if (!std::equal(requests_.begin(), requests_.end(), scenario.evidence.begin(), scenario.evidence.end(), same)) read_.clear();
  requests_ = scenario.evidence;
  std::shared_ptr<const GivenEvidence>& given = read_[compared];
  if (!given) given = read_evidence(scenario);
  scenario.given_evidence = given;
  return scenario;
}

}  // namespace panpipe::app
