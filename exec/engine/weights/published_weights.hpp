// Initial values of a model from files instead of random numbers: safetensors files with the names of Hugging Face's classes, or
// of the models inside them; or a checkpoint of a run.
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
#include "exec/engine/weights/stored_form.hpp"

namespace panpipe::exec {

// Files in a folder of weights.
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kWholeName = "model.safetensors";

class PublishedWeights {
 public:
  // Opens the scenario's `workload.weights`: a file, an index of several (model.safetensors.index.json), or a folder with one of
  // them or with a checkpoint. Checks every name and shape, and the numbers of a neighbouring config.json that no shape shows.
  // Throws InputError at that key. `graph` may be cut in any way. The scenario must outlive the object.
  PublishedWeights(const Scenario& scenario, const OperatorGraph& graph);

  // True if the files contain the tensor: every parameter, and buffers that are trained state of their class.
  bool holds(const Tensor& tensor) const { return entries_.count(tensor.name) > 0; }
  // A tensor's values, undivided, in the type of the file. Throws InputError if the file holds different values for a parameter
  // tied to this one.
  at::Tensor read(const Tensor& tensor) const;

 private:
  struct Entry {
    StoredForm form;                     // with the names of these files
    std::int64_t rows = -1;              // rows taken if the file has more; -1: all
    std::vector<std::string> tied = {};  // its other names in the files
  };
  void open(const std::string& path);
  void open_index(const std::string& path);
  void add_file(const std::string& path);
  void check_config(const std::string& folder) const;
  std::string found_name(const std::string& name) const;
  // The first of its forms whose names the files contain; without parts if there is none.
  StoredForm found_form(const Tensor& tensor) const;
  void assign(const OperatorGraph& graph);
  Entry entry_of(const Tensor& tensor, StoredForm form) const;
  void check_all_used(const std::vector<std::string>& missing) const;
  InputError fault(const std::string& message, const std::string& help = "") const;

  const Scenario* scenario_;
  std::string path_;
  StoredModel model_;
  bool own_ = false;  // files of a checkpoint: names and shapes match the model
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> file_of_;  // by the names in the files
  std::map<std::string, Entry> entries_;        // by parameter
};

// True for a buffer that training changes, so that files contain it; tables and masks are derived from the model's shape.
bool is_trained_state(const Tensor& tensor);

// The name in transformers' configurations: "gpt2" or "llama" for the built-in families; empty for other workloads.
std::string model_type_of(const WorkloadRequest& workload);
StoredModel stored_model(const WorkloadRequest& workload);

// nullptr if the scenario names none.
std::shared_ptr<const PublishedWeights> published_weights(const Scenario& scenario, const OperatorGraph& graph);

}  // namespace panpipe::exec
