#include "cli/measure_device/measure_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "base/index.hpp"
#include "base/text/characters.hpp"
#include "base/text/quantity_text.hpp"
#include "cli/machine.hpp"
#include "cli/measure_device/device_file.hpp"
#include "cli/measure_device/other_work.hpp"
#include "cli/output.hpp"
#include "cli/selftest/child.hpp"
#include "cli/stop_on_signal.hpp"
#include "exec/launch/device_request.hpp"
#include "exec/launch/launch.hpp"

namespace panpipe::cli {
namespace {

using nlohmann::ordered_json;

// Beyond the time given: LibTorch's start, and a measurement that was begun.
constexpr double kStartSeconds = 120, kLonger = 2;
constexpr auto kBetweenLooks = std::chrono::milliseconds(250);
constexpr double kLittleUsed = 0.05;  // share of a card's memory that its driver itself holds

// The driver's number of a card that this process calls `card`; nullopt where CUDA_VISIBLE_DEVICES names cards otherwise.
std::optional<std::size_t> number_of_driver(int card) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr || *visible == '\0') return static_cast<std::size_t>(card);
  const std::vector<std::string> cards = split_text(visible, ',');
  if (at(card) >= cards.size()) return std::nullopt;
  const auto number = parse_integer(cards[at(card)]);
  return number.value && *number.value >= 0 ? std::optional<std::size_t>(*number.value) : std::nullopt;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  return "CPU";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

// Clocks and reasons for lower ones while a card works.
class Watch {
 public:
  explicit Watch(std::optional<std::size_t> card) : card_(card) {}
  // The share of the last moments in which the card computed for somebody.
  double busy() const {
    const std::vector<GpuState> states = card_ ? monitor_.now() : std::vector<GpuState>();
    return card_ && *card_ < states.size() ? states[*card_].busy : 0;
  }
  void look() {
    const auto now = std::chrono::steady_clock::now();
    if (!card_ || now - last_ < kBetweenLooks) return;
    last_ = now;
    const std::vector<GpuState> states = monitor_.now();
    if (*card_ >= states.size()) return;
    last_state_ = states[*card_];
    if (last_state_.clock > 0) clocks_.push_back(last_state_.clock);
    slowed_ |= last_state_.slowed;
  }
  void add_to(MeasuredDevice& device) {
    if (clocks_.empty()) {
      device.unknown.push_back({{"unknown", "clocks"}, {"why", "the driver's library does not report them"}});
      return;
    }
    std::sort(clocks_.begin(), clocks_.end());
    const auto at = [&](double share) {
      return clocks_[static_cast<std::size_t>(share * static_cast<double>(clocks_.size() - 1))];
    };
    device.facts["clock_mhz"] = ordered_json{
        {"median", at(0.5)}, {"p10", at(0.1)}, {"p90", at(0.9)}, {"top", last_state_.top_clock}, {"samples", clocks_.size()}};
    if ((slowed_ & (kSlowedByHeat | kSlowedByHardware | kSlowedByPowerBrake)) != 0)
      device.facts["too_hot"] = true;
    else if ((slowed_ & kSlowedByPowerLimit) != 0)
      device.notes.push_back(
          fmt::format("the card ran at its power limit of {:.0f} W, as cards do under full load", last_state_.power_limit));
  }

 private:
  std::optional<std::size_t> card_;
  GpuMonitor monitor_;
  GpuState last_state_;
  std::vector<int> clocks_;
  std::uint64_t slowed_ = 0;
  std::chrono::steady_clock::time_point last_{};
};

void read_lines(const std::string& out, MeasuredDevice& device) {
  std::istringstream lines(out);
  for (std::string text; std::getline(lines, text);) {
    ordered_json line = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object()) continue;
    if (line.contains("facts")) {
      for (const auto& [key, value] : line["facts"].items()) device.facts[key] = value;
    } else if (line.contains("unknown")) {
      device.unknown.push_back(std::move(line));
    } else if (line.contains("quantity")) {
      device.quantities.push_back(std::move(line));
    }
  }
}

void note_other_users(const Machine& machine, std::optional<std::size_t> card, MeasuredDevice& device) {
  if (!device.gpu) {
    if (machine.load > 0.5)
      device.notes.push_back(fmt::format("other processes keep {:.1f} of {} cores busy", machine.load, machine.cores));
    return;
  }
  if (!card || *card >= machine.gpus.devices.size()) return;
  const Gpu& gpu = machine.gpus.devices[*card];
  const std::int64_t used = gpu.memory - gpu.free;
  if (gpu.free > 0 && static_cast<double>(used) > kLittleUsed * static_cast<double>(gpu.memory))
    device.notes.push_back(
        fmt::format("{} of the card's memory were in use before: another process may share the card", to_text(Bytes(used))));
}

}  // namespace

int measure_device(const MeasureDeviceRequest& request) {
  if (!std::isfinite(request.minutes) || request.minutes <= 0)
    throw InputError(fmt::format("--minutes must be positive, not {:g}", request.minutes));
  check_outputs({request.output}, kAdvice);
  if (!request.device.empty()) exec::card_of(request.device);
  exec::executor_program();
  const Machine machine = look_at_machine();
  exec::DeviceRequest asked;
  asked.device = !request.device.empty() ? request.device : machine.gpus.visible > 0 && machine.libtorch_cuda ? "cuda" : "cpu";
  asked.seconds = request.minutes * 60;
  const int card = exec::card_of(asked.device);
  MeasuredDevice device;
  device.gpu = card >= 0;
  const std::optional<std::size_t> number = device.gpu ? number_of_driver(card) : std::nullopt;
  device.name = processor_name();
  if (device.gpu) device.name = number && *number < machine.gpus.devices.size() ? machine.gpus.devices[*number].name : "";
  if (device.name.empty()) device.name = "GPU";
  device.facts = {{"date", today()}, {"host_processor", processor_name()}, {"host_cores", machine.cores}};
  if (device.gpu) device.facts["driver"] = machine.gpus.driver;
  note_other_users(machine, number, device);
  const StopOnSignal signals;
  Watch watch(number);
  if (const double busy = watch.busy(); busy > 0) device.facts["busy_before"] = busy;
  ChildEnd end;
  try {
    end = run_child([&] { return exec::launch_device(asked); }, kLonger * asked.seconds + kStartSeconds, [&] { watch.look(); });
  } catch (const Interrupted& stop) {
    print_note(fmt::format("panpipe: {}: no device file was written\n", stop.what()));
    return 128 + SIGINT;
  }
  if (!end.done()) {
    print_note(end.err.empty() ? fmt::format("panpipe measure-device: {}\n", last_words(end)) : end.err);
    return end.exit_code == 0 ? static_cast<int>(ExitCode::MachineCannot) : end.exit_code;
  }
  read_lines(end.out, device);
  if (device.gpu) watch.add_to(device);
  note_other_work(device);
  if (calibration_of(device).empty())
    throw MachineError("the time given sufficed for no product and no copy: give more --minutes");
  write_file(request.output, device_file(device), kAdvice);
  if (request.json)
    print(device_document(device).dump(2) + "\n");
  else
    show(device_text(device) + fmt::format("written to {}: a scenario names it as cluster.device\n", request.output));
  return 0;
}

}  // namespace panpipe::cli
