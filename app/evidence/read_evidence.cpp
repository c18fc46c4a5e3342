#include "app/evidence/read_evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "app/evidence/piece_kind.hpp"
#include "app/evidence/piece_readers.hpp"
#include "app/plan_question.hpp"
#include "base/error.hpp"
#include "base/files/file_hash.hpp"
#include "base/files/files_read.hpp"
#include "base/index.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/scenario/resolve_document.hpp"
#include "jobs/trainer_data.hpp"
#include "validation/runs/run_row.hpp"

namespace panpipe::app {
namespace {

// How a scenario names a piece: "rows", "log"; empty: as a file alone.
std::string key_of(const Scenario& scenario, std::size_t piece) {
  const Node* all = scenario.document ? scenario.document->find("evidence") : nullptr;
  if (all == nullptr || piece >= all->items.size() || all->items[piece]->kind != NodeKind::Map) return "";
  return all->items[piece]->find("rows") != nullptr ? "rows" : "log";
}

void check_key(const std::string& key, PieceKind kind, const std::string& file) {
  const bool step = kind == PieceKind::Log || kind == PieceKind::Result;
  if (key.empty() || (key == "rows" && kind == PieceKind::Runs) || (key == "log" && step)) return;
  const std::string meaning = key == "rows" ? "a table of runs" : "a training log or a result";
  throw InputError(fmt::format("{}: this is {}, and '{}' names {}", file, words_of(kind), key, meaning),
                   kind == PieceKind::Runs ? fmt::format("{{rows: {}}}", file)
                   : step                  ? fmt::format("{{log: {}}}", file)
                                           : "name the file alone");
}

// Indexed by PieceKind.
constexpr PieceReader* kReaders[] = {log_pieces,        run_pieces,     trace_pieces,  nccl_pieces,
                                     collective_pieces, profile_pieces, device_pieces, result_pieces};

// Contents that were read before, under whatever name, measured nothing more.
class Repeats {
 public:
  // Takes the rows that count already out of the request. Returns why the piece is left out; empty: it is no repeat.
  std::string take(EvidenceRequest& request, PieceKind kind) {
    const auto found =
        std::find_if(seen_.begin(), seen_.end(), [&](const Seen& s) { return same_contents(s.file, request.file); });
    const bool is_new = found == seen_.end();
    Seen& seen = is_new ? seen_.emplace_back(Seen{request.file, {}}) : *found;
    if (kind == PieceKind::Runs) {
      if (request.ids.empty() && !is_new)
        for (const validation::RunRow& row : validation::read_runs(request.file)) request.ids.push_back(row.id);
      const bool named = !request.ids.empty();
      std::erase_if(request.ids, [&](const std::string& id) { return seen.all || !seen.ids.insert(id).second; });
      seen.all = seen.all || !named;
      if (!named || !request.ids.empty()) return "";
    } else if (is_new) {
      return "";
    }
    if (absolute(seen.file) == absolute(request.file)) return "it is named twice, and counts once";
    return fmt::format("it holds the same as {}, and counts once", seen.file);
  }

 private:
  struct Seen {
    std::string file;
    std::set<std::string> ids;
    bool all = false;
  };
  static std::string absolute(const std::string& file) {
    std::error_code unknown;
    const std::string path = std::filesystem::weakly_canonical(file, unknown).string();
    return unknown ? file : path;
  }
  std::vector<Seen> seen_;
};

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

const std::shared_ptr<const PlannedJob>& StatedJob::planned() {
  if (std::exchange(tried_, true)) return planned_;
  if (!is_of_file(asked_) && (!asked_.document || has_other_overrides(*asked_.document))) {
    why_ = "this scenario was changed since, and is in no file";
    return planned_;
  }
  try {
    Scenario stated = is_of_file(asked_) ? resolve_document(scenario_document(asked_.file), asked_.file) : asked_;
    if (!states_plan(stated)) {
      why_ = "this scenario states no whole plan";
      return planned_;
    }
    planned_ = std::make_shared<const PlannedJob>(std::move(stated));
  } catch (const InputError&) {  // a trainer's job, or what only overrides complete
    why_ = "its file alone is no scenario";
  } catch (const NoAnswer&) {
    why_ = "the scenario in its file cannot be predicted";
  }
  return planned_;
}

double add_step(GivenPiece& piece, const PlannedJob& job, double measured_s) {
  const Scenario& scenario = job.experiment.scenario;
  const StepFigures figures = step_figures(lower(scenario, job.plan, job.experiment.model), scenario, job.plan);
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
  if (share > 2) return fmt::format("{:.{}f} times as long as predicted", 1 + share, share < 9 ? 1 : 0);
  return fmt::format("{:.1f} % {} than predicted", 100 * std::abs(share), share > 0 ? "longer" : "shorter");
}

InputError named_by(const InputError& error, const Scenario& scenario, const std::string& key) {
  std::vector<Diagnostic> diagnostics = error.diagnostics();
  if (diagnostics.size() == 1 && diagnostics.front().file.empty()) return placed(error, scenario, key);
  constexpr const char* kNames = " names this file";
  for (Diagnostic& each : diagnostics)  // of a job, the innermost key is the place
    if (!each.message.ends_with(kNames)) each.message += "; " + key + kNames;
  return InputError(std::move(diagnostics));
}

std::shared_ptr<const GivenEvidence> read_evidence(const Scenario& scenario) {
  auto given = std::make_shared<GivenEvidence>();
  StatedJob job(scenario);
  Repeats repeats;
  for (std::size_t i = 0; i < scenario.evidence.size(); ++i) try {
      EvidenceRequest request = scenario.evidence[i];
      const PieceKind kind = kind_of_piece(request.file);
      check_key(key_of(scenario, i), kind, request.file);
      std::vector<GivenPiece> pieces;
      if (std::string why = repeats.take(request, kind); why.empty())
        pieces = kReaders[at(kind)](request, job);
      else
        pieces.emplace_back().left_out = std::move(why);
      for (GivenPiece& piece : pieces) {
        piece.file = request.file;
        piece.kind = name_of(kind);
        given->pieces.push_back(std::move(piece));
      }
    } catch (const InputError& error) {
      throw named_by(error, scenario, scenario.evidence[i].key);
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
  Read& read = read_[compared];
  if (!read.given) {
    const FilesRead files;
    read.given = read_evidence(scenario);
    read.files = files.paths();
  }
  for (const std::string& file : read.files) report_file_read(file);  // of each cell's answer
  scenario.given_evidence = read.given;
  return scenario;
}

}  // namespace panpipe::app
