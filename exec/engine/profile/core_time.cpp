#include "exec/engine/profile/core_time.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace panpipe::exec {

CoreTime core_time() {
  CoreTime sum;
  std::error_code ignored;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    std::ifstream file(thread.path() / "schedstat");
    double computed = 0, waited = 0;  // nanoseconds
    if (file >> computed >> waited) sum.computed += computed * 1e-9, sum.waited += waited * 1e-9;
  }
  return sum;
}

double waited_between(const CoreTime& begin, const CoreTime& end) {
  const double computed = std::max(0.0, end.computed - begin.computed), waited = std::max(0.0, end.waited - begin.waited);
  return computed + waited > 0 ? waited / (computed + waited) : 0;
}

}  // namespace panpipe::exec
