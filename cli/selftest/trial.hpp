// The machine under test in `panpipe selftest`, and data shared by its steps.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/machine.hpp"
#include "cli/selftest/child.hpp"
#include "cli/selftest/gpu_load.hpp"
#include "costmodel/cluster/cluster.hpp"
#include "exec/launch/run_request.hpp"
#include "validation/runs/run_row.hpp"

namespace panpipe::cli {

struct SelftestRequest {
  std::string device;                       // cpu | cuda; empty = cuda if there are GPUs
  std::string cluster;                      // file that states this machine's links; empty = the shipped one for its GPUs
  std::string folder = "panpipe-selftest";  // for the report
  bool quick = false, json = false;
};

// A folder that is removed with the object.
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
  explicit Trial(SelftestRequest asked);  // throws MachineError if the executor or the device is missing

  SelftestRequest request;
  Machine machine;
  std::string device;  // cpu | cuda
  TemporaryFolder folder;
  GpuLoad load;
  std::optional<Cluster> cluster;  // as requested
  // Set by earlier steps for later ones.
  std::optional<std::string> profile;  // file
  std::optional<validation::RunRow> row;

  bool on_gpus() const { return device == "cuda"; }
  int gpus() const { return machine.gpus.visible; }
  // Numbers of ranks to test: 2, 4, 8 ... and all GPUs. On a single GPU and on the CPU: 2, and 4 if memory suffices.
  std::vector<int> worlds() const;
  // The transport for this many ranks: nccl if each has a GPU, local if they share one, gloo on the CPU.
  std::string transport(int ranks) const;
  // "4 GPUs", "2 ranks on one GPU", "2 processes"
  std::string ranks_text(int ranks) const;
  // A run on this machine's device, without progress, in which a rank may be silent for long.
  exec::RunRequest run_request(const std::string& scenario, const std::string& transport) const;
  // Like run_child, but monitors the GPUs meanwhile.
  ChildEnd run(const std::function<int()>& body, double seconds);
};

// The remedy if a transport breaks a rule, and if a process that uses it failed.
std::string remedy_for_transport(const std::string& transport);
std::string remedy_after(const ChildEnd& end, const std::string& transport);

}  // namespace panpipe::cli
