// read: what a file is that the page was given, and the scenario that it leads to.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "app/evidence/piece_kind.hpp"
#include "app/import_log.hpp"
#include "base/error.hpp"
#include "base/input/source_text.hpp"
#include "base/input/yaml_document.hpp"
#include "base/text/trimmed.hpp"
#include "jobs/import.hpp"
#include "jobs/job_json.hpp"
#include "jobs/stated_options.hpp"
#include "jobs/trainer_jobs.hpp"
#include "present/picture/timeline_picture.hpp"
#include "present/result/read_result.hpp"
#include "schedule/schedule.hpp"
#include "web/engine/call.hpp"

namespace panpipe::web {
namespace {

jobs::JobOptions options_of(const Call& call) {
  jobs::JobOptions options;
  for (const jobs::StatedOption& row : jobs::stated_options())
    if (row.text != nullptr)
      options.*row.text = call.text(row.name);
    else if (call.has(row.name))
      options.*row.number = call.number(row.name, 0);
  options.keeps_unknown = true;
  return options;
}

void add_lines(Json& notes, const char* kind, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) notes.push_back(fmt::format("{}: {}", kind, line));
}

Answer answer_of(const jobs::ImportedJob& job, const char* kind) {
  Json notes = Json::array(), unknown = Json::array();
  add_lines(notes, "assumed", job.assumptions);
  add_lines(notes, "not part of a prediction", job.not_modelled);
  add_lines(notes, "not understood", job.not_understood);
  for (const jobs::UnknownName& one : job.unknown)
    unknown.push_back({{"name", one.name}, {"line", one.line}, {"file", one.file}});
  Answer answer;
  answer.add("kind", kind).add("trainer", job.trainer).add("notes", notes).add("unknown", unknown);
  answer.add_json("document", jobs::to_json(job));
  if (job.unknown.empty()) answer.add("scenario", jobs::scenario_text(job));
  return answer;
}

bool holds(const std::string& text, std::string_view words) { return text.find(words) != std::string::npos; }

// Keys that one trainer's configurations have.
struct Mark {
  const char *word, *trainer;
};
constexpr Mark kMarks[] = {{"zero_optimization", "deepspeed"},
                           {"train_micro_batch_size_per_gpu", "deepspeed"},
                           {"train_batch_size", "deepspeed"},
                           {"\"parallelism\"", "torchtitan"},
                           {"distributed_type", "accelerate"},
                           {"pp_engine", "nanotron"},
                           {"per_device_train_batch_size", "huggingface"}};

// The trainers whose importers are tried: the one that is named or recognised, else all.
std::vector<std::string> trainers_of(const Call& call, const std::string& text, bool script) {
  if (call.has("trainer")) return {call.text("trainer")};
  if (!script)
    for (const Mark& mark : kMarks)
      if (holds(text, mark.word)) return {mark.trainer};
  if (trimmed(text).starts_with('{'))  // TorchTitan's importer takes any map, and its default model for the rest
    throw InputError(
        "this is JSON of no kind that is known",
        "the page reads a model's config.json, which has a model_type, results, traces, and configurations of DeepSpeed, "
        "Accelerate, Hugging Face's Trainer and TorchTitan");
  std::vector<std::string> trainers;
  for (const jobs::TrainerJobs& row : jobs::trainer_jobs())
    if (row.importer.read != nullptr && (row.importer.script || !script)) trainers.emplace_back(row.name);
  return trainers;
}

Answer read_job(const Call& call, const std::string& file, const std::string& text, bool script) {
  const char* kind = script ? "launch script" : "job";
  const jobs::JobOptions options = options_of(call);
  std::optional<InputError> first;
  std::optional<jobs::ImportedJob> partial;
  for (const std::string& trainer : trainers_of(call, text, script)) {
    try {
      jobs::ImportedJob job = jobs::import_job(trainer, file, options);
      if (job.unknown.empty()) {
        jobs::add_assumptions_of_model(job, file);
        return answer_of(job, kind);
      }
      if (!partial) partial = std::move(job);
    } catch (const InputError& refused) {
      if (!first) first = refused;
    }
  }
  if (partial) return answer_of(*partial, kind);
  throw *first;
}

Answer read_log(const Call& call, const std::string& file) {
  app::LogRequest request;
  request.file = file;
  request.job = options_of(call);
  if (call.has("scenario")) request.scenario = call.name();
  request.overrides = call.settings();
  request.run = call.number("run", 0);
  const app::LogAnswer log = app::import_log(request);
  Json notes = Json::array();
  for (const app::OpenPoint& point : log.open) notes.push_back(point.reason);
  for (const std::string& contradiction : log.contradictions()) notes.push_back(contradiction);
  Answer answer;
  answer.add("kind", "log").add("notes", notes).add("text", app::to_text(log, {})).add_json("document", app::to_json(log));
  answer.add("settings", Json::array({"evidence+=" + file}));
  if (!log.scenario.empty()) answer.add("scenario", log.scenario);
  return answer;
}

Answer read_result(const std::string& file) {
  const present::ResultDocument result = present::read_result(file);
  Answer answer;
  answer.add("kind", "result").add("notes", result.heading).add("scenario_name", result.scenario);
  if (result.has_timeline) answer.add_picture(present::data_of(present::picture_of(result.timeline, result.scenario)));
  return answer;
}

// A model's configuration, as Hugging Face writes it.
Answer read_config(const std::string& file) {
  return Answer()
      .add("kind", "config")
      .add("settings", Json::array({fmt::format("workload={{config: {}}}", file)}))
      .add("notes", Json::array());
}

Answer read_order(const std::string& file) {
  const Schedule schedule = load_schedule_csv(file);
  return Answer()
      .add("kind", "order")
      .add("ranks", schedule.ranks)
      .add("microbatches", schedule.microbatches)
      .add("settings", Json::array({fmt::format("schedule={{csv: {}}}", file)}))
      .add("notes", schedule.notes);
}

Answer read_piece(const Call& call, const std::string& file) {
  const app::PieceKind kind = app::kind_of_piece(file);
  if (kind == app::PieceKind::Log) return read_log(call, file);
  if (kind == app::PieceKind::Result) return read_result(file);
  return Answer()
      .add("kind", kind == app::PieceKind::Nccl ? "nccl-tests" : app::name_of(kind))
      .add("notes", Json::array({fmt::format("{} is {}, which narrows the interval of predictions", file, app::words_of(kind))}))
      .add("settings", Json::array({"evidence+=" + file}));
}

}  // namespace

