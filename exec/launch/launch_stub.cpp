// Stands in while there is no executor: the same header, one sentence.
#include "costmodel/base/error.hpp"
#include "exec/launch/launch.hpp"

namespace panpipe::exec {

int launch(const std::vector<std::string>&) {
  throw MachineError("this build has no executor: running a plan is not part of this version; estimate and simulate predict it");
}

}  // namespace panpipe::exec
