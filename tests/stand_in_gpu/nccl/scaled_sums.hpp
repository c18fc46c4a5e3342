// Sums that multiply each member's part by a number first, as programs make them (ncclRedOpCreatePreMulSum): the operations from
// ncclNumOps on.
#pragma once

#include <nccl.h>

#include <optional>

namespace panpipe::stand_in {

// The number of such an operation, as it is now; none for NCCL's own operations.
std::optional<double> factor_of(ncclRedOp_t operation);

}  // namespace panpipe::stand_in
