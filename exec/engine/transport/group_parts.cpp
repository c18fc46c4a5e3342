#include <algorithm>

#include "base/error.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

at::Tensor part_of(const at::Tensor& whole, std::size_t member, std::size_t members) {
  const auto count = static_cast<std::int64_t>(members);
  PANPIPE_CHECK(whole.is_contiguous() && whole.numel() % count == 0, "parts of one size, one behind the other");
  const std::int64_t length = whole.numel() / count;
  return whole.view({-1}).narrow(0, static_cast<std::int64_t>(member) * length, length);
}

std::size_t member_of(const Group& group, int rank) {
  const auto found = std::find(group.ranks.begin(), group.ranks.end(), rank);
  PANPIPE_CHECK(found != group.ranks.end(), "a rank of the group");
  return static_cast<std::size_t>(found - group.ranks.begin());
}

}  // namespace panpipe::exec
