// Small gradients on a GPU that arrive in 2 bytes and are summed in fp32: those of a set are converted and added together, which
// saves launches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace panpipe::exec {

class GradientSets {
 public:
  // Elements of a set: as large as pays, since what a kernel moves in the time that launching it takes is about this much (5 us
  // at 1 TB/s). Larger gradients are added one by one.
  static constexpr std::int64_t kMost = (std::int64_t{4} << 20) / 4;

  // Call it in the order in which autograd comes by.
  void add(std::size_t key, const at::Tensor& sum);
  // Adds the gradient to its sum, at the latest with flush(). Returns false, and does nothing, for what is in no set.
  bool arrive(std::size_t key, const at::Tensor& gradient);
  void flush();

 private:
  struct Member {
    at::Tensor sum, in_float, arrived{};
    int set = 0;
  };
  std::map<std::size_t, Member> members_;
  std::vector<Member*> waiting_;  // of one set
  at::Tensor room_;               // of the conversions
  std::int64_t used_ = 0;
  int set_ = 0;
};

}  // namespace panpipe::exec
