#include "exec/engine/transport/rendezvous.hpp"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/error.hpp"
#include "exec/engine/transport/job_secret.hpp"
#include "exec/engine/transport/json_line.hpp"
#include "exec/engine/transport/rank_meeting.hpp"
#include "exec/engine/transport/wait_limit.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// Are all ranks on this host, by the address under which they meet?
bool one_host(const World& world) {
  const std::string& master = world.master_address;
  return master == "localhost" || master == "::1" || master.rfind("127.", 0) == 0;
}

// Retries until the deadline: a name may get its address later, as a pod's does.
void wait_for_master_address(const World& world, Clock::duration deadline) {
  const auto end = Clock::now() + deadline;
  while (true) {
    int fault = 0;
    if (addresses_of(world.master_address, world.master_port, SOCK_STREAM, &fault)) return;
    if (Clock::now() >= end)
      throw MachineError(
          fmt::format("rank {} found no address of the master {} within {:.3g} s ({}): set MASTER_ADDR on every "
                      "rank to an address of rank 0's host, or to a name that every host knows",
                      world.rank, world.master_address, in_seconds(deadline), gai_strerror(fault)));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

c10::intrusive_ptr<c10d::Store> open_store(const ProcessOptions& options) {
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);  // its warnings repeat our message
  c10::initLogging();                         // outside Python nobody else reads the level
  const World& world = options.world;
  wait_for_master_address(world, options.deadline);  // before rank 0 listens
  c10d::TCPStoreOptions asked;
  asked.port = static_cast<std::uint16_t>(world.master_port);
  asked.isServer = world.rank == 0 && !world.store_elsewhere;
  asked.waitWorkers = false;
  asked.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options.deadline);
  // Our own attempt first: it keeps to the deadline.
  if (!asked.isServer && !Line::connect(world.master_address, world.master_port, options.deadline))
    throw MachineError(
        fmt::format("rank {} cannot reach the master at {} port {} within {:.3g} s: is rank 0 running, and are MASTER_ADDR and "
                    "MASTER_PORT those of its host?",
                    world.rank, world.master_address, world.master_port, in_seconds(options.deadline)));
  try {
    // panpipe run hands its listening socket over: no other process can take the port in between. c10d's own would listen on all
    // interfaces.
    if (const char* socket = std::getenv("PANPIPE_MASTER_SOCKET"); socket && asked.isServer)
      asked.masterListenFd = std::atoi(socket);
    else if (int port = world.master_port; asked.isServer && one_host(world))
      asked.masterListenFd = listen_at(world.master_address, port).release();
    c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::TCPStore>(world.master_address, asked);
    if (!world.store_prefix.empty()) store = c10::make_intrusive<c10d::PrefixStore>(world.store_prefix, store);
    return c10::make_intrusive<c10d::PrefixStore>("panpipe", store);
  } catch (const std::exception&) {
    if (asked.isServer)
      throw MachineError(
          fmt::format("rank 0 cannot open port {} for the others: it is in use, perhaps by another run; choose another "
                      "with MASTER_PORT on every rank",
                      world.master_port));
    throw MachineError(fmt::format("rank {} reached {} port {}, but what answers there is not rank 0 of a run", world.rank,
                                   world.master_address, world.master_port));
  }
}

// Rank 0's answer to the others when all have arrived.
struct Admission {
  int watch_port = 0;
  std::string token;
  std::vector<std::string> hosts;  // of every rank, by host_identity()
};

class Handshake {
 public:
  // `secret`: of the run; it is compared, and not printed.
  Handshake(const ProcessOptions& options, c10d::Store& store, const std::string& secret)
      : options_(options),
        world_(options.world),
        store_(store),
        token_(secret.empty() ? "none" : keyed_hash(secret, "which word it is").substr(0, 16)) {}

