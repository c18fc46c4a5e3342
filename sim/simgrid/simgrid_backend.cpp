// SimGrid's fluid network behind FlowBackend: the only file that names SimGrid. Built as a module that is loaded on demand
// (sim/simgrid_module.cpp).
//
// What of SimGrid is used, and why so little: timers for delays and one Comm per flow. Its Exec, actors, mailboxes and task
// graphs cost two to many times as much per activity.
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
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

  void start_flow(std::int32_t way, double bytes, Token token) override {
    const std::size_t slot = take_slot(free_flows_, flows_);
    sg::CommPtr comm =
        sg::Comm::sendto_init(ends_[static_cast<std::size_t>(way)].first, ends_[static_cast<std::size_t>(way)].second);
    comm->set_payload_size(static_cast<std::uint64_t>(std::llround(bytes * kUnitsPerByte)));
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

  // A way is a host whose way out is the route's links; all lead to one sink, whose way in is free. Latencies are 0: SimGrid
  // would weight a flow's share by the inverse of its latency. A rate cap is a link of its own that bounds each flow alone
  // (FATPIPE): Comm::set_rate() is ignored for Comms between two hosts.
  void make_platform(const Network& network) {
    auto* star = sg::create_star_zone("network");
    const std::vector<std::int64_t> divisor = common_uses(network);
    std::vector<const sg::Link*> links;
    for (std::size_t i = 0; i < network.resources.size(); ++i) {
      const double capacity = network.resources[i].capacity / static_cast<double>(divisor[i]);
      links.push_back(star->create_link(std::to_string(i), capacity * kUnitsPerByte)->set_latency(0)->seal());
    }
    sg::Host* sink = star->create_host("sink", 1.0)->seal();
    star->add_route(nullptr, sink->get_netpoint(), nullptr, nullptr, std::vector<sg::LinkInRoute>{}, false);
    for (const Way& way : network.ways) {
      const std::string name = std::to_string(ends_.size());
      std::vector<sg::LinkInRoute> out;
      bool repeats = false;
      for (const SharedHop& hop : network.routes[static_cast<std::size_t>(way.route)]) {
        const std::int64_t times = hop.uses / divisor[static_cast<std::size_t>(hop.resource)];
        out.insert(out.end(), static_cast<std::size_t>(times), sg::LinkInRoute(links[static_cast<std::size_t>(hop.resource)]));
        repeats = repeats || times > 1;
      }
      if (way.rate_cap > 0) {
        sg::Link* cap = star->create_link(name + "cap", way.rate_cap * kUnitsPerByte)->set_latency(0);
        out.emplace_back(cap->set_sharing_policy(sg::Link::SharingPolicy::FATPIPE)->seal());
      }
      if (repeats) {
        ends_.push_back(pair_of_its_own(star, name, out));
        continue;
      }
      sg::Host* source = star->create_host(name, 1.0)->seal();
      star->add_route(source->get_netpoint(), nullptr, nullptr, nullptr, out, false);
      ends_.emplace_back(source, sink);
    }
    star->seal();
  }

  // A star zone names each link of a route once. Where a link counts more often the way gets a zone with a route as written.
  static std::pair<sg::Host*, sg::Host*> pair_of_its_own(sg::NetZone* parent, const std::string& name,
                                                         const std::vector<sg::LinkInRoute>& out) {
    auto* zone = sg::create_full_zone(name + "zone");
    zone->set_parent(parent);
    sg::Host* source = zone->create_host(name, 1.0)->seal();
    sg::Host* sink = zone->create_host(name + "sink", 1.0)->seal();
    zone->add_route(source->get_netpoint(), sink->get_netpoint(), nullptr, nullptr, out, false);
    zone->seal();
    return {source, sink};
  }

  // Per resource, a divisor of all uses: instead of naming a link often, its capacity is divided.
  static std::vector<std::int64_t> common_uses(const Network& network) {
    std::vector<std::int64_t> divisor(network.resources.size(), 0);
    for (const auto& route : network.routes)
      for (const SharedHop& hop : route) {
        auto& known = divisor[static_cast<std::size_t>(hop.resource)];
        known = std::gcd(known, std::int64_t{hop.uses});
      }
    for (auto& known : divisor) known = std::max<std::int64_t>(1, known);
    return divisor;
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
  double now_ = 0;                                     // ticks
  std::vector<std::pair<sg::Host*, sg::Host*>> ends_;  // per way
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
