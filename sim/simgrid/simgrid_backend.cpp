// SimGrid's fluid network behind FlowBackend: only this folder names SimGrid, and only versions.hpp knows its versions apart.
// Built as a module that is loaded on demand (sim/simgrid_module.cpp).
//
// What of SimGrid is used, and why so little: timers for delays and one Comm per flow. Its Exec, actors, mailboxes and task
// graphs cost two to many times as much per activity.
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <xbt/log.h>

#include "sim/simgrid/module_interface.hpp"
#include "sim/simgrid/versions.hpp"

namespace panpipe::sim {
namespace {

namespace sg = simgrid::s4u;
namespace version = simgrid_version;

constexpr double kSecondsPerTick = 1e-12;
// SimGrid counts bytes in whole numbers: counting in 1/1024 byte keeps that rounding below a picosecond.
constexpr double kUnitsPerByte = 1024;

// The fair sharing of bytes over links and nothing else. SimGrid's defaults add effects of TCP, slow flows down by opposite
// ones, and merge events within a nanosecond.
constexpr const char* kSettings[] = {
    "network/model:CM02",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
};
constexpr double kPrecision = 1e-12;  // seconds

sg::Engine& make_engine() {
  xbt_log_control_set("root.thresh:error");
  static std::string name = "panpipe";
  static char* arguments[] = {name.data(), nullptr};
  static int count = 1;
  static sg::Engine engine(&count, arguments);
  for (const char* setting : kSettings) sg::Engine::set_config(setting);
  sg::Engine::set_config(version::kTimingPrecision, kPrecision);
  return engine;
}

class SimGridBackend final : public FlowBackend {
 public:
  explicit SimGridBackend(const Network& network) : engine_(make_engine()) {
    make_platform(network);
    version::at_end_of_flows([this](const sg::Activity& activity) { on_completion(activity); });
  }

  Ticks now() const override { return Ticks(now_); }

  // Pipeline groups that run alike start their timers one after another for the same moment: one timer of SimGrid's serves them
  // all.
  void set_timer(Ticks delay, Token token) override {
    const double due = now_ + delay.base();
    if (open_alarm_ != kNone && alarms_[open_alarm_].due == due) {
      alarms_[open_alarm_].tokens.push_back(token);
      return;
    }
    if (free_alarms_.empty()) {
      free_alarms_.push_back(alarms_.size());
      alarms_.emplace_back();
    }
    const std::size_t slot = free_alarms_.back();
    free_alarms_.pop_back();
    alarms_[slot].due = due;
    alarms_[slot].tokens.push_back(token);
    open_alarm_ = slot;
    simgrid::kernel::timer::Timer::set(due * kSecondsPerTick, [this, slot] { ring(slot); });
  }

  void start_flow(std::int32_t way, double bytes, std::int32_t number) override {
    const auto slot = static_cast<std::size_t>(number);
    if (flows_.size() <= slot) flows_.resize(slot + 1);
    sg::CommPtr comm = sg::Comm::sendto_init(ends_[way], ends_[way]);
    comm->set_payload_size(static_cast<std::uint64_t>(std::llround(bytes * kUnitsPerByte)));
    comm->set_data(reinterpret_cast<void*>(slot + 1));
    flows_[slot] = comm;
    comm->start();
  }