// The file at `file`, among `files`.
Answer answer_read(const Call& call) {
  const std::string file = call.text("file");
  const std::string suffix = std::filesystem::path(file).extension().string();
  if (suffix == ".gz" || suffix == ".pickle") return read_piece(call, file);
  const std::string text = read_text_file(file);
  const bool braced = trimmed(text).starts_with('{');
  if (call.has("trainer")) return read_job(call, file, text, false);
  if (text.starts_with("panpipe:") || holds(text, "\npanpipe:")) {
    const NodePtr root = parse_document(text, file, "");
    if (root->find("kind") == nullptr) return Answer().add("kind", "scenario").add("scenario", text).add("notes", Json::array());
    return read_piece(call, file);
  }
  if (braced && holds(text, "\"model_type\"")) return read_config(file);
  if (braced && holds(text, "\"panpipe-result/")) return read_result(file);
  if (text.starts_with("#!") || suffix == ".sh" || suffix == ".slurm" || suffix == ".sbatch")
    return read_job(call, file, text, true);
  if (suffix == ".csv" && !holds(text.substr(0, text.find('\n')), "step_s")) return read_order(file);
  if (suffix == ".yaml" || suffix == ".yml" || suffix == ".toml" || (braced && !holds(text, "\"traceEvents\"")))
    return read_job(call, file, text, false);
  return read_piece(call, file);
}

}  // namespace panpipe::web
