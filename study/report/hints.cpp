#include "study/report/hints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "base/text/quantity_text.hpp"

namespace panpipe::study {
namespace {

constexpr double kLeastShare = 0.01;  // of the step
constexpr double kRoom = 0.3;         // share of a device's memory that is worth using

// A class of path (name_of(PathClass)) as text, and the text that the names of its resources contain.
struct PathWords {
  std::string_view path, words;
  std::vector<std::string_view> resources;
};

const std::vector<PathWords>& path_words() {
  static const std::vector<PathWords> kWords = {
      {"bridge", "NVLink bridges", {"bridge."}},
      {"switch", "NVSwitch", {".switch."}},
      {"peer-pcie", "PCIe", {".pcie.", "root", "peer-pcie."}},
      {"host", "copies through host memory", {".staging", ".pcie.", ".memory", "root", "host."}},
      {"host-sockets", "copies through host memory between sockets", {".staging", ".pcie.", ".memory", "root", "socket"}},
      {"network", "the network between nodes", {".nic", ".uplink.", "spine"}},
      {"given", "the cluster's links", {"link.device"}}};
  return kWords;
}

// "a, b or c"
std::string any_of(const std::vector<std::string>& ways) {
  std::string text;
  for (std::size_t i = 0; i < ways.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 < ways.size() ? ", " : " or ", ways[i]);
  return text;
}

// " A, b or c would help." Nothing when all of them are done already.
std::string advice(const std::vector<std::string>& ways, const std::string& verb) {
  std::string text = any_of(ways);
  if (text.empty()) return "";
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return " " + text + " " + verb;
}

class Hints {
 public:
  Hints(const present::ResultDocument& result, const Traffic& traffic)
      : result_(result), traffic_(traffic), plan_(result.plan), step_(result.timeline.step_time.base()) {}

  std::vector<Hint> run() {
    if (!(step_ > 0)) return {};
    communication();
    bubble();
    balance();
    contention();
    std::stable_sort(hints_.begin(), hints_.end(), [](const Hint& a, const Hint& b) { return a.seconds > b.seconds; });
    memory();
    return std::move(hints_);
  }

 private:
  void add(double seconds, const std::string& text) {
    if (seconds >= kLeastShare * step_) hints_.push_back({seconds, text});
  }

  std::string share(double seconds) const { return fmt::format("{:.1f} % of the step", 100 * seconds / step_); }

  std::vector<const PathWords*> paths_of(const std::string& traffic) const {
    std::vector<const PathWords*> found;
    const auto paths = result_.paths.find(traffic);
    if (paths == result_.paths.end()) return found;
    for (const std::string& path : paths->second)
      for (const PathWords& words : path_words())
        if (words.path == path) found.push_back(&words);
    return found;
  }

  // " over NVSwitch and the network between nodes"; nothing where the document does not know.
  std::string over(const std::string& traffic) const {
    std::string text;
    const std::vector<const PathWords*> paths = paths_of(traffic);
    for (std::size_t i = 0; i < paths.size(); ++i)
      text += fmt::format("{}{}", i == 0 ? " over " : i + 1 < paths.size() ? ", " : " and ", paths[i]->words);
    return text;
  }

  // " The busiest link on its way: x." Of those that this traffic can cross; simulations know them.
  std::string busiest(const std::string& traffic) const {
    const LinkContention* link = nullptr;
    for (const LinkContention& candidate : result_.timeline.contention)
      for (const PathWords* path : paths_of(traffic))
        for (const std::string_view part : path->resources)
          if (candidate.resource.find(part) != std::string::npos && (!link || candidate.busy > link->busy)) link = &candidate;
    return link ? fmt::format(" The busiest link on its way is {}, in use for {}.", link->resource, share(link->busy.base()))
                : std::string();
  }

  void communication() {
    std::vector<std::string> ways;
    const bool context = plan_.degrees.context > 1;
    if (plan_.degrees.tensor > 1) ways.emplace_back("a smaller tensor degree");
    if (context) ways.emplace_back("a smaller context degree");
    const char* whose = !context                   ? "tensor-parallel"
                        : plan_.degrees.tensor > 1 ? "tensor- and context-parallel"
                                                   : "context-parallel";
    ways.emplace_back("faster links inside the group");
    if (!plan_.braided) ways.emplace_back("a braided schedule (stp)");
    const char* group = plan_.degrees.tensor > 1 || !context ? "tensor" : "context";
    add(traffic_.tensor, fmt::format("{} is exposed {} communication{}.{}{}", share(traffic_.tensor), whose, over(group),
                                     advice(ways, "would hide or avoid it."), busiest("tensor")));
    ways = {"stages placed along faster links", "one more forward in flight"};
    if (plan_.transfers == "blocking" || plan_.transfers == "batched")
      ways.emplace_back("sends that do not hold their rank (transfers.semantics is " + plan_.transfers + " here)");
    add(traffic_.pipeline,
        fmt::format("For {} activations and gradients travel between stages{} while the compute lane is idle.{}{}",
                    share(traffic_.pipeline), over("pipeline"), advice(ways, "would hide part of it."), busiest("pipeline")));
    ways.clear();
    if (plan_.degrees.data > 1 && !plan_.overlaps_reductions)
      ways.emplace_back("sums over replicas during the backward passes (overlap_gradients: true)");
    add(traffic_.data,
        fmt::format("{} is the summing of gradients (over replicas, or of weights that two stages share){} beside an idle "
                    "compute lane.{}{}",
                    share(traffic_.data), over("data"), advice(ways, "would hide part of it."), busiest("data")));
  }

