#include "study/report/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/files/files_read.hpp"
#include "base/files/input_registry.hpp"
#include "base/text/memory_text.hpp"
#include "base/text/percent.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/run_quantity_text.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "present/page/page.hpp"
#include "present/picture/picture_layout.hpp"
#include "present/picture/timeline_picture.hpp"
#include "study/compare/compare.hpp"
#include "study/report/critical_path.hpp"
#include "study/report/hints.hpp"
#include "study/report/report_tables.hpp"
#include "study/report/timeline_view.hpp"
#include "study/report/traffic.hpp"

namespace panpipe::study {
namespace {

namespace fs = std::filesystem;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostDevices = 64;  // rows of a breakdown that can be read

std::string text_of(const fs::path& path) {
  const auto text = input_bytes(path);
  if (text) report_file_read(path);
  return text.value_or("");
}

double metric(const present::ResultDocument& result, std::string_view name) { return result.metric(name).value_or(kNone); }

class Report {
 public:
  explicit Report(const std::vector<ReportInput>& inputs) : inputs_(inputs) {
    double longest = 0;
    for (const ReportInput& input : inputs) {
      results_.push_back(&input.result);
      timelines_.push_back(&input.result.timeline);
      std::string name(name_of(input.result.kind));
      if (!names_.empty() && names_.front() == name) {
        names_.front() += " A";
        name += " B";
      }
      names_.push_back(name);
      longest = std::max(longest, input.result.timeline.step_time.base());
    }
    scale_ = present::time_scale(longest);
    rows_ = present::rows_by_rank(timelines_);
  }

  std::string run() {
    present::Page page(title(), subtitle());
    headings(page);
    for (std::size_t i = 0; i < inputs_.size(); ++i) page.figures(figures(i));
    step(page);
    breakdown(page);
    hints(page);
    path(page);
    traffic(page);
    if (inputs_.size() == 2) comparison(page);
    memory(page);
    assumptions(page);
    return page.to_html();
  }

 private:
  std::string subtitle() const {
    std::string text;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      text += fmt::format("{}{} ({})", i > 0 ? " beside " : "One step, ", names_[i], inputs_[i].result.path);
    return text;
  }

  // "gpt2-large on 8 x RTX-3090: 20.29 ms"
  std::string title() const {
    std::string text, before;
    for (const present::ResultDocument* result : results_) {
      const std::string what = what_of(*result), time = to_text(result->timeline.step_time);
      if (!text.empty()) text += " beside ";
      text += what == before ? time : fmt::format("{}: {}", what, time);
      before = what;
    }
    return text;
  }

  // The model, its size and the devices, without what their heading adds in brackets; of older documents the scenario's file.
  static std::string what_of(const present::ResultDocument& result) {
    if (result.heading.empty()) return result.scenario.empty() ? result.path : fs::path(result.scenario).filename().string();
    static const std::regex kBracket(R"( \([^()]*\))"), kSize(R"( \((?:[^()]*, )?([\d.]+ \w?) ?parameters\))");
    const std::string sized = std::regex_replace(result.heading.front(), kSize, " [$1]", std::regex_constants::format_first_only);
    std::string text = std::regex_replace(sized, kBracket, "");
    std::replace(text.begin(), text.end(), '[', '(');
    std::replace(text.begin(), text.end(), ']', ')');
    return text;
  }

  // On model, cluster and plan; once where both results are of the same.
  void headings(present::Page& page) const {
    const bool alike = inputs_.size() == 2 && inputs_[0].result.heading == inputs_[1].result.heading;
    for (std::size_t i = 0; i < (alike ? 1 : inputs_.size()); ++i)
      for (std::size_t line = 0; line < inputs_[i].result.heading.size(); ++line) {
        const std::string& text = inputs_[i].result.heading[line];
        page.note(alike || line > 0 ? text : named(i, text));
      }
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (const auto& evidence = inputs_[i].result.evidence)
        for (const std::string& line : evidence_lines(metric(inputs_[i].result, "step_time_p50_s"), *evidence))
          page.note(named(i, line));
  }

  // "simulated, " in front of what both have.
  std::string named(std::size_t i, const std::string& text) const { return inputs_.size() > 1 ? names_[i] + ": " + text : text; }