  // Rank 0: publishes its own report, waits for every rank's, answers. Returns an address of another rank that is not on this
  // host, if any.
  std::string lead(Admission& admission) {
    admission.hosts = {host_identity()};
    claim();
    put("master", {{"size", world_.size}, {"version", options_.version}, {"host", host_name()}, {"token", token_}});
    std::string other;
    const auto end = Clock::now() + options_.deadline;
    for (int rank = 1; rank < world_.size; ++rank) {
      const std::string key = "hello/" + std::to_string(rank);
      while (!store_.check({key})) {
        throw_refusal();
        if (Clock::now() > end) throw MachineError(refuse(missing()));
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      const json hello = get(key);
      admission.hosts.push_back(hello.at("host"));
      const std::string address = hello.at("address");
      if (address.rfind("127.", 0) != 0 && address != "::1") other = address;
    }
    throw_refusal();
    put("admission", {{"port", admission.watch_port}, {"token", admission.token}, {"hosts", admission.hosts}});
    return other;
  }

  Admission follow(const std::string& address) {
    json master;
    try {
      master = get("master");
    } catch (const std::exception&) {
      throw MachineError(fmt::format("rank {}: rank 0 did not come to {} port {} within {:.3g} s", world_.rank,
                                     world_.master_address, world_.master_port, in_seconds(options_.deadline)));
    }
    if (master.at("size") != world_.size)
      throw InputError(refuse(
          fmt::format("wrong world size: rank {} on {} was started as one of {} ranks, rank 0 on {} as one of {}", world_.rank,
                      host_name(), world_.size, master.at("host").get<std::string>(), master.at("size").get<int>())));
    if (master.at("version") != options_.version)
      throw InputError(refuse(fmt::format(
          "the ranks run different versions of panpipe: rank {} on {} has {}, rank 0 on {} has {}", world_.rank, host_name(),
          options_.version, master.at("host").get<std::string>(), master.at("version").get<std::string>())));
    if (master.at("token") != token_)
      throw InputError(
          refuse(fmt::format("the ranks were given different words in {}: rank {} on {} has {}, rank 0 on {} has {}; give "
                             "every rank the same, or none",
                             kTokenVariable, world_.rank, host_name(), token_ == "none" ? "none" : "another",
                             master.at("host").get<std::string>(), master.at("token") == "none" ? "none" : "its own")));
    claim();
    put("hello/" + std::to_string(world_.rank), {{"address", address}, {"host", host_identity()}});
    // Rank 0 waits for the others from its own start; this rank may be the first.
    const auto end = Clock::now() + options_.deadline + options_.deadline / 10;
    while (!store_.check({"admission"})) {
      throw_refusal();
      if (Clock::now() > end)
        throw MachineError(
            fmt::format("rank {}: rank 0 gave no answer within {:.3g} s", world_.rank, in_seconds(options_.deadline)));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const json admission = get("admission");
    return {admission.at("port"), admission.at("token"), admission.at("hosts")};
  }

 private:
  void put(const std::string& key, const json& document) { store_.set(key, bytes_of(document.dump())); }
  json get(const std::string& key) { return json::parse(text_of(store_.get(key))); }

  void claim() {
    const std::int64_t holders = store_.add("claim/" + std::to_string(world_.rank), 1);
    if (holders > 1)
      throw InputError(refuse(fmt::format("{} processes say that they are rank {} of this run; the last is on {}", holders,
                                          world_.rank, host_name())));
  }

  std::string missing() {
    std::string ranks;
    int count = 0;
    for (int rank = 1; rank < world_.size; ++rank)
      if (!store_.check({"hello/" + std::to_string(rank)})) ranks += fmt::format("{}{}", count++ ? ", " : "", rank);
    return fmt::format("rank{} {} of {} did not come within {:.3g} s (--deadline makes it longer)", count > 1 ? "s" : "", ranks,
                       world_.size, in_seconds(options_.deadline));
  }

  // Tells the others why this rank refuses.
  std::string refuse(const std::string& why) {
    store_.set("refusal", bytes_of(why));
    return why;
  }
  void throw_refusal() {
    if (store_.check({"refusal"})) throw InputError(text_of(store_.get("refusal")));
  }

  const ProcessOptions& options_;
  const World& world_;
  c10d::Store& store_;
  std::string token_;
};

// Where this rank stands among those of its host.
void find_place(Rendezvous& result, const std::vector<std::string>& hosts, std::size_t rank) {
  result.local_rank = static_cast<int>(std::count(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(rank), hosts[rank]));
  result.local_size = static_cast<int>(std::count(hosts.begin(), hosts.end(), hosts[rank]));
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Tells hosts apart, as NCCL does: hosts of a cluster may have one name, containers of one host have one boot but their own
// names.
std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return host_name() + " " + boot;
}

Rendezvous hold_rendezvous(const ProcessOptions& options, std::function<void(const std::string&, bool)> lost) {
  Rendezvous result;
  result.store = open_store(options);
  result.address = address_towards(options.world.master_address, options.world.master_port);
  const std::string secret = job_secret();
  Handshake handshake(options, *result.store, secret);
  WatchOptions watch{options.world.rank, options.world.size, options.deadline, options.kill_when_stuck, std::move(lost)};
  if (options.world.rank != 0) {
    const Admission admission = handshake.follow(result.address);
    find_place(result, admission.hosts, static_cast<std::size_t>(options.world.rank));
    result.watch = watch_as_other_rank(std::move(watch), options.world.master_address, admission.watch_port,
                                       secret.empty() ? admission.token : secret);
    return result;
  }
  Admission admission;
  // Without a secret of their own the ranks share one over the store: it refuses a process that connects by mistake, not one that
  // reads the store.
  if (secret.empty()) admission.token = random_token();
  const Handle listener = one_host(options.world) ? listen_at(options.world.master_address, admission.watch_port)
                                                  : listen_anywhere(admission.watch_port);
  // A host's own name may mean loopback to itself; then its address is the one on the way to the others.
  const std::string other = handshake.lead(admission);
  find_place(result, admission.hosts, 0);
  if (!other.empty()) result.address = address_towards(other, options.world.master_port);
  result.watch = watch_as_first_rank(std::move(watch), listener, secret.empty() ? admission.token : secret);
  return result;
}

}  // namespace panpipe::exec
