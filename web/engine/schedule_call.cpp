// schedule: the order of a family or of a CSV file, judged with plain costs and under transfers.
#include "web/engine/schedule_call.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "present/picture/schedule_picture.hpp"
#include "schedule/schedule_request.hpp"
#include "schedule/transfer_report.hpp"

namespace panpipe::web {
namespace {

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::optional<int> size_of(const Call& call, const char* key) {
  return call.has(key) ? std::optional(call.number(key, 0)) : std::nullopt;
}

Json rows_of(const Schedule& schedule) {
  Json rows = Json::array();
  for (const auto& row : schedule.order) {
    Json cells = Json::array();
    for (const Action& action : row) cells.push_back(to_text(action));
    rows.push_back(std::move(cells));
  }
  return rows;
}

// The actions that wait for each other, where an order cannot finish.
Json blocked(const std::vector<ScheduleProblem>& problems) {
  Json actions = Json::array();
  if (problems.front().message.starts_with("the order cannot finish"))
    for (const ScheduleProblem& problem : problems)
      actions.push_back({{"rank", problem.rank}, {"position", problem.position}, {"action", problem.action}});
  return actions;
}

Json problems_json(const std::vector<ScheduleProblem>& problems) {
  Json all = Json::array();
  for (const ScheduleProblem& problem : problems)
    all.push_back(
        {{"rank", problem.rank}, {"position", problem.position}, {"action", problem.action}, {"message", problem.message}});
  return all;
}

}  // namespace

PassCosts costs_of(const Call& call) {
  if (!call.has("costs")) return {};
  if (!call.at("costs").is_object()) return parse_pass_costs(call.text("costs"));
  std::vector<std::string> parts;
  for (const auto& [name, value] : call.at("costs").items()) {
    std::vector<std::string> stages;
    if (value.is_array())
      for (const Json& one : value) stages.push_back(text_of(one));
    else
      stages.push_back(text_of(value));
    parts.push_back(fmt::format("{}={}", name, fmt::join(stages, "/")));
  }
  return parse_pass_costs(fmt::format("{}", fmt::join(parts, ",")));
}

ScheduleOptions options_of(const Call& call, bool& split) {
  ScheduleOptions options;
  if (call.has("parameters"))
    for (const auto& [key, value] : call.at("parameters").items()) options[key] = text_of(value);
  split = take_braid(options);
  return options;
}

Schedule schedule_of(const Call& call, const PassCosts& costs, bool& split) {
  const ScheduleOptions options = options_of(call, split);
  if (call.has("csv")) return read_schedule_csv(call.text("csv"), call.text("name", "order.csv"));
  return obtain_schedule({call.text("family"), size_of(call, "ranks"), size_of(call, "microbatches")}, options, costs);
}

Answer answer_schedule(const Call& call) {
  const PassCosts costs = costs_of(call);
  bool split = false;
  Schedule schedule = schedule_of(call, costs, split);
  std::vector<ScheduleProblem> problems = check_schedule(schedule);
  if (const std::string lower = call.text("lower"); problems.empty() && !lower.empty()) {
    schedule = lowered(schedule, parse_lowering(lower, call.truth("defer_receives")));
    problems = check_schedule(schedule);
  }
  std::optional<ScheduleEvaluation> evaluation;
  if (problems.empty()) evaluation = evaluate(schedule, costs, split);
  Answer answer;
  answer.add("legal", problems.empty()).add("csv", to_csv(schedule, false)).add("order", rows_of(schedule));
  answer.add_json("document", to_json(schedule, problems, evaluation));
  if (!evaluation)
    return answer.add("problems", problems_json(problems)).add("cycle", blocked(problems)).add("grid", grid(schedule, problems));
  const present::Picture picture = present::picture_of(schedule, *evaluation);
  answer.add_picture(present::data_of(picture));
  if (call.has("transfers")) {
    const TransferReport report = report_transfers(schedule, costs, parse_semantics(call.text("transfers")));
    answer.add_json("transfers", report.json).add("transfers_text", report.text).add("finishes", report.finishes);
  }
  for (const std::string& wanted : call.texts("want")) {
    if (wanted == "svg") answer.add("svg", present::to_svg(picture));
    if (wanted == "torch") answer.add("torch", to_csv(schedule, true));
  }
  return answer;
}

}  // namespace panpipe::web
