// predict and compare: the step of a scenario, of two beside each other.
#include <algorithm>
#include <chrono>
#include <filesystem>

#include "app/step_notes.hpp"
#include "base/error.hpp"
#include "base/option_fault.hpp"
#include "base/text/json_writer.hpp"
#include "costmodel/cluster/links_matrix.hpp"
#include "costmodel/prediction/estimated_step.hpp"
#include "jobs/export.hpp"
#include "present/picture/timeline_picture.hpp"
#include "sim/simulate.hpp"
#include "study/compare/compare.hpp"
#include "study/report/hints.hpp"
#include "web/engine/call.hpp"

namespace panpipe::web {
namespace {

constexpr std::string_view kFlags = "flags:";  // and a trainer

// With the spans of the timeline, which as text would be millions of letters.
present::ResultDocument result_of(const app::PredictedStep& step) {
  present::ResultDocument result = present::parse_result(step.document(libraries(), false), step.planned().name);
  result.timeline = step.timeline();
  result.has_timeline = true;
  return result;
}

Json hints_of(const app::PredictedStep& step) {
  const present::ResultDocument result = result_of(step);
  Json all = Json::array();
  for (const study::Hint& hint : study::hints_for(result, study::traffic_of(result)))
    all.push_back({{"seconds", hint.seconds}, {"text", hint.text}});
  return all;
}

Json values_of(const app::PredictedStep& step) {
  Json all = Json::object();
  for (const ResolvedValue& value : step.planned().experiment.scenario.resolved)
    all[value.path] = {{"value", value.value}, {"origin", value.origin}};
  return all;
}

Json flags_of(const app::PredictedStep& step, const std::string& trainer) {
  const app::PlannedScenario& planned = step.planned();
  try {
    // A file, since an order may need another one next to it.
    const std::string file = std::filesystem::path(planned.name).stem().string() + "." + trainer;
    const jobs::ExportedJob job = jobs::export_job(trainer, {planned.experiment, planned.plan, planned.name, "", file});
    return {{"trainer", job.trainer},
            {"text", job.text},
            {"cannot", job.cannot},
            {"besides", job.besides},
            {"order", job.schedule_csv}};
  } catch (const InputError& refused) {
    return {{"refused", refused.what()}};
  }
}

// Of the last prediction, where it was too large to be given whole.
present::Picture& last_picture() {
  static present::Picture picture;
  return picture;
}

present::PictureData picture_of(const app::PredictedStep& step) {
  present::Picture picture = present::picture_of(step.timeline(), "");
  present::PictureData data = present::data_of(picture);
  last_picture() = present::drawn(picture) > present::kMostDrawn ? std::move(picture) : present::Picture();
  return data;
}

struct Part {
  const char* name;
  std::string (*json)(const app::PredictedStep& step);
};
const Part kParts[] = {
    {"document", [](const auto& step) { return step.document(libraries(), false); }},
    {"timeline", [](const auto& step) { return step.document(libraries(), true); }},
    {"text", [](const auto& step) { return json_text(step.text({})); }},
    {"svg", [](const auto& step) { return json_text(step.svg()); }},
    {"page", [](const auto& step) { return json_text(step.page(libraries())); }},
    {"trace", [](const auto& step) { return json_text(step.trace()); }},
    {"plan", [](const auto& step) { return json_text(step.plan_yaml()); }},
    {"scenario", [](const auto& step) { return json_text(step.scenario_yaml()); }},
    {"values", [](const auto& step) { return values_of(step).dump(); }},
    {"warnings", [](const auto& step) { return Json(app::step_notes(step)).dump(); }},
    {"hints", [](const auto& step) { return hints_of(step).dump(); }},
};

std::string part_of(const app::PredictedStep& step, const std::string& wanted) {
  if (wanted.starts_with(kFlags)) return flags_of(step, wanted.substr(kFlags.size())).dump();
  std::vector<std::string> names = {"picture"};
  for (const Part& part : kParts) {
    if (part.name == wanted) return part.json(step);
    names.emplace_back(part.name);
  }
  throw unknown_choice("want", wanted, names);
}

double milliseconds_since(app::PredictedStep::Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(app::PredictedStep::Clock::now() - begin).count();
}

Answer parts_of(const app::PredictedStep& step, std::vector<std::string> wanted) {
  if (wanted.empty()) wanted = {"document"};
  Answer answer;
  for (const std::string& one : wanted)
    if (one == "picture")
      answer.add_picture(picture_of(step));
    else
      answer.add_json(one, part_of(step, one));
  return answer;
}

std::shared_ptr<const app::PredictedStep> newly_predicted(const Call& call) {
  const auto begin = app::PredictedStep::Clock::now();
  const std::string engine = call.text("engine", "estimate");
  if (engine != "estimate" && engine != "simulate") throw unknown_choice("engine", engine, {"estimate", "simulate"});
  const auto planned = app::plan_scenario(
      call.name(), [&] { return call.load(); }, call.text("plan"));
  if (engine == "simulate")
    return std::make_shared<app::PredictedStep>(planned, app::simulate(*planned, {.backend = sim::Backend::FlowSolver}), begin);
  return std::make_shared<app::PredictedStep>(planned,
                                              estimated_step(planned->graph, planned->experiment.scenario, planned->plan), begin);
}

}  // namespace

// The last one answers further questions about it: a page asks for the figures, then for the picture, then for hints.
std::shared_ptr<const app::PredictedStep> predicted(const Call& call) {
  static std::string last_question;
  static std::shared_ptr<const app::PredictedStep> last;
  const std::string question = call.question();
  if (!question.empty() && question == last_question) return last;
  last_question.clear();
  last.reset();  // before the next needs its memory
  auto step = newly_predicted(call);
  if (question.empty()) return step;
  last_question = question;
  return last = step;
}
Answer answer_predict(const Call& call) {
  const auto begin = app::PredictedStep::Clock::now();
  const auto step = predicted(call);
  const double predict = milliseconds_since(begin);
  Answer answer = parts_of(*step, call.texts("want"));
  return answer.add("ms", {{"predict", predict}, {"present", milliseconds_since(begin) - predict}});
}

// The names are those of the page. Plans that differ have no actions to compare: `differs` names the first pass that only one
// has.
Answer answer_compare(const Call& call) {
  std::vector<present::ResultDocument> results;
  for (const char* side : {"a", "b"}) {
    const Call one(call.at(side));
    results.push_back(one.has("result") ? present::read_result(one.text("result")) : result_of(*predicted(one)));
  }
  const bool whole = results[0].has_timeline && results[1].has_timeline;
  Answer answer;
  std::optional<study::Comparison> comparison;
  try {
    comparison = study::compare(results[0], results[1], {}, !whole);
  } catch (const InputError& refused) {
    answer.add("differs", refused.what());
    comparison = study::compare(results[0], results[1], {}, true);
  }
  answer.add_json("document", study::to_json(*comparison)).add("text", study::to_table(*comparison));
  if (whole)
    answer.add_picture(present::data_of(present::picture_of({&results[0].timeline, &results[1].timeline}, {"before", "now"})));
  return answer;
}

Answer answer_view(const Call& call) {
  const present::View view{call.real("from", 0), call.real("to", last_picture().end), call.real("pixels", present::kPixels)};
  if (!(view.to > view.from) || !(view.pixels > 0))
    throw InputError("a view goes from an earlier to a later time, over some pixels");
  return Answer().add_picture(present::data_of(last_picture(), view));
}

Answer answer_links(const Call& call) { return Answer().add_json("document", links_json(call.load().cluster)); }

}  // namespace panpipe::web
