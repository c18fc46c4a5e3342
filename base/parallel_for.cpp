#include "base/parallel_for.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "base/stop.hpp"

namespace panpipe {

std::size_t workers_for(std::size_t count, int threads) {
  const std::size_t wanted = threads > 0 ? static_cast<std::size_t>(threads) : std::thread::hardware_concurrency();
  return std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(1, count));
}

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t part, std::size_t worker)>& body) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> faults(count);
  const std::atomic<bool>* stop = stop_flag();
  const auto work = [&](std::size_t worker) {
    const StopScope scope(stop);
    for (std::size_t part = next++; part < count; part = next++) {
      try {
        throw_if_stopped();
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

}  // namespace panpipe
