// An answer as the document panpipe-plan/1.
#include <fmt/ranges.h>

#include "base/text/quantity_text.hpp"
#include "base/text/json_text.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {
namespace {

std::string names_json(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + json::text(name);
  return "[" + out + "]";
}

std::string indices_json(const std::vector<int>& indices) { return fmt::format("[{}]", fmt::join(indices, ", ")); }

std::string stage_json(const PlannedStage& stage) {
  return fmt::format(R"({{"operators": {}, "data": {}, "tensor": {}, "recompute": {}, "devices": {}}})",
                     names_json(stage.operators), stage.data, stage.tensor, names_json(stage.recompute),
                     indices_json(stage.devices));
}

// Numbers and truth values bare, everything else as text.
std::string value_json(const std::string& value) {
  if (value == "true" || value == "false") return value;
  const Parsed<long long> number = parse_integer(value);
  return number.value ? json::number(static_cast<std::int64_t>(*number.value)) : json::text(value);
}

std::string schedule_json(const Candidate& candidate) {
  std::string out = "{\"name\": " + json::text(candidate.schedule);
  for (const auto& [key, value] : candidate.schedule_options) out += ", " + json::text(key) + ": " + value_json(value);
  return out + "}";
}

std::string settings_json(const Candidate& candidate) {
  std::string out;
  for (const auto& [key, value] : candidate.settings)
    out += (out.empty() ? "" : ", ") + json::text(key) + ": " + value_json(value);
  return "{" + out + "}";
}

std::string metrics_json(const std::vector<std::pair<std::string, double>>& metrics) {
  std::string out;
  for (const auto& [key, value] : metrics) {
    const bool whole = key.ends_with("_bytes");
    const bool truth = key == "fits";
    out += (out.empty() ? "" : ", ") + json::text(key) + ": ";
    out += truth   ? std::string(json::boolean(value != 0))
           : whole ? json::number(static_cast<std::int64_t>(value))
                   : json::number(value);
  }
  return "{" + out + "}";
}

std::string candidate_json(const Answer& answer, const Candidate& candidate, const std::string& indent) {
  std::string out = "{\n" + indent + "\"summary\": " + json::text(candidate.summary);
  out += ",\n" + indent + "\"stages\": [";
  for (std::size_t s = 0; s < candidate.stages.size(); ++s)
    out += (s == 0 ? "\n  " : ",\n  ") + indent + stage_json(candidate.stages[s]);
  out += "],\n" + indent + "\"schedule\": " + schedule_json(candidate);
  out += ",\n" + indent + "\"settings\": " + settings_json(candidate);
  out += ",\n" + indent + "\"metrics\": " + metrics_json(candidate.metrics);
  if (!candidate.simulated.empty()) out += ",\n" + indent + "\"simulated\": " + metrics_json(candidate.simulated);
  out += ",\n" + indent + "\"unused_devices\": " + indices_json(unused_devices(answer, candidate));
  return out + "}";
}

}  // namespace

std::string to_json(const Answer& answer) {
  const bool feasible = !answer.candidates.empty();
  std::string out = "{\n  \"schema\": \"panpipe-plan/1\",\n  \"method\": " + json::text(name_of(answer.method));
  out += ",\n  \"objective\": " + json::text(answer.objective);
  out += fmt::format(",\n  \"feasible\": {}", json::boolean(feasible));
  out += ",\n  \"best\": " + (feasible ? candidate_json(answer, answer.candidates.front(), "    ") : std::string("null"));
  out += ",\n  \"candidates\": [";
  for (std::size_t c = 0; c < answer.candidates.size(); ++c)
    out += (c == 0 ? "\n    " : ",\n    ") + candidate_json(answer, answer.candidates[c], "      ");
  out += fmt::format(
      "],\n  \"search\": {{\"evaluated\": {}, \"pruned\": {}, \"lower_bound\": {}, \"proved_optimal\": {}, \"interrupted\": {}}}",
      answer.search.evaluated, answer.search.pruned, json::number(answer.search.lower_bound),
      json::boolean(answer.search.proved_optimal), json::boolean(answer.interrupted));
  if (!answer.reason.empty()) out += ",\n  \"reason\": " + json::text(answer.reason);
  out += ",\n  \"notes\": " + names_json(answer.notes);
  return out + "\n}\n";
}

}  // namespace panpipe::planner
