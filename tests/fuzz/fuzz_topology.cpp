// Any bytes are a topology matrix or an InputError; a matrix becomes a cluster, and the cluster file written from it.
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/cluster/topology_import.hpp"
#include "tests/fuzz/fuzz_input.hpp"

namespace {

panpipe::DeviceType device() {
  panpipe::ReadLog log;
  panpipe::DeviceType type = panpipe::load_device("rtx-3090", "", log);
  log.throw_if_errors();
  return type;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  static const DeviceType type = device();
  const std::string text = fuzz::text_of(data, size);
  TopologyImport import{"fuzz.txt", "rtx-3090", {}, {type, 1, {}, {}}};
  if (!fuzz::accepts([&] { import.matrix = parse_topology_matrix(text, "fuzz.txt"); })) return 0;
  Cluster direct;
  if (!fuzz::accepts([&] { direct = read_topology_matrix(text, "fuzz.txt", type); })) return 0;
  std::string written;
  if (!fuzz::accepts([&] { written = cluster_file_of(import); })) return 0;
  ReadLog log;
  const Cluster again = read_cluster(*parse_document(written, "again.yaml", ""), log);
  log.throw_if_errors();  // what is written must be read
  if (again.size() != direct.size()) std::abort();
  return 0;
}
