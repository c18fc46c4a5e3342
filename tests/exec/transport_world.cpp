#include "tests/exec/transport_world.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/exec/ports.hpp"

namespace panpipe::exec {

ProcessOptions process_options(int rank, int size, int port, Clock::duration deadline) {
  ProcessOptions options;
  options.world.rank = rank;
  options.world.size = size;
  options.world.local_rank = rank;
  options.world.local_size = size;
  options.world.master_port = port;
  options.deadline = deadline;
  options.version = "1.2.3";
  return options;
}

bool gpus_for(int ranks) {
  for (int gpu = 0; gpu < ranks; ++gpu)
    if (!std::filesystem::exists("/dev/nvidia" + std::to_string(gpu))) return false;
  return true;
}

void run_world(const std::string& transport, int size, Clock::duration deadline, const std::function<void(Transport&)>& body) {
  std::vector<std::unique_ptr<Transport>> local;
  if (transport == "local") local = make_local_transports(size);
  const int port = test::unused_port();
  signal(SIGPIPE, SIG_IGN);  // as panpipe-exec does: a peer that is gone is an error with a message
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        std::unique_ptr<Transport> own;
        if (transport == "local")
          own = std::move(local[rank]);
        else if (transport == "gloo")
          own = make_gloo_transport(process_options(rank, size, port, deadline));
        else
          own = make_nccl_transport(process_options(rank, size, port, deadline));
        body(*own);
      } catch (const std::exception& error) {
        ADD_FAILURE() << transport << " rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace panpipe::exec
