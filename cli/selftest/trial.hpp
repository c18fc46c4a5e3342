// The machine that `panpipe selftest` tries, and what its steps share.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/machine.hpp"
#include "cli/selftest/child.hpp"
#include "cli/selftest/gpu_load.hpp"
#include "costmodel/cluster/cluster.hpp"
#include "validation/runs/run_row.hpp"

namespace panpipe::cli {

struct SelftestRequest {
  std::string device;                       // cpu | cuda; empty = cuda where there are GPUs
  std::string cluster;                      // file that states this machine's links; empty = the shipped one of its GPUs
  std::string folder = "panpipe-selftest";  // for the report
  bool quick = false, json = false;
};

// A folder that is gone with it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const;  // returns its path

 private:
  std::string path_;
};

struct Trial {
  explicit Trial(SelftestRequest asked);  // MachineError: no executor, no such device

  SelftestRequest request;
  Machine machine;
  std::string device;  // cpu | cuda
  TemporaryFolder folder;
  GpuLoad load;
  std::optional<Cluster> cluster;  // of the request
  // Left by steps for later ones.
  std::optional<std::string> profile;  // file
  std::optional<RunRow> row;

  bool on_gpus() const { return device == "cuda"; }
  int gpus() const { return machine.gpus.visible; }
  // Ranks to try: 2, 4, 8 ... and all GPUs; on a single GPU and on the CPU 2, and 4 where that has memory for them.
  std::vector<int> worlds() const;
  // That a run of so many ranks takes here: nccl where each has a GPU, local where they share one, gloo on the CPU.
  std::string transport(int ranks) const;
  // "4 GPUs", "2 ranks on one GPU", "2 processes"
  std::string ranks_text(int ranks) const;
  // run_child, with the GPUs watched meanwhile.
  ChildEnd run(const std::function<int()>& body, double seconds);
};

// What to try where a transport breaks a rule, and where a process that uses it failed.
std::string remedy_for_transport(const std::string& transport);
std::string remedy_after(const ChildEnd& end, const std::string& transport);

}  // namespace panpipe::cli
