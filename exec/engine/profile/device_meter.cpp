#include "exec/engine/profile/device_meter.hpp"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <set>

#include "base/files/standard_output.hpp"
#include "exec/engine/profile/device_memory_size.hpp"
#include "exec/engine/stage/torch_error.hpp"

namespace panpipe::exec {
namespace {

// Of a measurement: fewer do not show its spread, more add nothing to it.
constexpr int kLeastSamples = 3, kMostSamples = 60;
// A sample on a GPU holds so many calls that it takes about this long: events tell microseconds apart.
constexpr double kSampleSeconds = 200e-6;
constexpr int kMostCalls = 50;
// The host needs about this long for a call; the device is kept busy meanwhile, so that calls wait in its queue.
constexpr double kHostSeconds = 8e-6;

// Of the time that is left, what one long measurement may take.
constexpr double kLongest = 0.1;

// How long a call takes relative to others, roughly: a byte moved counts as fifty operations, between a CPU's four and a GPU's
// 250.
double size_of(const DeviceMeter::Line& line) { return line.value("bytes", 0.0) + line.value("flops", 0.0) / 50; }

// "scaled_mm: not implemented", without LibTorch's stack.
std::string first_line(const std::exception& error) {
  const std::string text = text_of(error);
  return text.substr(0, std::min<std::size_t>(text.find('\n'), 200));
}

}  // namespace

void print_line(const DeviceMeter::Line& line) {
  print(line.dump() + "\n");
  std::fflush(stdout);
}

DeviceMeter::DeviceMeter(c10::Device device, double seconds)
    : device_(device),
      largest_(device_memory_size(device) / 16),
      end_(std::chrono::steady_clock::now() + std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6))) {
  if (device_.is_cpu()) return;
  const at::Tensor filled = at::empty({std::min<std::int64_t>(largest_, 64 << 20)}, at::TensorOptions(device_).dtype(at::kByte));
  filled.zero_();
  const double each = std::max(1e-7, once([&] { filled.zero_(); }));
  busy_ = [filled, each](double asked) {
    for (double given = 0; given < asked; given += each)
      filled
          .narrow(0, 0,
                  std::max<std::int64_t>(
                      1, static_cast<std::int64_t>(static_cast<double>(filled.numel()) * std::min(1.0, (asked - given) / each))))
          .zero_();
  };
}

void DeviceMeter::add(Line line, std::function<std::function<void()>()> make, Timed timed) {
  add_own(std::move(line), [this, make = std::move(make), timed](double share) { return samples_of(make(), timed, share); });
}

void DeviceMeter::add_own(Line line, std::function<std::vector<double>(double share)> measure) {
  queued_.push_back({std::move(line), std::move(measure)});
}

void DeviceMeter::unknown(const std::string& what, const std::string& why) const {
  print_line(Line{{"unknown", what}, {"why", why}});
}

void DeviceMeter::take() {
  // Short ones first, and of them one of each kind: where time runs out, every kind has been measured.
  std::stable_sort(queued_.begin(), queued_.end(),
                   [](const Queued& a, const Queued& b) { return size_of(a.line) < size_of(b.line); });
  std::set<std::string> kinds;
  std::stable_partition(queued_.begin(), queued_.end(), [&](const Queued& one) {
    return kinds.insert(one.line.value("quantity", "") + one.line.value("form", "") + one.line.value("way", "")).second;
  });
  for (std::size_t i = 0; i < queued_.size(); ++i) take(queued_[i], left() / static_cast<double>(queued_.size() - i));
  queued_.clear();
}

double DeviceMeter::left() const { return std::chrono::duration<double>(end_ - std::chrono::steady_clock::now()).count(); }

void DeviceMeter::take(const Queued& one, double share) {
  std::string what;
  for (const auto& [key, value] : one.line.items())
    if (key != "flops" && key != "bytes")
      what += (what.empty() ? "" : " ") + (value.is_string() ? value.get<std::string>() : key + " " + value.dump());
  try {
    if (share <= 0) return unknown(what, "no time was left");
    if (expected(one.line) * (kLeastSamples + 1) > std::max(share, kLongest * left()))
      return unknown(what, "the time given does not suffice: more --minutes");
    report(one.line, one.measure(share));
  } catch (const std::exception& error) {
    unknown(what, first_line(error));
  }
}

double DeviceMeter::once(const std::function<void()>& work) const {
  const Stopwatch watch(device_);
  watch.wait();
  const auto start = std::chrono::steady_clock::now();
  work();
  watch.wait();
  return seconds_since(start);
}

std::vector<double> DeviceMeter::samples_of(const std::function<void()>& work, Timed timed, double share) {
  const auto start = std::chrono::steady_clock::now();
  once(work);  // the first call also loads kernels and makes workspaces
  const double each = once(work);
  const bool queue = timed == Timed::Device && !device_.is_cpu();
  const int calls = queue ? std::clamp(static_cast<int>(std::ceil(kSampleSeconds / std::max(each, 1e-7))), 1, kMostCalls) : 1;
  std::vector<double> samples;
  while (samples.size() < kMostSamples && (samples.size() < kLeastSamples || seconds_since(start) < share)) {
    if (timed == Timed::Whole) {
      samples.push_back(once(work));
      continue;
    }
    if (queue && calls > 1) busy_(kHostSeconds * calls);
    Stopwatch watch(device_);
    watch.time(samples, [&] {
      for (int i = 0; i < calls; ++i) work();
    });
    watch.read();
    samples.back() /= calls;
  }
  return samples;
}

void DeviceMeter::report(Line line, const std::vector<double>& samples) {
  const RobustMedian reduced = robust_median(samples);
  line["median"] = reduced.median;
  line["spread"] = reduced.spread;
  line["samples"] = samples.size();
  print_line(line);
  done_.push_back(std::move(line));
}

// Seconds that a call takes at the best rate so far among lines of this quantity and form; 0: none yet.
double DeviceMeter::expected(const Line& line) const {
  const auto work_of = [](const Line& one) { return one.value("flops", one.value("bytes", 0.0)); };
  const auto alike = [&](const Line& done, const char* key) {
    return (done.contains(key) ? done[key] : Line()) == (line.contains(key) ? line[key] : Line());
  };
  double best = 0;
  for (const Line& done : done_)
    if (const double median = done["median"];
        median > 0 && alike(done, "quantity") && alike(done, "form") && alike(done, "way") && alike(done, "to"))
      best = std::max(best, work_of(done) / median);
  return best > 0 ? work_of(line) / best : 0;
}

}  // namespace panpipe::exec
