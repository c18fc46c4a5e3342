#include "exec/engine/transport/on_threads.hpp"

#include <exception>
#include <thread>

namespace panpipe::exec {

void on_threads(const std::vector<std::unique_ptr<Transport>>& transports, const std::function<void(Transport&)>& body) {
  std::vector<std::exception_ptr> errors(transports.size()), losses(transports.size());
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < transports.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        body(*transports[rank]);
      } catch (const std::exception& error) {
        (dynamic_cast<const PeerLost*>(&error) != nullptr ? losses : errors)[rank] = std::current_exception();
        transports[rank]->abort(error.what());
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  errors.insert(errors.end(), losses.begin(), losses.end());
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace panpipe::exec
