#include "exec/engine/profile/execute_device.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"
#include "exec/engine/device.hpp"
#include "exec/engine/profile/core_time.hpp"
#include "exec/engine/profile/device_memory_size.hpp"
#include "exec/engine/profile/device_meter.hpp"
#include "exec/launch/host.hpp"

namespace panpipe::exec {

int execute_device(const DeviceRequest& request) {
  const int card = card_of(request.device);
  int cards = 0;
  if (card >= 0) {
    cards = require_gpus("--device " + request.device);
    if (card >= cards)
      throw InputError(fmt::format("--device {}: this process sees {} card{}: cuda:0{}", request.device, cards,
                                   cards == 1 ? "" : "s", cards == 1 ? "" : fmt::format(" to cuda:{}", cards - 1)));
  } else {
    at::set_num_threads(host_cores());
  }
  const RankDevice device(card < 0 ? "cpu" : "cuda", card);
  nlohmann::ordered_json facts = device_facts(device.device());
  facts["libtorch"] = TORCH_VERSION;
  facts["cards"] = cards;
  print_line({{"facts", facts}});
  const CoreTime begin = core_time();
  DeviceMeter meter(device.device(), request.seconds);
  add_launches(meter);
  add_products(meter);
  add_memory_traffic(meter);
  add_host_copies(meter);
  add_peer_copies(meter, cards);
  add_attention(meter);
  meter.take();
  device.synchronize();
  print_line({{"facts", {{"waited", std::round(1e4 * waited_between(begin, core_time())) / 1e4}}}});
  return 0;
}

}  // namespace panpipe::exec
