#include "exec/engine/training/gradient_sets.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>

#include <utility>

namespace panpipe::exec {

void GradientSets::add(std::size_t key, const at::Tensor& sum) {
  if (!room_.defined()) room_ = at::empty({kMost}, sum.options());
  if (used_ + sum.numel() > kMost) {
    used_ = 0;
    ++set_;
  }
  members_[key] = {sum, room_.narrow(0, used_, sum.numel()).view(sum.sizes()), {}, set_};
  used_ += sum.numel();
}

bool GradientSets::arrive(std::size_t key, const at::Tensor& gradient) {
  const auto found = members_.find(key);
  if (found == members_.end()) return false;
  Member& member = found->second;
  if (member.arrived.defined() || (!waiting_.empty() && waiting_.front()->set != member.set)) flush();
  member.arrived = gradient;
  waiting_.push_back(&member);
  return true;
}

// LibTorch adds lists in one launch where both are of one type, and converts them in one.
void GradientSets::flush() {
  if (waiting_.empty()) return;
  const at::NoGradGuard no_graph;
  std::vector<at::Tensor> sums, in_float, arrived;
  for (Member* member : std::exchange(waiting_, {})) {
    sums.push_back(member->sum);
    in_float.push_back(member->in_float);
    arrived.push_back(std::exchange(member->arrived, at::Tensor()));
  }
  at::_foreach_copy_(in_float, arrived);
  at::_foreach_add_(sums, in_float);
}

}  // namespace panpipe::exec
