// In place of simgrid_module.cpp in a build without SimGrid, which then has no code that starts processes.
#include "base/error.hpp"
#include "sim/simgrid_module.hpp"

namespace panpipe::sim {

const std::string& why_no_simgrid() {
  static const std::string why = "this build was configured without SimGrid (PANPIPE_SIM=OFF)";
  return why;
}

EventRecord run_events_in_simgrid(const EventInput&) { throw MachineError(why_no_simgrid() + kWithoutSimgrid); }

}  // namespace panpipe::sim
