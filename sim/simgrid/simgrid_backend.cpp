// SimGrid's fluid network behind FlowBackend: the only file that names SimGrid. Built as a module that is loaded on demand
// (sim/simgrid_module.cpp).
//
// What of SimGrid is used, and why so little: timers for delays and one Comm per flow. Its Exec, actors, mailboxes and task
// graphs cost two to many times as much per activity.
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <xbt/log.h>

#include "sim/simgrid/module_interface.hpp"

namespace panpipe::sim {
namespace {

namespace sg = simgrid::s4u;

constexpr double kSecondsPerTick = 1e-12;
// SimGrid counts bytes in whole numbers: counting in 1/1024 byte keeps that rounding below a picosecond.
constexpr double kUnitsPerByte = 1024;

// The fair sharing of bytes over links and nothing else. SimGrid's defaults add effects of TCP, slow flows down by opposite
// ones, and merge events within a nanosecond.
constexpr const char* kSettings[] = {
    "network/model:CM02",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
    "surf/precision:1e-12",
};

sg::Engine& make_engine() {
  xbt_log_control_set("root.thresh:error");
  static std::string name = "panpipe";
  static char* arguments[] = {name.data(), nullptr};
  static int count = 1;
  static sg::Engine engine(&count, arguments);
  for (const char* setting : kSettings) sg::Engine::set_config(setting);
  return engine;
}

class SimGridBackend final : public FlowBackend {
 public:
  explicit SimGridBackend(const Network& network) : engine_(make_engine()) {
    make_platform(network);
    sg::Activity::on_completion_cb([this](const sg::Activity& activity) { on_completion(activity); });
  }

  Ticks now() const override { return Ticks(now_); }

  void set_timer(Ticks delay, Token token) override {
    const std::size_t slot = take_slot(free_timers_, timers_);
    timers_[slot] = {token, now_ + delay.base()};
    simgrid::kernel::timer::Timer::set(timers_[slot].due * kSecondsPerTick, [this, slot] {
      const Timer timer = timers_[slot];
      free_timers_.push_back(slot);
      now_ = timer.due;
      handler_->on_event(timer.token);
    });
  }

  void start_flow(std::int32_t route, double bytes, double rate_cap, Token token) override {
    const std::size_t slot = take_slot(free_flows_, flows_);
    sg::CommPtr comm = sg::Comm::sendto_init(sources_[static_cast<std::size_t>(route)], sink_);
    comm->set_payload_size(static_cast<std::uint64_t>(std::llround(bytes * kUnitsPerByte)));
    if (rate_cap > 0) comm->set_rate(rate_cap * kUnitsPerByte);
    comm->set_data(reinterpret_cast<void*>(slot + 1));
    flows_[slot] = {token, comm};
    comm->start();
  }

  void run(EventHandler& handler) override {
    handler_ = &handler;
    engine_.run();
  }

 private:
  struct Timer {
    Token token = 0;
    double due = 0;  // ticks
  };
  struct Flow {
    Token token = 0;
    sg::CommPtr comm;  // nothing else keeps it alive
  };

  // A route is a host whose way out is the route's links; all lead to one sink, whose way in is free. Latencies are 0: SimGrid
  // would weight a flow's share by the inverse of its latency. A link named twice in a route is used twice.
  void make_platform(const Network& network) {
    auto* zone = sg::create_star_zone("network");
    std::vector<std::int64_t> divisor(network.resources.size(), 0);  // of all uses: instead, the capacity is divided by it
    for (const auto& route : network.routes)
      for (const SharedHop& hop : route) {
        auto& known = divisor[static_cast<std::size_t>(hop.resource)];
        known = std::gcd(known, std::int64_t{hop.uses});
      }
    std::vector<const sg::Link*> links;
    for (std::size_t i = 0; i < network.resources.size(); ++i) {
      const double capacity = network.resources[i].capacity / static_cast<double>(std::max<std::int64_t>(1, divisor[i]));
      links.push_back(zone->create_link("l" + std::to_string(i), capacity * kUnitsPerByte)->set_latency(0)->seal());
    }
    for (const auto& route : network.routes) {
      sg::Host* host = zone->create_host("s" + std::to_string(sources_.size()), 1.0)->seal();
      std::vector<sg::LinkInRoute> way;
      for (const SharedHop& hop : route)
        for (std::int64_t k = hop.uses / divisor[static_cast<std::size_t>(hop.resource)]; k > 0; --k)
          way.emplace_back(links[static_cast<std::size_t>(hop.resource)]);
      zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, way, false);
      sources_.push_back(host);
    }
    sink_ = zone->create_host("sink", 1.0)->seal();
    zone->add_route(nullptr, sink_->get_netpoint(), nullptr, nullptr, std::vector<sg::LinkInRoute>{}, false);
    zone->seal();
  }

  template <class Slots>
  static std::size_t take_slot(std::vector<std::size_t>& free, Slots& slots) {
    if (free.empty()) {
      slots.emplace_back();
      return slots.size() - 1;
    }
    const std::size_t slot = free.back();
    free.pop_back();
    return slot;
  }

  void on_completion(const sg::Activity& activity) {
    const std::size_t slot = reinterpret_cast<std::size_t>(activity.get_data<void>()) - 1;
    finished_ = std::move(flows_[slot].comm);  // SimGrid still uses it after this callback: freed at the next one
    free_flows_.push_back(slot);
    now_ = std::max(now_, std::nearbyint(sg::Engine::get_clock() / kSecondsPerTick));
    handler_->on_event(flows_[slot].token);
  }

  sg::Engine& engine_;
  EventHandler* handler_ = nullptr;
  double now_ = 0;                  // ticks
  std::vector<sg::Host*> sources_;  // per route
  sg::Host* sink_ = nullptr;
  std::vector<Timer> timers_;
  std::vector<Flow> flows_;
  std::vector<std::size_t> free_timers_, free_flows_;
  sg::CommPtr finished_;
};

}  // namespace
}  // namespace panpipe::sim

extern "C" panpipe::sim::FlowBackend* panpipe_simgrid_backend(const panpipe::sim::Network* network) {
  return new panpipe::sim::SimGridBackend(*network);
}
