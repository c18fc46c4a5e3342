// Implements `panpipe-exec contract`: a world's ranks check the rules of their transport.
#pragma once

#include <optional>

#include "exec/launch/selftest_parts.hpp"
#include "exec/launch/world.hpp"

namespace panpipe::exec {

// Runs all ranks as threads (transport local), or one rank of the world as this process. PANPIPE_FAULT with the name of a case as
// the action makes a rank fail there. Returns the exit code.
int execute_contract(const ContractRequest& request, const std::optional<World>& world);

}  // namespace panpipe::exec
