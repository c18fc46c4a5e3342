// The table of operators: one row per operator in operator_table.cpp. Builders, costs, the executor and exporters ask a row for
// its role and for its arguments' names; none of them compares names of operators or counts positions of arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

struct WorkRule;  // operator_rules.hpp

enum class OperatorRole : std::uint8_t {
  Product,         // of matrices
  ExpertProduct,   // a product per expert
  Convolution,     // a product of unfolded patches
  Attention,       // scores, their softmax and the weighted values, in one operator
  Softmax,         // over scores that another operator made
  Norm,            // normalization
  Sum,             // of two tensors: the gradient passes through
  Pointwise,       // element by element
  Dropout,         //
  Cast,            // to another type or device
  View,            // the result shares its argument's memory
  Copy,            // the same values in another place
  Padding,         // values with others around them
  Recurrent,       // one token after another
  Embedding,       // rows of a table
  Loss,            // of logits or predictions
  Routing,         // chooses experts
  ExpertRows,      // puts rows in the order of their experts, or adds them up again
  Regroup,         // brings rows of one expert from several ranks together
  Collective,      // a tensor between ranks, along one dimension
  ExpertTransfer,  // rows between the ranks of their experts
  HeadExchange,    // heads for tokens
  Other,           // anything else in ATen: known by name and shapes alone
};

// The tokens that a token's result depends on, where each rank or pass has a part of the sequence (slices, context parallelism).
enum class Along : std::uint8_t {
  Unknown,            // nothing was stated: refused
  Tokens,             // on that token alone; views and copies leave tokens in a dimension of their own
  AttendsLast,        // on keys and values of other tokens; fewer queries than keys are the last tokens
  AttendsBehindMask,  // likewise, but they are the first tokens: with the tokens before them they need a mask
  Summed,             // a mean over all tokens, which parts add up to
  Mixed,              // on other tokens in another way: refused
};

enum class Aliasing : std::uint8_t {
  Never,
  View,            // always
  IfStridesAllow,  // reshape, contiguous: a view, or a copy if the memory layout differs. Graphs do not contain strides.
  IfUnchanged,     // to, dropout: the argument itself if there is nothing to do, else a new tensor
  IfReal,          // the argument itself unless it is complex
};

struct OperatorTraits {
  Aliasing aliasing = Aliasing::Never;
  bool draws = false;            // random numbers
  bool autocast = false;         // torch.autocast casts its operands down, on CPUs and GPUs
  bool composed = false;         // models in Python make it of several operators (RMSNorm, GELU)
  bool list = false;             // results are one list
  bool detaches = false;         // no gradient passes
  std::string_view weight = {};  // argument: the matrix of parameters in a product
  std::string_view torch = {};   // as people write it; {name} is an argument. Empty: torch.ops
};

struct OperatorRow {
  std::string_view name;  // with an overload only where overloads differ; an in-place form has the row of its other form
  OperatorRole role{};
  Along along = Along::Unknown;
  const WorkRule* work = nullptr;
  std::string_view arguments = {};  // names, in the schema's order; "sinks:head" has a number for each head
  OperatorTraits traits = {};
  // From `arguments`.
  std::vector<std::string_view> names = {};
  std::vector<int> by_head = {};  // positions

  bool between_ranks() const {  // only moves values from rank to rank
    return role == OperatorRole::Collective || role == OperatorRole::ExpertTransfer || role == OperatorRole::HeadExchange;
  }
  bool takes(std::string_view argument) const { return position(argument) >= 0; }
  int position(std::string_view argument) const;  // -1: none of this name
};

// The row of an operator ("aten::add_.Tensor"), or of any other operator of ATen; nullptr for other unknown names.
const OperatorRow* find_row(std::string_view target);
// The same; InputError where there is none.
const OperatorRow& row_of(const Operator& op);
const std::vector<OperatorRow>& operator_rows();

// By PyTorch's convention for names ("aten::add_.Tensor").
bool works_in_place(std::string_view target);

// A loss of logits and the numbers of their classes, of which it ignores one.
bool is_over_classes(const Operator& op);

// True if the operator moves values between ranks, alone or while it computes.
bool communicates(const Operator& op);

// An argument by its name in the schema; nullptr if the operator does not state it.
const Argument* argument(const Operator& op, std::string_view name);
const Argument* argument(const Operator& op, const OperatorRow& row, std::string_view name);  // whose row is known
// Graph tensors of arguments; -1: none.
int tensor_of(const Argument* argument);
int tensor_argument(const Operator& op, std::string_view name);
int first_tensor(const Operator& op);  // the first argument
template <class T>
std::optional<T> value_argument(const Operator& op, std::string_view name) {
  const Argument* given = argument(op, name);
  const T* value = given == nullptr ? nullptr : std::get_if<T>(given);
  return value == nullptr ? std::nullopt : std::optional<T>(*value);
}

}  // namespace panpipe
