// Stands for libnccl.so.2. The promise of an operation in NCCL's user guide: the call returns when the operation is in its
// stream; in stream order it then blocks the stream until all its members have come to it; members match by order alone. A send
// ends when its receiver has taken everything: NCCL may end it earlier for small messages, which no program may rely on.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <thread>

#include "tests/stand_in_gpu/cuda/work.hpp"
#include "tests/stand_in_gpu/nccl/communicator.hpp"
#include "tests/stand_in_gpu/nccl/scaled_sums.hpp"
#include "tests/stand_in_gpu/nccl/sockets.hpp"
#include "tests/stand_in_gpu/nccl/types.hpp"
#include "tests/stand_in_gpu/settings.hpp"

namespace {

using namespace panpipe::stand_in;

// STAND_IN_HANG=RANK,N or RANK,N,NAME: the N-th operation (of those whose name contains NAME) of that rank, from 1 on.
struct Hang {
  int rank = -1, turn = 0;
  std::string name;
};
const Hang& hang() {
  static const Hang asked = [] {
    const std::string value = text_setting("STAND_IN_HANG");
    if (value.empty()) return Hang{};
    const std::vector<std::string> parts = split(value, ',');
    if (parts.size() < 2 || parts.size() > 3) refuse_setting("STAND_IN_HANG", value, "RANK,N or RANK,N,NAME");
    return Hang{std::atoi(parts[0].c_str()), std::atoi(parts[1].c_str()), parts.size() == 3 ? parts[2] : ""};
  }();
  return asked;
}

bool hangs(const char* name) {
  static std::atomic<int> turns{0};
  return hang().rank >= 0 && hang().rank == world_rank() && contains(name, hang().name) && ++turns == hang().turn;
}

// An operation that was posted: runs in its stream, in its communicator's turn.
struct Operation {
  const char* name;
  ncclComm_t communicator;
  cudaStream_t stream;
  std::function<void()> run;
  // Of a send or receive: its connection. Those of a group that share one run in order, as NCCL matches them.
  std::optional<int> connection = {};
};

int sending_to(int member) { return 2 * member; }
int receiving_from(int member) { return 2 * member + 1; }

// Collectives in order, then sends and receives: those of different connections at once, so that two members may send to each
// other.
void run_group(const std::vector<Operation>& operations) {
  std::map<int, std::vector<const Operation*>> by_connection;
  for (const Operation& operation : operations) {
    if (operation.connection)
      by_connection[*operation.connection].push_back(&operation);
    else
      operation.run();
  }
  std::vector<std::thread> threads;
  for (const auto& entry : by_connection)
    threads.emplace_back([&in_order = entry.second] {
      for (const Operation* operation : in_order) operation->run();
    });
  for (std::thread& thread : threads) thread.join();
}

void enqueue_operations(std::vector<Operation> operations) {
  const Operation& first = operations.front();
  ncclComm_t communicator = first.communicator;
  int slower = 0;
  const char* hanging = nullptr;
  for (const Operation& operation : operations) {
    stand_in_count(operation.name);
    slower += slower_by_ms(operation.name);
    if (hangs(operation.name)) hanging = operation.name;
  }
  const std::uint64_t turn = communicator->next_turn();
  enqueue(communicator->device(), first.stream, [=, operations = std::move(operations)] {
    if (!communicator->wait_for_turn(turn)) return;
    if (hanging) std::fprintf(stderr, "stand-in GPU: %s of rank %d does not end (STAND_IN_HANG)\n", hanging, world_rank());
    while (hanging && !communicator->aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::this_thread::sleep_for(std::chrono::milliseconds(slower));
    run_group(operations);
    communicator->end_turn();
  });
}

thread_local int open_groups = 0;
thread_local std::vector<Operation> grouped;

ncclResult_t post(Operation operation) {
  if (operation.communicator->aborted()) return ncclInvalidUsage;
  if (open_groups > 0)
    grouped.push_back(std::move(operation));
  else
    enqueue_operations({std::move(operation)});
  return ncclSuccess;
}

// A member's description of its part, sent before the data: another operation or another size on the other side is the program's
// fault, with undefined results in NCCL.
struct Header {
  char name[16];
  std::uint64_t bytes;
};

Header header_of(const char* name, std::size_t bytes) {
  Header header{};
  std::snprintf(header.name, sizeof(header.name), "%s", name);
  header.bytes = bytes;
  return header;
}

void expect_header(const Header& mine, const Header& theirs, int rank, int other) {
  if (std::memcmp(mine.name, theirs.name, sizeof(mine.name)) == 0 && mine.bytes == theirs.bytes) return;
  std::fprintf(stderr, "stand-in GPU: member %d of a communicator is at %.16s of %llu bytes, member %d at %.16s of %llu bytes\n",
               rank, mine.name, static_cast<unsigned long long>(mine.bytes), other, theirs.name,
               static_cast<unsigned long long>(theirs.bytes));
  std::_Exit(70);
}

// Begins when the taker is ready, which is when it has come to its receive.
bool give(ncclComm_t c, int member, const char* name, const void* data, std::size_t bytes) {
  char ready = 0;
  const Header header = header_of(name, bytes);
  return receive_all(c->to(member), &ready, 1, c->aborted()) && send_all(c->to(member), &header, sizeof(header), c->aborted()) &&
         send_all(c->to(member), data, bytes, c->aborted());
}

bool take(ncclComm_t c, int member, const char* name, void* data, std::size_t bytes) {
  const char ready = 1;
  Header header{};
  if (!send_all(c->from(member), &ready, 1, c->aborted()) || !receive_all(c->from(member), &header, sizeof(header), c->aborted()))
    return false;
  expect_header(header_of(name, bytes), header, c->rank(), member);
  return receive_all(c->from(member), data, bytes, c->aborted());
}

// Everybody's part, in member order, at every member: through member `root`, which takes all and gives all.
bool gather_parts(ncclComm_t c, const char* name, const void* mine, char* all, std::size_t bytes, int root) {
  std::memmove(all + bytes * static_cast<std::size_t>(c->rank()), mine, bytes);
  if (c->rank() != root) return give(c, root, name, all + bytes * static_cast<std::size_t>(c->rank()), bytes);
  for (int member = 0; member < c->size(); ++member)
    if (member != root && !take(c, member, name, all + bytes * static_cast<std::size_t>(member), bytes)) return false;
  return true;
}
bool spread(ncclComm_t c, const char* name, void* data, std::size_t bytes, int root) {
  if (c->rank() != root) return take(c, root, name, data, bytes);
  for (int member = 0; member < c->size(); ++member)
    if (member != root && !give(c, member, name, data, bytes)) return false;
  return true;
}

// The elements that travel: none of large buffers without arithmetic, where members only wait for each other.
std::size_t carried(std::size_t count, ncclDataType_t type) { return is_copied(count * width_of(type)) ? count : 0; }

// The reduction of all members' buffers at `root`, in member order.
bool reduce_to(ncclComm_t c, const char* name, const void* in, std::vector<char>& result, std::size_t count, ncclDataType_t type,
               ncclRedOp_t operation, int root) {
  const std::size_t bytes = count * width_of(type);
  std::vector<char> scaled, all(c->rank() == root ? bytes * static_cast<std::size_t>(c->size()) : 0);
  if (const std::optional<double> factor = factor_of(operation)) {
    scaled.assign(static_cast<const char*>(in), static_cast<const char*>(in) + bytes);
    multiply(scaled.data(), count, type, *factor);
    in = scaled.data();
    operation = ncclSum;
  }
  if (c->rank() != root) return give(c, root, name, in, bytes);
  if (!gather_parts(c, name, in, all.data(), bytes, root)) return false;
  result.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(bytes));
  for (int member = 1; member < c->size(); ++member)
    reduce(result.data(), all.data() + bytes * static_cast<std::size_t>(member), count, type, operation);
  if (operation == ncclAvg) divide(result.data(), count, type, c->size());
  return true;
}

bool unusable(ncclDataType_t type, ncclRedOp_t operation) {
  if (can_reduce(type, operation >= ncclNumOps ? ncclSum : operation)) return false;
  std::fprintf(stderr, "stand-in GPU: NCCL's reduction %d of type %d is not here\n", static_cast<int>(operation),
               static_cast<int>(type));
  return true;
}

// What each member brings, at every member; waits for all of them, as calls that make communicators do.
template <class Part>
std::vector<Part> exchange(ncclComm_t c, const Part& mine) {
  std::vector<Part> all(static_cast<std::size_t>(c->size()));
  const std::uint64_t turn = c->next_turn();
  const bool done = c->wait_for_turn(turn) &&
                    gather_parts(c, "split", &mine, reinterpret_cast<char*>(all.data()), sizeof(Part), 0) &&
                    spread(c, "split", all.data(), sizeof(Part) * all.size(), 0);
  c->end_turn();
  if (!done) all.clear();
  return all;
}

ncclResult_t join(const char* name, ncclComm_t* communicator, int size, const ncclUniqueId& id, int rank) {
  stand_in_count(name);
  std::this_thread::sleep_for(std::chrono::milliseconds(slower_by_ms(name)));
  auto* made = new ncclComm(rank, size);
  if (!made->connect(id)) return ncclSystemError;
  *communicator = made;
  return ncclSuccess;
}

// NCCL refuses a configuration that was not made by the initializer of its own header.
bool is_foreign(const ncclConfig_t* config) {
  const ncclConfig_t own = NCCL_CONFIG_INITIALIZER;
  if (config && config->maxCTAs != own.maxCTAs) stand_in_count("bounded_communicators");
  return config && (config->magic != own.magic || config->size != own.size || config->version != own.version);
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = static_cast<int>(number_setting("STAND_IN_NCCL", NCCL_VERSION_CODE));
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "error of the stand-in GPU's NCCL";
}
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return make_unique_id(*id) ? ncclSuccess : ncclSystemError; }
ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int size, ncclUniqueId id, int rank) {
  return join("ncclCommInitRank", communicator, size, id, rank);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return is_foreign(config) ? ncclInvalidArgument : join("ncclCommInitRankConfig", communicator, size, id, rank);
}
ncclResult_t ncclCommInitRankScalable(ncclComm_t* communicator, int size, int rank, int, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  return is_foreign(config) ? ncclInvalidArgument : join("ncclCommInitRankScalable", communicator, size, ids[0], rank);
}
// Members with one colour make a communicator, in the order of their keys.
ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* communicator, ncclConfig_t* config) {
  if (is_foreign(config)) return ncclInvalidArgument;
  struct Choice {
    int color, key;
  };
  const std::vector<Choice> choices = exchange(parent, Choice{color, key});
  std::vector<int> members;
  for (int rank = 0; rank < static_cast<int>(choices.size()); ++rank)
    if (choices[static_cast<std::size_t>(rank)].color == color) members.push_back(rank);
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return choices[static_cast<std::size_t>(a)].key < choices[static_cast<std::size_t>(b)].key;
  });
  const bool alone = color < 0;  // NCCL_SPLIT_NOCOLOR
  ncclUniqueId own{};
  if (!alone && !members.empty() && members.front() == parent->rank() && !make_unique_id(own)) return ncclSystemError;
  const std::vector<ncclUniqueId> ids = exchange(parent, own);
  *communicator = nullptr;
  if (alone) return ncclSuccess;
  if (ids.empty() || members.empty()) return ncclSystemError;
  const auto place = std::find(members.begin(), members.end(), parent->rank()) - members.begin();
  return join("ncclCommSplit", communicator, static_cast<int>(members.size()), ids[static_cast<std::size_t>(members.front())],
              static_cast<int>(place));
}
// Not freed: what is enqueued may still look at it.
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  communicator->abort();
  return ncclSuccess;
}
// Ends what is posted first, as NCCL does.
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  const std::uint64_t turn = communicator->next_turn();
  communicator->wait_for_turn(turn);
  return ncclCommAbort(communicator);
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommCount(const ncclComm_t communicator, int* count) {
  *count = communicator->size();
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  *rank = communicator->rank();
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t communicator, int* device) {
  *device = communicator->device();
  return ncclSuccess;
}
// Between GPUs of one host NCCL notices nothing of a peer that is gone.
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++open_groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--open_groups > 0) return ncclSuccess;
  std::vector<Operation> all = std::move(grouped);
  grouped.clear();
  while (!all.empty()) {
    const Operation first = all.front();
    std::vector<Operation> together, rest;
    for (Operation& each : all)
      (each.communicator == first.communicator && each.stream == first.stream ? together : rest).push_back(std::move(each));
    enqueue_operations(std::move(together));
    all = std::move(rest);
  }
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream) {
  return post(
      {"ncclSend", c, stream, [=] { give(c, peer, "p2p", data, carried(count, type) * width_of(type)); }, sending_to(peer)});
}
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream) {
  return post(
      {"ncclRecv", c, stream, [=] { take(c, peer, "p2p", data, carried(count, type) * width_of(type)); }, receiving_from(peer)});
}

