// One set of names for SimGrid 3.32 to 4.1: every SimGrid interface that changed between them is called only from here.
#pragma once

#include <simgrid/version.h>
#include <simgrid/s4u.hpp>

#include <functional>
#include <string>
#include <vector>

// The versions with changes. SimGrid writes 3.34 as 33400.
#define PANPIPE_SIMGRID_OWN_SIGNALS (SIMGRID_VERSION >= 33400)   // each kind of activity has its own signals; options renamed
#define PANPIPE_SIMGRID_ROOT_IS_MADE (SIMGRID_VERSION >= 40000)  // the engine creates the root zone, zones their contents

namespace panpipe::sim::simgrid_version {

namespace sg = simgrid::s4u;

#if PANPIPE_SIMGRID_OWN_SIGNALS
constexpr const char* kTimingPrecision = "precision/timing";
#else
constexpr const char* kTimingPrecision = "surf/precision";
#endif

// `call` runs at the end of every flow. Before 3.34 all activities shared one signal, but Panpipe starts no other kind.
inline void at_end_of_flows(const std::function<void(const sg::Activity&)>& call) {
#if PANPIPE_SIMGRID_OWN_SIGNALS
  sg::Comm::on_completion_cb(call);
#else
  sg::Activity::on_completion_cb(call);
#endif
}

#if PANPIPE_SIMGRID_ROOT_IS_MADE

inline sg::NetZone* make_root_zone(const sg::Engine& engine) { return engine.get_netzone_root(); }
inline sg::NetZone* make_zone(sg::NetZone* parent, const std::string& name) { return parent->add_netzone_full(name); }
inline sg::Link* make_link(sg::NetZone* zone, const std::string& name, double bandwidth) {
  return zone->add_link(name, bandwidth);
}
inline sg::Host* make_host(sg::NetZone* zone, const std::string& name) { return zone->add_host(name, 1.0); }
inline void make_loop(sg::NetZone* zone, const sg::Host* host, const std::vector<sg::LinkInRoute>& links) {
  zone->add_route(host, host, links, false);
}

#else

inline sg::NetZone* make_root_zone(const sg::Engine&) { return sg::create_full_zone("network"); }
inline sg::NetZone* make_zone(const sg::NetZone* parent, const std::string& name) {
  return sg::create_full_zone(name)->set_parent(parent);
}
inline sg::Link* make_link(sg::NetZone* zone, const std::string& name, double bandwidth) {
  return zone->create_link(name, bandwidth);
}
inline sg::Host* make_host(sg::NetZone* zone, const std::string& name) { return zone->create_host(name, 1.0); }
inline void make_loop(sg::NetZone* zone, const sg::Host* host, const std::vector<sg::LinkInRoute>& links) {
  zone->add_route(host->get_netpoint(), host->get_netpoint(), nullptr, nullptr, links, false);
}

#endif

}  // namespace panpipe::sim::simgrid_version

#undef PANPIPE_SIMGRID_OWN_SIGNALS
#undef PANPIPE_SIMGRID_ROOT_IS_MADE
