#include "exec/launch/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/error.hpp"

namespace panpipe::exec {
namespace {

constexpr int kUsualPort = 29500;  // torchrun's default

// The variables in which a launcher passes a process its place.
struct Names {
  const char* launcher;
  const char *rank, *size, *local_rank, *local_size;
};
constexpr Names kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kSlurm{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"};
constexpr Names kOpenMpi{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                         "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kPmi{"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

std::optional<std::string> text_of(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

// A whole number of at least `least`; throws otherwise.
std::optional<int> number_of(const Environment& environment, const char* name, int least) {
  const auto text = text_of(environment, name);
  if (!text) return std::nullopt;
  int value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, fault] = std::from_chars(text->data(), end, value);
  if (fault != std::errc() || stop != end || value < least)
    throw InputError(fmt::format("environment: {} must be a whole number of at least {}, not '{}'", name, least, *text));
  return value;
}

// "2(x4),1" is two tasks on each of four nodes and one on the fifth (Slurm, srun's SLURM_STEP_TASKS_PER_NODE). Nothing where the
// list does not state it.
std::optional<int> tasks_of_node(const std::string& list, int node) {
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    int tasks = 0, nodes = 1;
    const char *text = list.data() + begin, *stop = list.data() + end;
    const auto [rest, fault] = std::from_chars(text, stop, tasks);
    if (fault != std::errc() || tasks < 1) return std::nullopt;
    if (stop - rest > 2 && rest[0] == '(' && rest[1] == 'x') std::from_chars(rest + 2, stop, nodes);
    if (node < nodes) return tasks;
    node -= nodes;
    begin = end + 1;
  }
  return std::nullopt;
}

// Ranks of this host, by the launcher's variables.
std::optional<int> local_size_of(const Environment& environment, const Names& names) {
  if (names.launcher != kSlurm.launcher) return number_of(environment, names.local_size, 1);
  const auto list = text_of(environment, names.local_size);
  return list ? tasks_of_node(*list, number_of(environment, "SLURM_NODEID", 0).value_or(0)) : std::nullopt;
}

World place(const Environment& environment, const Names& names) {
  const auto rank = number_of(environment, names.rank, 0);
  const auto size = number_of(environment, names.size, 1);
  if (!rank || !size) {
    const char* missing = rank ? names.size : names.rank;
    throw InputError(
        fmt::format("environment: {} is set and {} is not: {} sets both; unset them to start the ranks with panpipe run",
                    rank ? names.rank : names.size, missing, names.launcher));
  }
  if (*rank >= *size)
    throw InputError(
        fmt::format("environment: {}={} but {}={}: ranks are 0 to {}", names.rank, *rank, names.size, *size, *size - 1));
  World world;
  world.rank = *rank;
  world.size = *size;
  world.launcher = names.launcher;
  const auto local_rank = number_of(environment, names.local_rank, 0);
  const auto local_size = local_size_of(environment, names);
  world.local_rank = local_rank.value_or(0);
  world.local_size = local_size.value_or(1);
  world.local_reported = world.size == 1 || (local_rank && local_size);
  return world;
}

// Slurm and MPI name no master: srun's first node, or this host when all ranks are here.
void find_master(World& world, const Environment& environment) {
  if (const auto address = text_of(environment, "MASTER_ADDR")) {
    world.master_address = *address;
    if (address->size() > 2 && address->front() == '[' && address->back() == ']')  // an IPv6 address as URLs write it
      world.master_address = address->substr(1, address->size() - 2);
  } else if (const auto nodes = text_of(environment, "SLURM_STEP_NODELIST"); nodes && world.launcher == "srun") {
    world.master_address = first_host(*nodes);
  } else if (world.launcher != "panpipe run" && world.local_size < world.size) {
    throw InputError(
        fmt::format("environment: MASTER_ADDR is not set: with ranks on several hosts every rank needs the address of rank "
                    "0's host ({} of {} ranks are on this one)",
                    world.local_size, world.size));
  }
  world.master_port = number_of(environment, "MASTER_PORT", 1).value_or(kUsualPort);
  if (world.master_port > 65535)
    throw InputError(fmt::format("environment: MASTER_PORT={} is no port: 1 to 65535", world.master_port));
}

}  // namespace

std::string first_host(const std::string& node_list) {
  const std::size_t bracket = node_list.find('['), comma = node_list.find(',');
  if (bracket == std::string::npos || comma < bracket) return node_list.substr(0, comma);
  const std::size_t end = node_list.find_first_of(",-]", bracket);
  return node_list.substr(0, bracket) + node_list.substr(bracket + 1, end - bracket - 1);
}

std::optional<World> world_of_environment(const Environment& environment) {
  std::optional<World> world;
  if (environment("RANK") || environment("WORLD_SIZE")) {
    world = place(environment, kTorchrun);
    if (environment("PANPIPE_LAUNCHED")) world->launcher = "panpipe run";
    if (const auto agent = text_of(environment, "TORCHELASTIC_USE_AGENT_STORE"); agent == "True") {
      world->store_elsewhere = true;
      world->store_prefix = "attempt_" + text_of(environment, "TORCHELASTIC_RESTART_COUNT").value_or("0");
    }
  } else if (environment("SLURM_STEP_ID") && environment("SLURM_PROCID")) {
    world = place(environment, kSlurm);
  } else if (environment("OMPI_COMM_WORLD_RANK")) {
    world = place(environment, kOpenMpi);
  } else if (environment("PMI_RANK")) {
    world = place(environment, kPmi);
  }
  // A job step of one task is how people call ordinary programs: panpipe run then starts the ranks itself.
  if (world && world->size == 1 && world->launcher != "torchrun" && world->launcher != "panpipe run") return std::nullopt;
  if (world) find_master(*world, environment);
  return world;
}

std::optional<World> world_of_environment() {
  return world_of_environment([](const char* name) { return static_cast<const char*>(std::getenv(name)); });
}

}  // namespace panpipe::exec