  void run(EventHandler& handler) override {
    handler_ = &handler;
    engine_.run();
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  struct Alarm {
    double due = 0;  // ticks
    std::vector<Token> tokens;
  };

  void ring(std::size_t slot) {
    if (open_alarm_ == slot) open_alarm_ = kNone;
    now_ = alarms_[slot].due;
    ringing_.swap(alarms_[slot].tokens);  // the handler may set timers
    free_alarms_.push_back(slot);
    for (const Token token : ringing_) handler_->on_timer(token);
    ringing_.clear();
  }

  // A way is a route from a host to itself in a zone of its own: the layout whose routes SimGrid finds quickest, with as few
  // hosts as can be, because it searches all of them for every new one's name. Latencies are 0:
  // SimGrid would weight a flow's share by the inverse of its latency. A rate cap is a link that bounds each flow alone
  // (FATPIPE): Comm::set_rate() is ignored for Comms between two hosts.
  void make_platform(const Network& network) {
    sg::NetZone* root = version::make_root_zone(engine_);
    const std::vector<Bound> bounds = bounds_of(network);
    std::vector<std::vector<sg::LinkInRoute>> route(network.ways.size());
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      const sg::Link* link =
          version::make_link(root, std::to_string(i), bounds[i].capacity * kUnitsPerByte)->set_latency(0)->seal();
      for (const auto& [way, times] : bounds[i].users)
        route[way].insert(route[way].end(), static_cast<std::size_t>(times), sg::LinkInRoute(link));
    }
    for (std::size_t way = 0; way < network.ways.size(); ++way) {
      const std::string name = std::to_string(way);
      if (const double cap = network.ways[way].rate_cap; cap > 0) {
        sg::Link* link = version::make_link(root, name + "cap", cap * kUnitsPerByte)->set_latency(0);
        route[way].emplace_back(link->set_sharing_policy(sg::Link::SharingPolicy::FATPIPE)->seal());
      }
      sg::NetZone* zone = version::make_zone(root, name);
      sg::Host* host = version::make_host(zone, name)->seal();
      version::make_loop(zone, host, route[way]);
      zone->seal();
      ends_.push_back(host);
    }
    root->seal();
  }

  // The resources that the ways' flows share. Resources with the same users bound them alike, so the tightest represents all of
  // them.
  struct Bound {
    double capacity = 0;                                      // bytes per second
    std::vector<std::pair<std::size_t, std::int64_t>> users;  // ways, and how often each counts
  };
  static std::vector<Bound> bounds_of(const Network& network) {
    std::vector<Bound> of_resource(network.resources.size());
    for (std::size_t way = 0; way < network.ways.size(); ++way)
      for (const SharedHop& hop : network.routes[network.ways[way].route])
        of_resource[hop.resource].users.emplace_back(way, hop.uses);
    std::map<std::vector<std::pair<std::size_t, std::int64_t>>, std::size_t> known;
    std::vector<Bound> bounds;
    for (std::size_t i = 0; i < of_resource.size(); ++i) {
      Bound& bound = of_resource[i];
      if (bound.users.empty()) continue;
      // Instead of naming a link often in every route its capacity is divided.
      std::int64_t divisor = 0;
      for (const auto& user : bound.users) divisor = std::gcd(divisor, user.second);
      for (auto& user : bound.users) user.second /= divisor;
      bound.capacity = network.resources[i].capacity / static_cast<double>(divisor);
      const auto [entry, is_new] = known.try_emplace(bound.users, bounds.size());
      if (is_new) {
        bounds.push_back(std::move(bound));
      } else {
        bounds[entry->second].capacity = std::min(bounds[entry->second].capacity, bound.capacity);
      }
    }
    return bounds;
  }

  void on_completion(const sg::Activity& activity) {
    const std::size_t slot = reinterpret_cast<std::size_t>(activity.get_data<void>()) - 1;
    finished_ = std::move(flows_[slot]);  // SimGrid still uses it after this callback: freed at the next one
    now_ = std::max(now_, std::nearbyint(sg::Engine::get_clock() / kSecondsPerTick));
    handler_->on_arrival(static_cast<std::int32_t>(slot));
  }

  sg::Engine& engine_;
  EventHandler* handler_ = nullptr;
  double now_ = 0;               // ticks
  std::vector<sg::Host*> ends_;  // per way: both ends of its flows
  std::vector<Alarm> alarms_;
  std::vector<sg::CommPtr> flows_;  // by slot; nothing else keeps them alive
  std::vector<std::size_t> free_alarms_;
  std::size_t open_alarm_ = kNone;  // the latest one set, until it rings
  std::vector<Token> ringing_;
  sg::CommPtr finished_;
};

}  // namespace
}  // namespace panpipe::sim

extern "C" panpipe::sim::FlowBackend* panpipe_simgrid_backend(const panpipe::sim::Network* network) {
  return new panpipe::sim::SimGridBackend(*network);
}