  std::vector<present::Figure> figures(std::size_t i) const {
    const present::ResultDocument& result = inputs_[i].result;
    const auto of = [&](const char* name) { return metric(result, name); };
    const bool fits = of("fits") != 0;
    std::vector<present::Figure> figures = {
        {named(i, "step time"), to_text(Duration(of("step_time_s"))), fmt::format("{:.4g} samples/s", of("samples_per_s")),
         present::Tone::Plain},
        {"bubble", percent(of("bubble_step")), percent(of("bubble_span")) + " inside each rank's own span", present::Tone::Plain},
        {"exposed communication", percent(of("exposed_communication_s") / of("step_time_s")), "mean over devices",
         present::Tone::Plain},
        {"peak memory", memory_scale(of("peak_memory_bytes")).text(of("peak_memory_bytes")), fits ? "fits" : "does not fit",
         fits ? present::Tone::Plain : present::Tone::Bad}};
    if (result.evidence && of("step_time_p90_s") > 0)
      figures.insert(figures.begin() + 1,
                     {"80 % of runs are expected",
                      fmt::format("{} to {}, half above {}", to_text(Duration(of("step_time_p10_s"))),
                                  to_text(Duration(of("step_time_p90_s"))), to_text(Duration(of("step_time_p50_s")))),
                      fmt::format("{}", fmt::join(result.evidence->limits, "; ")), present::Tone::Plain});
    if (of("mfu") > 0)
      figures.insert(figures.begin() + 1, {"MFU", percent(of("mfu")), "of the dense peak", present::Tone::Plain});
    if (of("run_time_s") > 0)  // the scenario states how much is trained
      figures.push_back({"the run", long_time_text(of("run_time_s")),
                         of("cost") > 0 ? money_text(of("cost"), result.currency) : count_text(of("gpu_hours")) + " GPU hours",
                         present::Tone::Plain});
    if (result.kind == TimelineKind::Simulated)
      figures.push_back(
          {"contention", percent(of("contention_s") / of("step_time_s")), "lost to shared links", present::Tone::Plain});
    return figures;
  }

  bool all_have_timelines() const {
    return std::all_of(inputs_.begin(), inputs_.end(), [](const ReportInput& input) { return input.result.has_timeline; });
  }

  void step(present::Page& page) const {
    page.heading("The step");
    if (!all_have_timelines()) {
      page.note(
          "A result has no timeline, so that the step cannot be drawn: make it with -o DIR (of a very long step with "
          "--all-spans), or with --json --timeline.");
      return;
    }
    add_timeline_view(page, timelines_, names_);
    page.note(
        "A rank here is a pipeline rank: a place in the pipeline, not the rank of a process that torchrun counts. Devices that "
        "do "
        "the same as another of their rank are drawn once.");
  }

  void breakdown(present::Page& page) const {
    page.heading("Where the time goes");
    present::Bars bars;
    bars.title = "Each device's step";
    bars.value = {scale_.unit, present::AxisKind::FromZero};
    bars.parts = {"compute", "exposed communication", "idle, nothing in flight"};
    bars.colours = {0, 1, present::kIdleColour};
    for (std::size_t k = 0; k < std::min(rows_.size(), kMostDevices); ++k)
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        if (!rows_[k].of[i]) continue;
        const auto& rows = inputs_[i].result.per_device;
        const auto d = static_cast<std::size_t>(rows_[k].of[i]->device - inputs_[i].result.timeline.devices.data());
        const double all = inputs_[i].result.timeline.step_time.base();
        const double rest = std::max(0.0, all - rows[d].compute_s - rows[d].exposed_communication_s);
        bars.bars.push_back(
            {named(i, fmt::format("rank {}, device {}", rows[d].rank, rows[d].device)),
             {scale_.factor * rows[d].compute_s, scale_.factor * rows[d].exposed_communication_s, scale_.factor * rest},
             ""});
      }
    page.add(bars);
    if (rows_.size() > kMostDevices) page.note(fmt::format("The first {} of {} devices.", kMostDevices, rows_.size()));
  }

