#include "planner/parallel_for.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace panpipe::planner {

std::size_t workers_for(std::size_t count, int threads) {
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::max(1, threads)), 1, std::max<std::size_t>(1, count));
}

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t part, std::size_t worker)>& body) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> faults(count);
  const auto work = [&](std::size_t worker) {
    for (std::size_t part = next++; part < count; part = next++) {
      try {
        body(part, worker);
      } catch (...) {
        faults[part] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> pool;
  for (std::size_t worker = 1; worker < workers_for(count, threads); ++worker) pool.emplace_back(work, worker);
  work(0);
  for (std::thread& thread : pool) thread.join();
  for (const std::exception_ptr& fault : faults)
    if (fault) std::rethrow_exception(fault);
}

}  // namespace panpipe::planner
