// A process's place among the processes of a run, as stated by its launcher.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace panpipe::exec {

struct World {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among the processes of this host
  bool local_reported = true;          // false: not stated; the ranks find out when they meet
  std::string master_address = "127.0.0.1";
  int master_port = 0;
  std::string launcher;          // program that started it: "panpipe run", "torchrun", "srun", "mpirun"
  bool store_elsewhere = false;  // torchrun's agent holds the store at the master's port: rank 0 must not open it
  std::string store_prefix;      // one agent's store serves several attempts
};

// The environment variables of the secret that the ranks of a run share: the secret itself, or a file with it
// (exec/engine/transport/job_secret.hpp).
inline constexpr const char* kTokenVariable = "PANPIPE_TOKEN";
inline constexpr const char* kTokenFileVariable = "PANPIPE_TOKEN_FILE";

using Environment = std::function<const char*(const char* name)>;

// Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT (torchrun, panpipe run), else SLURM_* (srun), else OMPI_* (Open
// MPI), else PMI_* (MPICH, Intel MPI). nullopt if this process was not started as one of several. Throws InputError with the
// variable's name if variables are missing or contradictory.
std::optional<World> world_of_environment(const Environment& environment);
std::optional<World> world_of_environment();

// "node[03-05,9],login" -> "node03": the first host of Slurm's list notation.
std::string first_host(const std::string& node_list);

}  // namespace panpipe::exec
