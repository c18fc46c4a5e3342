#include "tests/stand_in_gpu/nccl/communicator.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "tests/stand_in_gpu/nccl/sockets.hpp"

namespace panpipe::stand_in {
namespace {

const std::atomic<bool> kNever{false};

// The content of an id: where the introducer listens.
struct Introducer {
  std::uint32_t mark;
  Address address;
};
constexpr std::uint32_t kMark = 0x5354494e;
static_assert(sizeof(Introducer) <= sizeof(ncclUniqueId));

struct Introduction {
  std::int32_t rank, size;
  Address address;
};

// Collects where each member listens, and sends the list to all of them.
void introduce(int listener) {
  std::vector<Address> addresses;
  std::vector<int> members;
  do {
    const int member = accept_from(listener);
    if (member < 0) continue;
    Introduction said{};
    if (!receive_all(member, &said, sizeof(said), kNever)) continue;
    addresses.resize(said.size);
    addresses.at(static_cast<std::size_t>(said.rank)) = said.address;
    members.push_back(member);
  } while (members.size() < addresses.size() || members.empty());
  for (const int member : members) {
    send_all(member, addresses.data(), addresses.size() * sizeof(Address), kNever);
    close(member);
  }
  close(listener);
}

}  // namespace

bool make_unique_id(ncclUniqueId& id) {
  std::memset(&id, 0, sizeof(id));
  Introducer introducer{kMark, {}};
  const int listener = listen_for_members(introducer.address);
  if (listener < 0) return false;
  std::memcpy(&id, &introducer, sizeof(introducer));
  std::thread(introduce, listener).detach();
  return true;
}

}  // namespace panpipe::stand_in

bool ncclComm::connect(const ncclUniqueId& id) {
  using namespace panpipe::stand_in;
  cudaGetDevice(&device_);
  Introducer introducer{};
  std::memcpy(&introducer, &id, sizeof(introducer));
  if (introducer.mark != kMark) return false;
  Introduction mine{rank_, size_, {}};
  const int listener = listen_for_members(mine.address);
  if (listener < 0) return false;
  std::vector<Address> members(size_);
  const int root = connect_to(introducer.address);
  const bool introduced = send_all(root, &mine, sizeof(mine), aborted_) &&
                          receive_all(root, members.data(), members.size() * sizeof(Address), aborted_);
  close(root);
  // A member may send to itself in a group, as all-to-alls do.
  int own[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, own) != 0) return false;
  to_.at(static_cast<std::size_t>(rank_)) = own[0];
  from_.at(static_cast<std::size_t>(rank_)) = own[1];
  // The later member calls the earlier one, once for each direction.
  struct Hello {
    std::int32_t caller, to_caller;
  };
  for (int earlier = 0; introduced && earlier < rank_; ++earlier) {
    for (const bool to_me : {false, true}) {
      const int connection = connect_to(members[earlier]);
      const Hello hello{rank_, to_me};
      send_all(connection, &hello, sizeof(hello), aborted_);
      (to_me ? from_ : to_).at(static_cast<std::size_t>(earlier)) = connection;
    }
  }
  for (int calls = 2 * (size_ - 1 - rank_); introduced && calls > 0; --calls) {
    const int connection = accept_from(listener);
    Hello hello{};
    if (connection < 0 || !receive_all(connection, &hello, sizeof(hello), aborted_)) return false;
    (hello.to_caller ? to_ : from_).at(static_cast<std::size_t>(hello.caller)) = connection;
  }
  close(listener);
  return introduced;
}

bool ncclComm::wait_for_turn(std::uint64_t turn) {
  std::unique_lock hold(lock_);
  while (turn_ != turn && !aborted_) turned_.wait_for(hold, std::chrono::milliseconds(20));
  return !aborted_;
}

void ncclComm::end_turn() {
  const std::lock_guard hold(lock_);
  ++turn_;
  turned_.notify_all();
}
