#include "cli/measure_device/other_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text/percent.hpp"
#include "cli/measure_device/measured_rates.hpp"

namespace panpipe::cli {
namespace {

// Assumed: what threads wait and repeats differ on a device with nothing else to do is less.
constexpr double kLittleWaited = 0.05, kLittleBusy = 0.05, kAlike = 0.10;
constexpr double kMostTaken = 0.9;          // share of the time; of more the rest is too little to measure by
constexpr std::size_t kFewestProducts = 3;  // whose spreads count

// Of what another takes in a share of the time, the device alone has that much more.
double without(double share) { return 1 / (1 - std::min(share, kMostTaken)) - 1; }

// In the middle over products that take long enough; 0: too few.
double spread_of_products(const MeasuredDevice& device) {
  std::vector<double> spreads;
  for (const auto& line : device.quantities)
    if (line["quantity"] == "product" && line["median"] >= kLeastProduct) spreads.push_back(line["spread"]);
  if (spreads.size() < kFewestProducts) return 0;
  const auto middle = spreads.begin() + static_cast<std::ptrdiff_t>(spreads.size() / 2);
  std::nth_element(spreads.begin(), middle, spreads.end());
  return *middle;
}

}  // namespace

void note_other_work(MeasuredDevice& device) {
  double faster = 0;
  std::vector<std::string> signs;
  const auto sign = [&](double by, std::string text) {
    faster = std::max(faster, by);
    signs.push_back(std::move(text));
  };
  // A GPU's times are its own stream's: they do not wait for cores.
  if (const double waited = device.facts.value("waited", 0.0); !device.gpu && waited > kLittleWaited)
    sign(without(waited), fmt::format("its threads waited {} of their time for a core that other programs had", percent(waited)));
  if (const double busy = device.facts.value("busy_before", 0.0); busy > kLittleBusy)
    sign(without(busy), fmt::format("other programs kept the card busy for {} of the time just before", percent(busy)));
  if (const double spread = spread_of_products(device); spread > kAlike)
    sign(spread, fmt::format("repeats of one product differ by {} (interquartile range, the middle one)", percent(spread)));
  if (device.facts.value("too_hot", false) && device.facts.contains("clock_mhz")) {
    const double median = device.facts["clock_mhz"].value("median", 0), top = device.facts["clock_mhz"].value("top", 0);
    sign(median > 0 ? top / median - 1 : 0,
         "the card slowed down because of heat or at the hardware's wish: its rates here are too low for a cooler one");
  }
  if (signs.empty()) return;
  device.facts["may_be_faster"] = faster;
  signs.insert(
      signs.begin(),
      fmt::format("DISTURBED: alone this device may be {:.2f} times as fast, and the uncertainties hold that; measure it again "
                  "when nothing else runs here",
                  1 + faster));
  device.notes.insert(device.notes.begin(), signs.begin(), signs.end());
}

}  // namespace panpipe::cli
