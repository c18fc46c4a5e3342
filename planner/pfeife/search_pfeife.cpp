#include "costmodel/base/error.hpp"
#include "planner/methods.hpp"

namespace panpipe::planner {

Answer search_pfeife(const Experiment&, const SearchOptions&) { throw MachineError("--method pfeife is not in this build"); }

}  // namespace panpipe::planner
