// Values and operators of a graph as Python and torch expressions. Internal to this folder.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/precision.hpp"
#include "costmodel/workload/operator_table.hpp"

namespace panpipe::jobs {

using Names = std::map<int, std::string>;  // graph tensor -> local name

std::string tuple_of(const Shape& shape);  // (2, 16), (32,), ()
std::string torch_type(DType type);        // torch.float32
// A parameter of module `m`: "m.attn.c_attn.weight". Kept in fp32 and cast if the graph computes in 16 bits.
std::string parameter_text(const std::string& name, DType type);

// An operator that no release of PyTorch has: the script defines it.
bool is_own(const OperatorRow& row);

// "F.linear(x3, m.attn.c_attn.weight, m.attn.c_attn.bias)".
std::string call_text(const Operator& op, const std::function<std::string(int)>& operand);

}  // namespace panpipe::jobs
