#include "cli/measure_device/measure_device.hpp"

#include <fmt/format.h>

#include <algorithm>
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
#include "cli/selftest/gpu_load.hpp"
#include "cli/stop_on_signal.hpp"
#include "exec/launch/device_request.hpp"
#include "exec/launch/launch.hpp"

namespace panpipe::cli {
namespace {

using nlohmann::ordered_json;

// Beyond the time given: LibTorch's start, and a measurement that was begun.
constexpr double kStartSeconds = 120, kLonger = 2;
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

// Clocks and reasons for lower ones while the card worked.
void add_clocks(const GpuLoad& load, std::optional<std::size_t> card, MeasuredDevice& device) {
  std::vector<int> clocks = card && *card < load.states().size() ? load.clocks(*card) : std::vector<int>();
  if (clocks.empty()) {
    device.unknown.push_back({{"unknown", "clocks"}, {"why", "the driver's library does not report them"}});
    return;
  }
  const GpuState& state = load.states()[*card];
  std::sort(clocks.begin(), clocks.end());
  const auto at = [&](double share) { return clocks[static_cast<std::size_t>(share * static_cast<double>(clocks.size() - 1))]; };
  device.facts["clock_mhz"] =
      ordered_json{{"median", at(0.5)}, {"p10", at(0.1)}, {"p90", at(0.9)}, {"top", state.top_clock}, {"samples", clocks.size()}};
  if ((state.slowed & (kSlowedByHeat | kSlowedByHardware | kSlowedByPowerBrake)) != 0)
    device.facts["too_hot"] = true;
  else if ((state.slowed & kSlowedByPowerLimit) != 0)
    device.notes.push_back(
        fmt::format("the card ran at its power limit of {:.0f} W, as cards do under full load", state.power_limit));
}

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
  GpuLoad load;
  if (number)
    if (const auto states = load.monitor().now(); *number < states.size() && states[*number].busy > 0)
      device.facts["busy_before"] = states[*number].busy;
  ChildEnd end;
  try {
    end = run_child([&] { return exec::launch_device(asked); }, kLonger * asked.seconds + kStartSeconds,
                    [&] {
                      if (number) load.look();
                    });
  } catch (const Interrupted& stop) {
    print_note(fmt::format("panpipe: {}: no device file was written\n", stop.what()));
    return 128 + SIGINT;
  }
  if (!end.done()) {
    print_note(end.err.empty() || end.too_much ? fmt::format("panpipe measure-device: {}\n", last_words(end)) : end.err);
    return end.exit_code == 0 ? static_cast<int>(ExitCode::MachineCannot) : end.exit_code;
  }
  read_lines(end.out, device);
  if (device.gpu) add_clocks(load, number, device);
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
