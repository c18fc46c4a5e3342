// Tried sizes as a table and as a document.
#include <fmt/format.h>

#include <algorithm>

#include "base/text/counted.hpp"
#include "base/text/json_writer.hpp"
#include "base/text/percent.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/run_quantity_text.hpp"
#include "base/text/text_style.hpp"
#include "base/text/text_table.hpp"
#include "study/sizes/sizes.hpp"

namespace panpipe::study {
namespace {

std::string limits_text(const SizeRequest& request) {
  std::string text;
  if (request.deadline) text = "within " + long_time_text(request.deadline->base());
  if (request.budget)
    text += (text.empty() ? "" : " and ") + ("for " + money_text(request.budget->amount, request.budget->currency));
  return text;
}

const char* name_of(SizeObjective objective) {
  return objective == SizeObjective::Step ? "step" : objective == SizeObjective::Cost ? "cost" : "energy";
}

std::string headline(const SizeRequest& request, const std::vector<TriedSize>& tried) {
  const int best = best_size(request, tried);
  const std::string limits = limits_text(request);
  if (best < 0) {
    const bool any = std::any_of(tried.begin(), tried.end(), [](const TriedSize& size) { return size.has_plan(); });
    return any ? fmt::format("no size tried makes it {}", limits) : std::string("no size tried has a plan that fits");
  }
  const TriedSize& size = tried[best];
  const char* what = !request.objective                          ? "the fewest"
                     : *request.objective == SizeObjective::Step ? "the fastest"
                     : *request.objective == SizeObjective::Cost ? "the cheapest"
                                                                 : "those of the least energy";
  const std::string idle = size.idle > 0 ? fmt::format(", {} of them idle,", size.idle) : "";
  std::string text = fmt::format("{}{} {} {} tried{}{}: {}", counted(size.gpus, "GPU"), idle, size.gpus == 1 ? "is" : "are", what,
                                 limits.empty() ? "" : " ", limits, long_time_text(size.run->time_s));
  if (size.run->cost) text += ", " + money_text(*size.run->cost, size.run->currency);
  if (size.run->energy_kwh) text += ", " + energy_text(*size.run->energy_kwh);
  return text;
}

bool any_run(const std::vector<TriedSize>& tried, std::optional<double> RunCost::*figure) {
  return std::any_of(tried.begin(), tried.end(), [&](const TriedSize& size) { return size.run && ((*size.run).*figure); });
}

// Figures of runs compare where all train the same in a step.
std::string note_on_samples(const std::vector<TriedSize>& tried) {
  double first = 0;
  for (const TriedSize& size : tried) {
    if (!size.has_plan()) continue;
    if (first > 0 && size.samples != first)
      return "the sizes differ in samples a step; state batch.global, so that they train alike\n";
    first = size.samples;
  }
  return "";
}

}  // namespace

std::string to_table(const SizeRequest& request, const std::vector<TriedSize>& tried, int width) {
  const bool money = any_run(tried, &RunCost::cost), energy = any_run(tried, &RunCost::energy_kwh),
             goodput = any_run(tried, &RunCost::goodput);
  std::vector<TextColumn> columns = {"GPUs", "step", "run", "GPU hours"};
  if (goodput) columns.emplace_back("goodput");
  if (money) columns.emplace_back("cost");
  if (energy) columns.emplace_back("energy");
  columns.emplace_back("<");
  columns.emplace_back("<plan");
  TextTable table(std::move(columns));
  const int best = best_size(request, tried);
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const TriedSize& size = tried[i];
    const auto cell = [&](auto&& text) { return size.has_plan() ? text(*size.run) : std::string("-"); };
    std::vector<std::string> row = {std::to_string(size.gpus), size.has_plan() ? to_text(Duration(size.step_time_s)) : "-",
                                    cell([](const RunCost& run) { return long_time_text(run.time_s); }),
                                    cell([](const RunCost& run) { return count_text(run.gpu_hours); })};
    if (goodput) row.push_back(cell([](const RunCost& run) { return run.goodput ? percent(*run.goodput) : "-"; }));
    if (money) row.push_back(cell([](const RunCost& run) { return run.cost ? money_text(*run.cost, run.currency) : "-"; }));
    if (energy) row.push_back(cell([](const RunCost& run) { return run.energy_kwh ? energy_text(*run.energy_kwh) : "-"; }));
    const std::string answer = verdict(request, size);
    row.push_back(static_cast<int>(i) == best ? "best" : answer);
    const std::string idle = size.idle > 0 ? fmt::format("{} idle; ", counted(size.idle, "GPU")) : "";
    row.push_back(size.has_plan() ? idle + size.plan : size.reason);
    table.row(std::move(row));
  }
  return wrapped(headline(request, tried) + "\n" + table.text() + note_on_samples(tried), width);
}

std::string to_json(const SizeRequest& request, const std::vector<TriedSize>& tried) {
  const int best = best_size(request, tried);
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-sizes/1");
  if (request.objective) out.field("objective", name_of(*request.objective));
  if (request.deadline) out.field("deadline_s", request.deadline->base());
  if (request.budget) out.field("budget", request.budget->amount).field("currency", request.budget->currency);
  out.field("feasible", best >= 0);
  if (best >= 0) out.field("best", tried[best].gpus);
  out.objects("sizes", tried, [&](const TriedSize& size) {
    out.field("nodes", size.nodes).field("gpus", size.gpus).field("verdict", verdict(request, size));
    if (!size.has_plan()) {
      out.field("reason", size.reason);
      return;
    }
    const RunCost& run = *size.run;
    out.field("plan", size.plan).field("step_time_s", size.step_time_s).field("run_steps", run.steps);
    out.field("run_time_s", run.time_s).field("unused_devices", size.idle).field("gpu_hours", run.gpu_hours);
    if (run.goodput) out.field("goodput", *run.goodput);
    if (run.cost) out.field("cost", *run.cost).field("currency", run.currency);
    if (run.energy_kwh) out.field("energy_kwh", *run.energy_kwh);
    if (run.carbon_kg) out.field("carbon_kg", *run.carbon_kg);
  });
  return out.end().finish() + "\n";
}

}  // namespace panpipe::study
