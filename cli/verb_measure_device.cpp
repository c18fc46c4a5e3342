// panpipe measure-device: what a card reaches, as a device file that a scenario can name.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/measure_device/measure_device.hpp"
#include "cli/verbs.hpp"

namespace panpipe::cli {

void add_measure_device_verb(CLI::App& sub, std::function<int()>& run) {
  auto request = std::make_shared<MeasureDeviceRequest>();
  sub.add_option("--device", request->device, "what to measure (default: cuda where there are GPUs, else cpu)")
      ->type_name("cpu|cuda|cuda:N");
  sub.add_option("-o", request->output, "write the device file here")->type_name("FILE")->required();
  sub.add_option("--minutes", request->minutes, "about how long it may take (default 5)")->type_name("N");
  sub.add_flag("--json", request->json, "print the document panpipe-device/1");
  run = [request] { return measure_device(*request); };
}

}  // namespace panpipe::cli
