// What `panpipe-exec contract` does: a world's ranks try the rules of their transport.
#pragma once

#include <optional>

#include "exec/launch/selftest_parts.hpp"
#include "exec/launch/world.hpp"

namespace panpipe::exec {

// All ranks as threads (transport local), or the world's one as this process. PANPIPE_FAULT with a case's name as the action
// makes a rank fail there. Returns the exit code.
int execute_contract(const ContractRequest& request, const std::optional<World>& world);

}  // namespace panpipe::exec
