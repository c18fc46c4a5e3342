// Values that a built-in model begins with instead of drawn ones: safetensors files with the names of Hugging Face's classes
// GPT2LMHeadModel and LlamaForCausalLM, or of the models inside them; or a checkpoint of a run.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/graph.hpp"
#include "exec/engine/checkpoint/safetensors.hpp"

namespace panpipe::exec {

class PublishedWeights {
 public:
  // Opens what the scenario's `workload.weights` names: a file, an index of several (model.safetensors.index.json), or a folder
  // with one of them or with a checkpoint. Checks every name and shape, and the numbers in a config.json beside them that no
  // shape shows. InputError at that key. `graph`: of any cut. The scenario must outlive this.
  PublishedWeights(const Scenario& scenario, const OperatorGraph& graph);

  // A parameter's values, uncut, in the type of the file. InputError: the file holds other values for a parameter tied to this
  // one.
  at::Tensor read(const Tensor& parameter) const;

 private:
  struct Entry {
    std::string name;         // in the files
    bool transposed = false;  // there
    std::int64_t rows = -1;   // taken of more; -1: all
    std::string tied;         // a second name of it that the files hold too; empty: none
  };
  void open(const std::string& path);
  void open_index(const std::string& path);
  void add_file(const std::string& path);
  void check_config(const std::string& folder) const;
  std::string found_name(const std::string& name) const;
  void assign(const OperatorGraph& graph);
  InputError fault(const std::string& message, const std::string& help = "") const;
  const StoredTensor& stored(const std::string& name) const;

  const Scenario* scenario_;
  std::string path_;
  bool own_ = false;  // files of a checkpoint: names and shapes are those of the model
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> file_of_;  // by the names in the files
  std::map<std::string, Entry> entries_;        // by parameter
};

// Null where the scenario names none.
std::shared_ptr<const PublishedWeights> published_weights(const Scenario& scenario, const OperatorGraph& graph);

}  // namespace panpipe::exec
