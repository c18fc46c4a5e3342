// Times work on a device within a budget of seconds, and prints what it finds as lines of JSON:
//   {"facts": {"libtorch": ..., "memory": bytes, ...}}                       first
//   {"facts": {"waited": 0.01}}                                              last: core_time.hpp
//   {"quantity": "product", "form": "bf16", "m": ..., "median": seconds, "spread": ..., "samples": ...}
//   {"unknown": "product fp8", "why": "..."}                                 what could not be measured
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/engine/profile/stopwatch.hpp"

namespace panpipe::exec {

enum class Timed : std::uint8_t {
  Device,  // by events on the device's stream, several calls behind one another
  Whole,   // by the host's clock, until the device is done
};

class DeviceMeter {
 public:
  using Line = nlohmann::ordered_json;

  DeviceMeter(c10::Device device, double seconds);

  c10::Device device() const { return device_; }
  // The size of a tensor that leaves room for others: a sixteenth of the device's memory at most.
  std::int64_t largest() const { return largest_; }

  // Queues a measurement. `line` holds its quantity and sizes. `make` allocates what it needs and returns the work to time.
  void add(Line line, std::function<std::function<void()>()> make, Timed timed = Timed::Device);
  // The same for measurements that time themselves within `share` seconds and return seconds.
  void add_own(Line line, std::function<std::vector<double>(double share)> measure);
  void unknown(const std::string& what, const std::string& why) const;
  // Takes all that were queued, short ones first; each gets an equal part of the time that is left.
  void take();

 private:
  struct Queued {
    Line line;
    std::function<std::vector<double>(double share)> measure;
  };
  void take(const Queued& one, double share);
  std::vector<double> samples_of(const std::function<void()>& work, Timed timed, double share);
  double left() const;
  double expected(const Line& line) const;
  double once(const std::function<void()>& work) const;
  void report(Line line, const std::vector<double>& samples);

  c10::Device device_;
  std::int64_t largest_ = 0;
  std::chrono::steady_clock::time_point end_;
  std::vector<Queued> queued_;
  std::vector<Line> done_;
  std::function<void(double)> busy_;  // gives the device work for so many seconds
};

// At once, so that what was measured is there if the process is ended.
void print_line(const DeviceMeter::Line& line);

// Adds the measurements of each kind.
void add_products(DeviceMeter& meter);
void add_attention(DeviceMeter& meter);
void add_memory_traffic(DeviceMeter& meter);
void add_launches(DeviceMeter& meter);
void add_host_copies(DeviceMeter& meter);
void add_peer_copies(DeviceMeter& meter, int cards);

}  // namespace panpipe::exec
