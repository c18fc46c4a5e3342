#include "validation/fit/profile_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/input/scalar_text.hpp"
#include "base/text/percent.hpp"
#include "base/text/text_table.hpp"

namespace panpipe::validation {
namespace {

constexpr double kNormalSpread = 1.4826;  // of the median distance from the median, for a normal distribution
constexpr double kBackwardProducts = 2;   // input and weight gradient: the forward's work each
constexpr double kLeastTime = 20e-6;      // shorter operators measure their launch

struct Sample {
  double ratio = 0;  // reached / data sheet
  double weight = 0;
};

double weighted_median(std::vector<Sample> samples) {
  std::sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) { return a.ratio < b.ratio; });
  double whole = 0, below = 0;
  for (const Sample& sample : samples) whole += sample.weight;
  for (const Sample& sample : samples) {
    below += sample.weight;
    if (below >= whole / 2) return sample.ratio;
  }
  return 0;
}

double weighted_spread(const std::vector<Sample>& samples, double middle) {
  std::vector<Sample> distances;
  for (const Sample& sample : samples) distances.push_back({std::abs(std::log(sample.ratio / middle)), sample.weight});
  return kNormalSpread * weighted_median(std::move(distances));
}

class ProfileFitter {
 public:
  ProfileFitter(const std::vector<TimedOperator>& operators, const std::vector<Profile>& profiles, const DeviceType& device,
                Precision precision)
      : operators_(operators), profiles_(profiles), device_(device) {
    peak_ = device.peak_for(precision).base();
    element_ = static_cast<double>(size_of(compute_dtype(precision)).base());
    if (peak_ <= 0) throw InputError(fmt::format("the device {} has no compute rate for {}", device.name, name_of(precision)));
    std::vector<Sample> views;
    for (const TimedOperator& op : operators)
      if (op.kind == OperatorKind::View && op.forward_s > 0) views.push_back({op.forward_s, 1});
    overhead_ = weighted_median(std::move(views));
  }

  ProfileFit run() {
    result_.operators = static_cast<int>(operators_.size());
    add("gemm_efficiency", OperatorKind::Product, "matrix products, forward and backward");
    add("attention_efficiency", OperatorKind::Attention, "fused attention, forward, work as under a causal mask");
    add("memory_efficiency", OperatorKind::Traffic, "other operators, forward: what they read and write");
    add_launch();
    add_links();
    if (result_.numbers.empty())
      throw InputError(
          "these profiles hold no operators, launches or links that a calibration could be made of; panpipe profile SCENARIO -o "
          "PROFILE --operators TABLE.csv measures them");
    judge();
    return std::move(result_);
  }

 private:
  // The time of a kind at the data sheet's rates, per direction.
  double ideal(const TimedOperator& op) const {
    if (op.kind == OperatorKind::Traffic) return op.elements * element_ / device_.memory_bandwidth.base();
    return op.work / peak_;
  }

  static void push(double ideal, double time, std::vector<Sample>& samples) {
    if (ideal > 0 && time >= kLeastTime) samples.push_back({ideal / time, ideal});
  }

  void add(const char* key, OperatorKind kind, const char* what) {
    std::vector<Sample> samples;
    for (const TimedOperator& op : operators_) {
      if (op.kind != kind) continue;
      push(ideal(op), op.forward_s - overhead_, samples);
      if (kind == OperatorKind::Product) push(kBackwardProducts * ideal(op), op.backward_s - overhead_, samples);
    }
    if (samples.empty()) return;
    const double middle = weighted_median(samples);
    result_.numbers.push_back({key, middle, weighted_spread(samples, middle), static_cast<int>(samples.size()), false,
                               fmt::format("{} passes of {}, the median by work", samples.size(), what)});
  }

  void add_launch() {
    std::vector<Sample> samples;
    for (const Profile& profile : profiles_)
      if (profile.launch > Duration(0)) samples.push_back({profile.launch.base(), 1});
    const bool measured = !samples.empty();
    if (!measured && overhead_ > 0) samples.push_back({overhead_, 1});
    if (samples.empty()) return;
    const double middle = weighted_median(samples);
    result_.numbers.push_back(
        {"launch", middle, weighted_spread(samples, middle), static_cast<int>(samples.size()), true,
         measured ? "launch of the profile" : "operators that move nothing, with what waiting for them takes"});
  }

  void add_links() {
    for (const Profile& profile : profiles_)
      for (const ProfiledTransfers& transfers : profile.transfers)
        if (transfers.table.points.size() >= 2) result_.links.push_back(fitted(transfers));
    if (result_.links.empty()) return;
    std::vector<Sample> latencies;
    for (const FittedLink& link : result_.links) latencies.push_back({link.latency_s, 1});
    const double middle = weighted_median(latencies);
    result_.numbers.push_back({"transfer_latency", middle, weighted_spread(latencies, middle), static_cast<int>(latencies.size()),
                               true, "messages between ranks, see links"});
  }

