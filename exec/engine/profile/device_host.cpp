// What a device and its host do together: launches, waits, copies; and copies between cards.
#include <ATen/Functions.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "exec/engine/profile/device_meter.hpp"
#include "exec/engine/profile/link_profiler.hpp"

namespace panpipe::exec {
namespace {

// Some milliseconds over PCIe: what starts a copy does not count.
constexpr std::int64_t kCopied = 64 << 20;
constexpr int kLaunchSamples = 5;

at::Tensor bytes_on_host(std::int64_t bytes, bool pinned) {
  const at::Tensor made = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(pinned));
  return made.zero_();
}

at::Tensor bytes_on(c10::Device device, std::int64_t bytes) {
  return at::zeros({bytes}, at::TensorOptions(device).dtype(at::kByte));
}

// A copy in each direction, on streams of their own.
std::function<void()> both_ways(c10::Device device, std::int64_t bytes) {
  const at::Tensor sent = bytes_on_host(bytes, true), taken = bytes_on_host(bytes, true);
  const at::Tensor into = bytes_on(device, bytes), from = bytes_on(device, bytes);
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream second = guard.getStreamFromGlobalPool(device, false);
  return [=] {
    const c10::impl::VirtualGuardImpl streams(device.type());
    const c10::Stream first = streams.exchangeStream(second);
    taken.copy_(from, /*non_blocking=*/true);
    streams.exchangeStream(first);
    into.copy_(sent, /*non_blocking=*/true);
    streams.synchronizeStream(second);
  };
}

}  // namespace

void add_launches(DeviceMeter& meter) {
  const c10::Device device = meter.device();
  meter.add_own({{"quantity", "launch"}}, [device](double) {
    std::vector<double> samples;
    for (int i = 0; i < kLaunchSamples; ++i) samples.push_back(measure_launch(device));
    return samples;
  });
  if (device.is_cpu()) return;
  const auto tiny = [device]() -> std::function<void()> {
    const at::Tensor value = at::ones({1}, at::TensorOptions(device).dtype(at::kFloat));
    return [value] { value.mul_(1.0); };
  };
  meter.add({{"quantity", "kernel_gap"}}, tiny);
  meter.add({{"quantity", "synchronise"}}, tiny, Timed::Whole);
}

void add_host_copies(DeviceMeter& meter) {
  const c10::Device device = meter.device();
  if (device.is_cpu()) return;
  const std::int64_t bytes = std::min(kCopied, meter.largest());
  for (const bool pinned : {true, false}) {
    for (const bool to_device : {true, false}) {
      meter.add(
          {{"quantity", "host_copy"},
           {"form", pinned ? "pinned" : "pageable"},
           {"way", to_device ? "to_device" : "from_device"},
           {"bytes", bytes}},
          [=]() -> std::function<void()> {
            const at::Tensor here = bytes_on_host(bytes, pinned), there = bytes_on(device, bytes);
            return [=] { to_device ? there.copy_(here, pinned) : here.copy_(there, pinned); };
          },
          Timed::Whole);
    }
  }
  meter.add(
      {{"quantity", "host_copy"}, {"form", "pinned"}, {"way", "both"}, {"bytes", 2 * bytes}},
      [=] { return both_ways(device, bytes); }, Timed::Whole);
}

void add_peer_copies(DeviceMeter& meter, int cards) {
  const c10::Device device = meter.device();
  if (device.is_cpu()) return;
  if (cards < 2) return meter.unknown("peer_copy", "only one card is visible");
  const std::int64_t bytes = std::min(kCopied, meter.largest());
  for (int number = 0; number < cards; ++number) {
    if (number == device.index()) continue;
    meter.add(
        {{"quantity", "peer_copy"}, {"to", number}, {"bytes", bytes}},
        [=]() -> std::function<void()> {
          const c10::Device other(device.type(), static_cast<c10::DeviceIndex>(number));
          const at::Tensor from = bytes_on(device, bytes), to = bytes_on(other, bytes);
          return [=] {
            to.copy_(from, /*non_blocking=*/true);
            Stopwatch(other).wait();
          };
        },
        Timed::Whole);
  }
}

}  // namespace panpipe::exec