  // Idle time of a pipeline's ramp stays the same when the microbatches are doubled: b becomes b / (2 - b).
  void bubble() {
    const double idle = result_.metric("bubble_step").value_or(0);
    const double doubled = idle / (2 - idle);
    std::vector<std::string> ways;
    if (plan_.degrees.pipeline > 1 && !plan_.splits_backward)
      ways.emplace_back("a schedule that splits the backward (zb-h1, zb-v)");
    if (plan_.degrees.pipeline > 1 && plan_.stages <= plan_.degrees.pipeline) ways.emplace_back("more stages per rank");
    const std::string fills = any_of(ways);
    add(idle * step_,
        fmt::format("Compute lanes are idle for {:.1f} % of the step (mean over devices; transfers and the optimizer's end "
                    "included). With twice the microbatches at the same idle time it would be {:.1f} %{}.",
                    100 * idle, 100 * doubled, fills.empty() ? "" : "; " + fills + " would fill part of it"));
  }

  void balance() {
    double sum = 0;
    const DeviceMetrics* most = nullptr;
    for (const DeviceMetrics& device : result_.per_device) {
      sum += device.compute_s;
      if (!most || device.compute_s > most->compute_s) most = &device;
    }
    if (!most) return;
    const double mean = sum / static_cast<double>(result_.per_device.size());
    add(most->compute_s - mean,
        fmt::format("Rank {} computes {:.1f} % longer than the mean. Cuts that even this out would shorten the step by "
                    "at most {}.",
                    most->rank, 100 * (most->compute_s / mean - 1), share(most->compute_s - mean)));
  }

  void contention() {
    const LinkContention* worst = nullptr;
    for (const LinkContention& link : result_.timeline.contention)
      if (!worst || link.lost > worst->lost) worst = &link;
    const double lost = result_.metric("contention_s").value_or(0);
    std::string text = fmt::format("{} is lost because transfers share links.", share(lost));
    if (worst && worst->lost > Duration(0))
      text += fmt::format(" Most at {}: {} over all transfers, up to {} at once.", worst->resource, to_text(worst->lost),
                          worst->flows);
    add(lost, text);
  }

  void memory() {
    const DeviceTimeline* fullest = nullptr;
    for (const DeviceTimeline& device : result_.timeline.devices)
      if (device.limit > Bytes(0) && (!fullest || device.peak - device.limit > fullest->peak - fullest->limit)) fullest = &device;
    if (!fullest) return;
    const auto largest = std::max_element(fullest->peak_parts.begin(), fullest->peak_parts.end(),
                                          [](const MemoryPart& a, const MemoryPart& b) { return a.bytes < b.bytes; });
    const std::string part = largest == fullest->peak_parts.end() ? ""
                                                                  : fmt::format(" The largest part is {} with {}.",
                                                                                name_of(largest->use), to_text(largest->bytes));
    if (fullest->peak > fullest->limit) {
      std::vector<std::string> ways;
      if (plan_.fully_recomputed_stages < plan_.stages)
        ways.emplace_back(plan_.recomputed_stages > 0 ? "more recomputation" : "recomputation");
      if (plan_.degrees.micro > 1) ways.emplace_back("smaller microbatches");
      if (plan_.degrees.data > 1 && plan_.degrees.zero < 3)
        ways.emplace_back(plan_.degrees.zero > 0 ? "a higher level of ZeRO" : "ZeRO");
      ways.emplace_back("more stages");
      hints_.push_back({0, fmt::format("It does not fit: device {} needs {} of {}.{}{}", fullest->device, to_text(fullest->peak),
                                       to_text(fullest->limit), part, advice(ways, "may make it fit."))});
    } else if (const double used = static_cast<double>(fullest->peak.base()) / static_cast<double>(fullest->limit.base());
               used < 1 - kRoom) {
      std::vector<std::string> ways = {"larger microbatches"};
      if (plan_.recomputed_stages > 0) ways.emplace_back("less recomputation");
      ways.emplace_back("a schedule that holds more activations");
      const std::string of_limit = used < 0.01 ? "less than 1 %" : fmt::format("only {:.0f} %", 100 * used);
      hints_.push_back({0, fmt::format("Even the fullest device (device {}) uses {} of its memory: {} may be faster.",
                                       fullest->device, of_limit, any_of(ways))});
    }
  }

  const present::ResultDocument& result_;
  const Traffic& traffic_;
  const present::PlanFacts plan_;
  double step_;
  std::vector<Hint> hints_;
};

}  // namespace

std::vector<Hint> hints_for(const present::ResultDocument& result, const Traffic& traffic) {
  return Hints(result, traffic).run();
}

}  // namespace panpipe::study
