#include "tests/exec/transport_world.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

namespace panpipe::exec {

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  close(socket);
  return ntohs(address.sin_port);
}

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
  const int port = free_port();
  signal(SIGPIPE, SIG_IGN);  // as panpipe-exec does: a peer that is gone is an error in words
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        std::unique_ptr<Transport> own;
        if (transport == "local")
          own = std::move(local[static_cast<std::size_t>(rank)]);
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
