// NCCL's element types: their widths, and how two buffers are reduced.
#pragma once

#include <nccl.h>

#include <cstddef>

namespace panpipe::stand_in {

std::size_t width_of(ncclDataType_t type);  // bytes of an element
// ncclSum, ncclProd, ncclMax, ncclMin and ncclAvg (its division is by divide) on all types but 8-bit floats.
bool can_reduce(ncclDataType_t type, ncclRedOp_t operation);
// into[i] = into[i] OP from[i]; 2-byte floats are computed in float and rounded to nearest even after every step.
void reduce(void* into, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t operation);
void multiply(void* values, std::size_t count, ncclDataType_t type, double by);
double number_at(const void* value, ncclDataType_t type);
void divide(void* values, std::size_t count, ncclDataType_t type, int by);

}  // namespace panpipe::stand_in
