// The keys of `parallel:` whose values are degrees, one row each. The scenario's reader, plan files, result documents, settings
// that planners write, and the terms of headings come from these rows. A new degree is a member of Degrees, a row here, and the
// places that give it its meaning (CONTRIBUTING.md, "add a degree of parallelism").
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/degrees/degrees.hpp"

namespace panpipe {

struct Axis {
  std::string_view key;             // below `parallel:`, in plan files and in result documents
  std::string_view short_name;      // what other trainers call it
  int Degrees::*number = nullptr;   // the member of Degrees, a number ...
  bool Degrees::*flag = nullptr;    // ... or a truth value
  int least = 1;                    // of what a scenario may state
  std::string_view otherwise = {};  // what an absent key means, where that is no fixed value (else it is that of Degrees{})
  bool multiplies = false;          // the devices are the product of these
  bool always = false;              // plan files, results and settings state it even where it is that of Degrees{}
  bool in_plan = true;              // plan files, results and settings have it; the schedule in them has the stages per rank
  std::string_view meaning = {};    // for the reference of keys

  constexpr int of(const Degrees& degrees) const { return number != nullptr ? degrees.*number : int{degrees.*flag}; }
  constexpr void put(Degrees& degrees, int value) const {
    if (number != nullptr)
      degrees.*number = value;
    else
      degrees.*flag = value != 0;
  }
  std::string text(const Degrees& degrees) const {
    return number != nullptr ? std::to_string(degrees.*number) : degrees.*flag ? "true" : "false";
  }
  bool written(const Degrees& degrees) const { return in_plan && (always || of(degrees) != of(Degrees{})); }
};

// In the order in which files name them.
constexpr Axis kAxes[] = {
    {.key = "pipeline",
     .short_name = "pp",
     .number = &Degrees::pipeline,
     .otherwise = "devices / (tensor x context x data)",
     .multiplies = true,
     .always = true,
     .meaning = "ranks that hold different stages of the model"},
    {.key = "tensor",
     .short_name = "tp",
     .number = &Degrees::tensor,
     .multiplies = true,
     .always = true,
     .meaning = "ranks that divide the products of a layer; their devices are neighbours"},
    {.key = "data",
     .short_name = "dp",
     .number = &Degrees::data,
     .multiplies = true,
     .always = true,
     .meaning = "replicas of the model, each with samples of its own"},
    {.key = "zero",
     .short_name = "",
     .number = &Degrees::zero,
     .least = 0,
     .always = true,
     .meaning = "ZeRO's stage: 1 divides the optimizer's states over the replicas, 2 gradients too, 3 parameters too"},
    {.key = "shard",
     .short_name = "",
     .number = &Degrees::shard,
     .otherwise = "all replicas",
     .meaning = "ranks of a shard group, over which ZeRO divides; divides data x context"},
    {.key = "context",
     .short_name = "cp",
     .number = &Degrees::context,
     .multiplies = true,
     .meaning = "ranks that share a sample's sequence, numbered between tensor and data"},
    {.key = "expert",
     .short_name = "ep",
     .number = &Degrees::expert,
     .meaning = "ranks that divide the experts of a model: neighbours among context- and data-parallel ranks, whose number it "
                "divides"},
    {.key = "expert_tensor",
     .short_name = "etp",
     .number = &Degrees::expert_tensor,
     .otherwise = "parallel.tensor",
     .meaning = "ranks that divide an expert's width: 1, or the tensor degree"},
    {.key = "sequence_parallel",
     .short_name = "sp",
     .flag = &Degrees::sequence_parallel,
     .always = true,
     .meaning = "tensor-parallel ranks divide the sequence where they do not divide weights"},
    {.key = "virtual_stages",
     .short_name = "vpp",
     .number = &Degrees::virtual_stages,
     .otherwise = "the schedule's stages per rank",
     .in_plan = false,
     .meaning = "stages per rank"},
};

// "pipeline 2 x tensor 1 x data 4"; with those that multiply the devices and are not always written, where they are above 1.
std::string product_text(const Degrees& degrees);
// "data 4", "data 4 x context 2": the ranks that hold the same weights.
std::string replicas_text(const Degrees& degrees);
// Each written axis with its value: ("tensor", "2").
std::vector<std::pair<std::string, std::string>> written_degrees(const Degrees& degrees);
// The same as a map of YAML: "{pipeline: 2, tensor: 1, data: 4, zero: 0, sequence_parallel: false}".
std::string yaml_of(const Degrees& degrees);

}  // namespace panpipe