  void hints(present::Page& page) const {
    page.heading("What would help");
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_.size() > 1) page.subheading(names_[i]);
      std::vector<std::string> items;
      for (const Hint& hint : hints_for(inputs_[i].result, traffic_of(inputs_[i].result)))
        items.push_back(hint.seconds > 0 ? fmt::format("At most {}: {}", to_text(Duration(hint.seconds)), hint.text) : hint.text);
      if (items.empty()) items.emplace_back("Nothing stands out: no single cause takes a hundredth of the step.");
      page.list(items);
    }
    page.note("Computed from this result alone. Each is an upper bound by itself; they do not add up.");
  }

  void path(present::Page& page) const {
    if (!all_have_timelines()) return;
    page.heading("Critical path");
    std::vector<std::map<PathPartKind, double>> sums;
    std::set<PathPartKind> kinds;  // that any of the chains has
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const std::vector<PathPart> parts = critical_path(inputs_[i].result);
      const int steps = steps_of_path(inputs_[i].result);
      sums.push_back(sums_of(parts, steps));
      for (const auto& [kind, time] : sums.back())
        if (time > 0) kinds.insert(kind);
      page.note(named(i, fmt::format("{} parts, {} changes of device{}.", parts.size(), hops(parts),
                                     steps > 1 ? fmt::format(", of {} steps in a row", steps) : "")));
    }
    present::Bars bars;
    bars.title = "What the longest chain consists of";
    bars.value = {scale_.unit, present::AxisKind::FromZero};
    for (const PathPartKind kind : kinds) bars.parts.emplace_back(name_of(kind));
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      present::Bar bar{names_[i], {}, ""};
      for (const PathPartKind kind : kinds) bar.values.push_back(scale_.factor * sums[i][kind]);
      bars.bars.push_back(bar);
    }
    page.add(bars);
    page.note(
        "From the step's end back to its start: the action before on the lane, or what came last of the inputs, collectives and "
        "own transfers that the action had to wait for. "
        "Only what lies on this chain shortens the step when it gets faster.");
  }

  static std::size_t hops(const std::vector<PathPart>& parts) {
    std::size_t hops = 0;
    for (std::size_t i = 1; i < parts.size(); ++i) hops += parts[i].device != parts[i - 1].device ? 1 : 0;
    return hops;
  }

  void traffic(present::Page& page) const {
    if (!all_have_timelines()) return;
    page.heading("Links and traffic");
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const present::ResultDocument& result = inputs_[i].result;
      if (const auto& links = result.timeline.contention; !links.empty()) page.add(links_table(links, named(i, ""), scale_));
      page.add(traffic_table(result, named(i, ""), scale_));
    }
  }

  void comparison(present::Page& page) const {
    page.heading("Side by side");
    const bool whole = all_have_timelines();
    const Comparison comparison = compared(whole);
    page.add(metrics_table(comparison, names_));
    if (!comparison.classes.empty()) page.add(classes_table(comparison, names_, scale_));
  }

  // If two plans differ, only their metrics are compared.
  Comparison compared(bool whole) const {
    const present::ResultDocument &a = inputs_[0].result, &b = inputs_[1].result;
    if (whole) try {
        return compare(a, b, {});
      } catch (const InputError&) {
      }
    return compare(a, b, {}, true);
  }

  void memory(present::Page& page) const {
    page.heading("Memory at the peak");
    std::vector<std::string> parts;  // in the order of the first device that has them
    for (const ReportInput& input : inputs_)
      for (const DeviceTimeline& device : input.result.timeline.devices)
        for (const MemoryPart& part : device.peak_parts)
          if (std::find(parts.begin(), parts.end(), name_of(part.use)) == parts.end()) parts.emplace_back(name_of(part.use));
    present::Bars bars;
    bars.title = "What each device holds when it holds most";
    double most = 0;
    for (const ReportInput& input : inputs_)
      for (const DeviceTimeline& device : input.result.timeline.devices)
        most = std::max(most, static_cast<double>(device.peak.base()));
    const MemoryScale scale = memory_scale(most);
    bars.value = {scale.unit, present::AxisKind::FromZero};
    bars.parts = parts;
    for (const present::RankRow& row : rows_)
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        if (!row.of[i] || row.of[i]->device->peak_parts.empty() || bars.bars.size() >= 2 * kMostDevices) continue;
        const DeviceTimeline& device = *row.of[i]->device;
        present::Bar bar{named(i, fmt::format("rank {}, device {}", device.rank, device.device)),
                         std::vector<double>(parts.size(), 0.0),
                         device.limit > Bytes(0) ? fmt::format("{} of {}", to_text(device.peak), to_text(device.limit))
                                                 : to_text(device.peak)};
        for (const MemoryPart& part : device.peak_parts)
          bar.values[std::find(parts.begin(), parts.end(), name_of(part.use)) - parts.begin()] +=
              scale.factor * static_cast<double>(part.bytes.base());
        bars.bars.push_back(std::move(bar));
      }
    page.add(bars);
  }

  void assumptions(present::Page& page) const {
    page.heading("Assumptions in force");
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const ReportInput& input = inputs_[i];
      if (input.scenario.empty()) {
        page.note(named(i, "the resolved scenario is not beside the result (-o DIR writes it there)."));
      } else {
        page.preformatted(input.scenario, named(i, "the resolved scenario: every value, and where it comes from"));
      }
      if (!input.plan.empty()) page.preformatted(input.plan, named(i, "the plan"));
    }
  }

  const std::vector<ReportInput>& inputs_;
  std::vector<const present::ResultDocument*> results_;
  std::vector<std::string> names_;
  std::vector<const Timeline*> timelines_;
  std::vector<present::RankRow> rows_;
  present::TimeScale scale_{1, "s"};
};

}  // namespace

ReportInput read_report_input(const std::string& path) {
  ReportInput input{present::read_result(path), "", ""};
  const fs::path folder = fs::path(input.result.path).parent_path();
  input.scenario = text_of(folder / "scenario.yaml");
  input.plan = text_of(folder / "plan.yaml");
  return input;
}

std::string to_report_page(const std::vector<ReportInput>& inputs) { return Report(inputs).run(); }

}  // namespace panpipe::study