ncclResult_t ncclAlltoAll(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t c, cudaStream_t stream) {
  const std::size_t bytes = count * width_of(type);
  ncclGroupStart();
  for (int member = 0; member < c->size(); ++member) {
    const std::size_t at = bytes * static_cast<std::size_t>(member);
    ncclSend(static_cast<const char*>(in) + at, count, type, member, c, stream);
    ncclRecv(static_cast<char*>(out) + at, count, type, member, c, stream);
  }
  return ncclGroupEnd();
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t c,
                           cudaStream_t stream) {
  const std::size_t bytes = carried(count, type) * width_of(type);
  return post({"ncclBroadcast", c, stream, [=] {
                 if (c->rank() == root) std::memmove(out, in, bytes);
                 spread(c, "broadcast", out, bytes, root);
               }});
}
ncclResult_t ncclBcast(void* data, size_t count, ncclDataType_t type, int root, ncclComm_t c, cudaStream_t stream) {
  return ncclBroadcast(data, data, count, type, root, c, stream);
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t operation, ncclComm_t c,
                           cudaStream_t stream) {
  if (unusable(type, operation)) return ncclInvalidArgument;
  count = carried(count, type);
  return post({"ncclAllReduce", c, stream, [=] {
                 std::vector<char> result;
                 if (!reduce_to(c, "allreduce", in, result, count, type, operation, 0)) return;
                 if (c->rank() == 0) std::memcpy(out, result.data(), result.size());
                 spread(c, "allreduce", out, count * width_of(type), 0);
               }});
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t operation, int root,
                        ncclComm_t c, cudaStream_t stream) {
  if (unusable(type, operation)) return ncclInvalidArgument;
  count = carried(count, type);
  return post({"ncclReduce", c, stream, [=] {
                 std::vector<char> result;
                 if (reduce_to(c, "reduce", in, result, count, type, operation, root) && c->rank() == root)
                   std::memcpy(out, result.data(), result.size());
               }});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t operation, ncclComm_t c,
                               cudaStream_t stream) {
  if (unusable(type, operation)) return ncclInvalidArgument;
  count = carried(count, type);
  return post({"ncclReduceScatter", c, stream, [=] {
                 const std::size_t bytes = count * width_of(type), all = bytes * static_cast<std::size_t>(c->size());
                 std::vector<char> result;
                 if (!reduce_to(c, "reducescatter", in, result, count * static_cast<std::size_t>(c->size()), type, operation, 0))
                   return;
                 result.resize(all);
                 if (!spread(c, "reducescatter", result.data(), all, 0)) return;
                 std::memcpy(out, result.data() + bytes * static_cast<std::size_t>(c->rank()), bytes);
               }});
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t c, cudaStream_t stream) {
  count = carried(count, type);
  return post({"ncclAllGather", c, stream, [=] {
                 const std::size_t bytes = count * width_of(type);
                 if (gather_parts(c, "allgather", in, static_cast<char*>(out), bytes, 0))
                   spread(c, "allgather", out, bytes * static_cast<std::size_t>(c->size()), 0);
               }});
}
}
