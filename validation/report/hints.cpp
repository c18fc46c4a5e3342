#include "validation/report/hints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "costmodel/base/quantity_text.hpp"

namespace panpipe {
namespace {

constexpr double kWorthSaying = 0.01;  // of the step
constexpr double kRoom = 0.3;          // share of a device's memory that is worth using

// A class of path (name_of(PathClass)) in words, and what the names of its resources contain.
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

class Hints {
 public:
  Hints(const ResultDocument& result, const Traffic& traffic)
      : result_(result), traffic_(traffic), step_(result.timeline.step_time.base()) {}

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
  double metric(const std::string& name) const {
    for (const auto& [key, value] : result_.metrics)
      if (key == name) return value;
    return 0;
  }

  void say(double seconds, const std::string& text) {
    if (seconds >= kWorthSaying * step_) hints_.push_back({seconds, text});
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
    say(traffic_.tensor,
        fmt::format("{} is exposed tensor-parallel communication{}. A smaller tensor degree, faster links inside the "
                    "group, or a braided schedule (stp) would hide or avoid it.{}",
                    share(traffic_.tensor), over("tensor"), busiest("tensor")));
    say(traffic_.pipeline,
        fmt::format("For {} activations and gradients travel between stages{} while the compute lane is idle. Stages placed "
                    "along faster links, or one more forward in flight, would hide part of it.{}",
                    share(traffic_.pipeline), over("pipeline"), busiest("pipeline")));
    say(traffic_.data,
        fmt::format("{} is the summing of gradients (over replicas, or of weights that two stages share){} beside an idle "
                    "compute lane. overlap_gradients: true starts that over replicas during the backward passes.{}",
                    share(traffic_.data), over("data"), busiest("data")));
  }

  // Idle time of a pipeline's ramp stays the same when the microbatches are doubled: b becomes b / (2 - b).
  void bubble() {
    const double idle = metric("bubble_step");
    const double doubled = idle / (2 - idle);
    say(idle * step_,
        fmt::format("Compute lanes are idle for {:.1f} % of the step (mean over devices; transfers and the optimizer's end "
                    "included). With twice the microbatches at the same idle time it would be {:.1f} %; a schedule that "
                    "splits the backward (zb-h1, zb-v) or more stages per rank would fill part of it.",
                    100 * idle, 100 * doubled));
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
    say(most->compute_s - mean,
        fmt::format("Rank {} computes {:.1f} % longer than the mean. Cuts that even this out would shorten the step by "
                    "at most {}.",
                    most->rank, 100 * (most->compute_s / mean - 1), share(most->compute_s - mean)));
  }

  void contention() {
    const LinkContention* worst = nullptr;
    for (const LinkContention& link : result_.timeline.contention)
      if (!worst || link.lost > worst->lost) worst = &link;
    const double lost = metric("contention_s");
    std::string text = fmt::format("{} is lost because transfers share links.", share(lost));
    if (worst && worst->lost > Duration(0))
      text += fmt::format(" Most at {}: {} over all transfers, up to {} at once.", worst->resource, to_text(worst->lost),
                          worst->flows);
    say(lost, text);
  }

  void memory() {
    const DeviceTimeline* fullest = nullptr;
    for (const DeviceTimeline& device : result_.timeline.devices)
      if (device.limit > Bytes(0) && (!fullest || device.peak - device.limit > fullest->peak - fullest->limit)) fullest = &device;
    if (!fullest) return;
    const auto largest = std::max_element(fullest->peak_parts.begin(), fullest->peak_parts.end(),
                                          [](const MemoryPart& a, const MemoryPart& b) { return a.bytes < b.bytes; });
    const std::string part = largest == fullest->peak_parts.end()
                                 ? ""
                                 : fmt::format(" The largest part is {} with {}.", largest->name, to_text(largest->bytes));
    if (fullest->peak > fullest->limit) {
      hints_.push_back(
          {0, fmt::format("It does not fit: device {} needs {} of {}.{} Recomputation, smaller microbatches, ZeRO or more "
                          "stages lower it.",
                          fullest->device, to_text(fullest->peak), to_text(fullest->limit), part)});
    } else if (const double used = static_cast<double>(fullest->peak.base()) / static_cast<double>(fullest->limit.base());
               used < 1 - kRoom) {
      hints_.push_back(
          {0, fmt::format("Even the fullest device (device {}) uses only {:.0f} % of its memory: larger microbatches, less "
                          "recomputation or a schedule that holds more activations may be faster.",
                          fullest->device, 100 * used)});
    }
  }

  const ResultDocument& result_;
  const Traffic& traffic_;
  double step_;
  std::vector<Hint> hints_;
};

}  // namespace

std::vector<Hint> hints_for(const ResultDocument& result, const Traffic& traffic) { return Hints(result, traffic).run(); }

}  // namespace panpipe
