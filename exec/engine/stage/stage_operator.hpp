// The operators that a stage is a list of: segments, which one rank computes alone, and operators by which ranks communicate. A
// new one is a file with its class, a line among the functions below, and its row in stage_operator.cpp.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "costmodel/workload/operator_table.hpp"
#include "exec/engine/stage/pass_group.hpp"
#include "exec/engine/stage/segments.hpp"
#include "exec/engine/stage/stage.hpp"
#include "schedule/action.hpp"

namespace panpipe::exec {

// A tensor, possibly still under way.
struct PassTensor {
  at::Tensor tensor{};
  PassGroup::PostedPtr posted{};
  PassGroup* by = nullptr;                               // the group that receives it
  std::function<at::Tensor(const at::Tensor&)> after{};  // applied to the received tensor; empty: unchanged

  const at::Tensor& resolve();  // waits for it
};

// What operators hand to one another in a pass, by graph tensor.
struct ForwardFlow {
  int microbatch;
  CallContext context;
  bool recorded;  // for a backward
  std::unordered_map<int, PassTensor> values{};
};
struct BackwardFlow {
  int microbatch;
  ActionKind kind;
  std::unordered_map<int, std::vector<PassTensor>> gradients{};  // to be summed, in this order
  bool posting = false;                                          // this step ends with a sum over ranks
  std::vector<Stage*> weights{};                                 // segments whose weight gradients follow that sum

  at::Tensor take(int tensor);  // waits; undefined if no gradient flows
  void add(int tensor, PassTensor gradient);
};

// Rows that a rank sends to and receives from each member of a group on the way to the experts.
struct RowCounts {
  std::vector<std::int64_t> sent, received;
};

// What the operators of a stage share; references outlive them.
struct StageSite {
  const OperatorGraph& graph;
  const StageRange& range;
  const ParameterStore& parameters;
  const std::vector<bool>& needs_gradient;
  at::Device device;
  const PassGroups& groups;
  WeightCopies* copies;                                  // nullptr without autocast
  std::map<std::pair<int, int>, RowCounts>& row_counts;  // by microbatch and graph tensor, until the rows have returned
};

class StageOperator {
 public:
  StageOperator(const StageSite& site, StagePart part) : site_(site), part_(std::move(part)) {}
  virtual ~StageOperator() = default;
  StageOperator(const StageOperator&) = delete;
  StageOperator& operator=(const StageOperator&) = delete;

  virtual void forward(ForwardFlow& flow) = 0;
  virtual void backward(BackwardFlow& flow) = 0;
  virtual bool has_weights() const { return false; }
  virtual void weight_gradient(int) {}  // W, of a microbatch
  virtual void forget(int) {}           // what a forward that was dropped left for its second run
  virtual void clear() {}

  const StagePart& part() const { return part_; }
  // True if the pass ends with a collective, whose result a later operator waits for.
  bool posts(bool backward) const;

 protected:
  const Operator& op() const { return site_.graph.operators[part_.first_operator]; }  // of one that communicates
  PassGroup& group() const { return *site_.groups.of(op().among); }
  at::Tensor take(ForwardFlow& flow, int tensor) const;  // waits; handed over at its last use
  at::Tensor take(ForwardFlow& flow, std::string_view argument) const { return take(flow, tensor_argument(op(), argument)); }
  // Random operators draw the same on ranks that compute the same, and something else where the work is divided.
  std::uint64_t seed_of(const CallContext& context, bool divided) const;

  StageSite site_;
  StagePart part_;
};

using StageOperatorPtr = std::unique_ptr<StageOperator>;
// Throws InternalError if there are no ranks to communicate with.
StageOperatorPtr make_operator(const StageSite& site, const StagePart& part);

StageOperatorPtr make_segment(const StageSite& site, const StagePart& part);
StageOperatorPtr make_collective(const StageSite& site, const StagePart& part);
StageOperatorPtr make_vocabulary_loss(const StageSite& site, const StagePart& part);
StageOperatorPtr make_context_attention(const StageSite& site, const StagePart& part);
StageOperatorPtr make_head_exchange(const StageSite& site, const StagePart& part);
StageOperatorPtr make_expert_rows(const StageSite& site, const StagePart& part);

}  // namespace panpipe::exec