  // Least squares of (a + x b) / t - 1 over the table.
  static FittedLink fitted(const ProfiledTransfers& transfers) {
    double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
    for (const auto& [bytes, time] : transfers.table.points) {
      const double a = 1 / time.base(), b = static_cast<double>(bytes.base()) / time.base();
      aa += a * a;
      ab += a * b;
      bb += b * b;
      a1 += a;
      b1 += b;
    }
    const double determinant = aa * bb - ab * ab;
    FittedLink link{transfers.transport, transfers.from, transfers.to, 0, 0, 0};
    link.latency_s = std::max(0.0, determinant > 0 ? (a1 * bb - b1 * ab) / determinant : 1 / std::max(a1, 1e-12));
    const double per_byte = bb > 0 ? std::max(1e-15, (b1 - link.latency_s * ab) / bb) : 1e-15;
    link.bytes_per_s = 1 / per_byte;
    for (const auto& [bytes, time] : transfers.table.points)
      link.worst =
          std::max(link.worst, std::abs((link.latency_s + static_cast<double>(bytes.base()) * per_byte) / time.base() - 1));
    return link;
  }

  double share_of(OperatorKind kind) const {
    const char* key = kind == OperatorKind::Product     ? "gemm_efficiency"
                      : kind == OperatorKind::Attention ? "attention_efficiency"
                                                        : "memory_efficiency";
    for (const ReachedNumber& number : result_.numbers)
      if (number.key == key) return number.value;
    return 0;
  }

  void judge() {
    double off = 0, whole = 0;
    for (const TimedOperator& op : operators_) {
      const double share = share_of(op.kind), time = op.forward_s - overhead_;
      if (op.kind == OperatorKind::View || op.kind == OperatorKind::Other || share <= 0 || time < kLeastTime) continue;
      off += std::abs(ideal(op) / share - time);
      whole += time;
    }
    result_.mean_error = whole > 0 ? off / whole : 0;
  }

  const std::vector<TimedOperator>& operators_;
  const std::vector<Profile>& profiles_;
  const DeviceType& device_;
  double peak_ = 0, element_ = 4, overhead_ = 0;
  ProfileFit result_;
};

std::string value_text(const ReachedNumber& number, double value) {
  return number.is_time ? fmt::format("{:.4g} us", value * 1e6) : fmt::format("{:.4g}", value);
}

}  // namespace

ProfileFit fit_profile(const std::vector<TimedOperator>& operators, const std::vector<Profile>& profiles,
                       const DeviceType& device, Precision precision) {
  return ProfileFitter(operators, profiles, device, precision).run();
}

std::string to_yaml(const ProfileFit& fit, const std::string& name, const std::string& device, const std::string& command) {
  const std::string what = fmt::format("{} numbers from {} measured operators", fit.numbers.size(), fit.operators);
  std::string out =
      fmt::format("# {}: {} by panpipe fit; do not edit, make it again with the command under 'fit'\n", device, what);
  out +=
      fmt::format("panpipe: 1\nkind: calibration\nname: {}\ndescription: {}\ndevices: [{}]\n", name, quoted_scalar(what), device);
  for (const ReachedNumber& number : fit.numbers)
    out += fmt::format("{}: {{value: {}, uncertainty: {}, source: {}}}\n", number.key, value_text(number, number.value),
                       value_text(number, number.value * number.spread), quoted_scalar(number.source));
  out += fmt::format("fit:\n  command: {}\n  operators: {{number: {}, mean: {:.1f} %}}  # of their forward times, by time\n",
                     quoted_scalar(command), fit.operators, 100 * fit.mean_error);
  if (!fit.links.empty()) out += "  links:  # latency + bytes / bandwidth; for the cluster's file\n";
  for (const FittedLink& link : fit.links)
    out += fmt::format("  - {{transport: {}, from: {}, to: {}, latency: {:.4g} us, bandwidth: {:.4g} GB/s, worst: {:.1f} %}}\n",
                       scalar_text(link.transport), link.from, link.to, link.latency_s * 1e6, link.bytes_per_s * 1e-9,
                       100 * link.worst);
  return out;
}

std::string to_table(const ProfileFit& fit) {
  TextTable table({"<", "reached", "spread", "<from"});
  for (const ReachedNumber& number : fit.numbers)
    table.row({number.key, value_text(number, number.value), percent(number.spread), number.source});
  std::string out = table.text();
  for (const FittedLink& link : fit.links)
    out += fmt::format("  link {} {} -> {}: {:.4g} us + bytes / {:.4g} GB/s, worst {:.1f} % of {}\n", link.transport, link.from,
                       link.to, link.latency_s * 1e6, link.bytes_per_s * 1e-9, 100 * link.worst, "its table");
  return out +
         fmt::format("\n  forward times of {} operators: {:.1f} % off, weighted by time\n", fit.operators, 100 * fit.mean_error);
}

}  // namespace panpipe::validation
