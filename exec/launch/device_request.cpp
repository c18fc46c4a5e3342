#include "exec/launch/device_request.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/text/quantity_text.hpp"
#include "exec/launch/launch.hpp"

namespace panpipe::exec {

int card_of(const std::string& device) {
  if (device == "cpu") return -1;
  if (device == "cuda") return 0;
  constexpr std::string_view kCard = "cuda:";
  if (device.rfind(kCard, 0) == 0) {
    const auto number = parse_integer(std::string_view(device).substr(kCard.size()));
    if (number.value && *number.value >= 0 && *number.value < 1024) return static_cast<int>(*number.value);
  }
  throw InputError(fmt::format("--device {}: unknown; a device is cpu, cuda or cuda:N, N from 0", device));
}

void add_device_options(CLI::App& app, DeviceRequest& request) {
  app.add_option("--device", request.device, "what is measured")->type_name("cpu|cuda|cuda:N");
  app.add_option("--seconds", request.seconds, "about how long all measurements may take")->check(CLI::PositiveNumber);
}

int launch_device(const DeviceRequest& request) {
  become_program({executor_program(), "device", "--device", request.device, "--seconds", fmt::format("{}", request.seconds)});
}

}  // namespace panpipe::exec
