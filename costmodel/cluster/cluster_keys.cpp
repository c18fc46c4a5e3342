#include "costmodel/cluster/cluster_keys.hpp"

#include <utility>

#include "base/text/quantity_text.hpp"
#include "costmodel/cluster/wiring_defaults.hpp"

namespace panpipe {
namespace {

namespace defaults = wiring_defaults;
using std::vector;

// The first keys of every file.
vector<Key> heading(const char* kind) {
  return {{.name = "panpipe", .forms = {form::whole(1)}, .meaning = "the format's number, 1", .acts_on = ActsOn::Nothing},
          {.name = "kind", .words = {kind}, .meaning = "the kind of the file", .acts_on = ActsOn::Nothing},
          {.name = "description", .forms = {form::text()}, .meaning = "a line for people", .acts_on = ActsOn::Nothing},
          {.name = "source", .forms = {form::text()}, .meaning = "where the whole comes from", .acts_on = ActsOn::Nothing}};
}

Key sources() {
  return {.name = "sources", .open = true, .meaning = "where each number comes from, by its key", .acts_on = ActsOn::Nothing};
}

Key latency(std::string fallback, const char* meaning) {
  return {.name = "latency", .forms = {form::time()}, .fallback = std::move(fallback), .meaning = meaning};
}

Key capacity(const char* name, const char* meaning, std::string_view otherwise = {}, std::string fallback = "") {
  return {
      .name = name, .forms = {form::bandwidth()}, .fallback = std::move(fallback), .otherwise = otherwise, .meaning = meaning};
}

Key list_of_devices(const char* name, const char* meaning) {
  return {.name = name, .items = {{.items = {{.forms = {form::whole(0)}}}}}, .meaning = meaning};
}

Key device() {
  vector<Key> keys = heading("device");
  const vector<Key> own = {
      {.name = "file", .forms = {form::shipped()}, .meaning = "the device's file, whose keys the others replace"},
      {.name = "name", .forms = {form::text()}, .meaning = "the device's name"},
      {.name = "processor", .words = {"gpu", "cpu"}, .fallback = "gpu", .meaning = "what computes"},
      {.name = "memory", .forms = {form::size(Sign::Positive)}, .meaning = "of one device"},
      {.name = "usable", .forms = {form::share()}, .fallback = "100 %", .meaning = "share of the memory that programs get"},
      {.name = "memory_bandwidth", .forms = {form::bandwidth()}, .meaning = "of the device's own memory"},
      {.name = "peak",
       .keys = {{.name = "fp32", .forms = {form::rate()}, .meaning = "dense rate in fp32"},
                {.name = "tf32", .forms = {form::rate()}, .meaning = "dense rate in tf32"},
                {.name = "bf16", .forms = {form::rate()}, .meaning = "dense rate in bf16, accumulated in fp32"},
                {.name = "fp16", .forms = {form::rate()}, .meaning = "dense rate in fp16, accumulated in fp32"},
                {.name = "fp8", .forms = {form::rate()}, .meaning = "dense rate in fp8"},
                {.name = "mxfp8", .forms = {form::rate()}, .meaning = "dense rate in fp8 with a scale per block"},
                {.name = "nvfp4", .forms = {form::rate()}, .meaning = "dense rate in fp4 with a scale in fp8 per 16 elements"},
                {.name = "mxfp4", .forms = {form::rate()}, .meaning = "dense rate in fp4 with a scale per 32 elements"}},
       .meaning = "dense compute rates by precision"},
      {.name = "multiprocessors",
       .forms = {form::whole(1)},
       .meaning = "number of multiprocessors, for the fill of small kernels"},
      {.name = "tdp", .forms = {form::text()}, .meaning = "board power, for energy", .page = "run-costs.md", .example = "400 W"},
      {.name = "power_limit",
       .forms = {form::text()},
       .otherwise = "`tdp`",
       .meaning = "as nvidia-smi -pl sets it; compute rates follow",
       .page = "models/topology.md#power-and-clock",
       .example = "300 W"},
      {.name = "clock",
       .forms = {form::share()},
       .fallback = "100 %",
       .meaning = "share of the clock at which the peaks hold; compute rates follow",
       .page = "models/topology.md#power-and-clock"},
      {.name = "copy_bandwidth", .forms = {form::bandwidth()}, .meaning = "between device and host, one direction"},
      {.name = "peer_access", .forms = {form::truth()}, .fallback = "true", .meaning = "devices reach one another over PCIe"},
      {.name = "multicast", .forms = {form::truth()}, .fallback = "false", .meaning = "the switch reduces (NVLink SHARP)"},
      {.name = "nvlink",
       .keys = {{.name = "links", .forms = {form::whole(1)}, .meaning = "links of a device"},
                capacity("bandwidth", "of one link, one direction")},
       .meaning = "its NVLink ports"},
      {.name = "calibration",
       .forms = {form::shipped()},
       .open = true,
       .otherwise = "a priori constants",
       .meaning = "physical numbers of this device from measured runs: a file, or the numbers where a device's file holds them",
       .page = "models/calibration.md"},
      {.name = "driver_name", .forms = {form::text()}, .meaning = "what the driver calls the device", .acts_on = ActsOn::Nothing},
      {.name = "server",
       .forms = {form::text()},
       .meaning = "the shipped cluster file of one server with it, for runs that name the device alone",
       .acts_on = ActsOn::Nothing},
      {.name = "compute_capability",
       .forms = {form::number(Sign::Positive)},
       .meaning = "generation of an NVIDIA device: whether products in 8 bits read copies by rows, how fast NVSwitch sums",
       .example = "9"},
      {.name = "measured",
       .open = true,
       .meaning = "what `panpipe measure-device` measured: evidence, and for people",
       .page = "measure-device.md",
       .acts_on = ActsOn::Nothing},
      sources()};
  keys.insert(keys.end(), own.begin(), own.end());
  return {.name = "device",
          .forms = {form::shipped()},
          .keys = std::move(keys),
          .meaning = "the type of the devices: a file, or a map of its keys",
          .page = "models/topology.md#parameters"};
}

Key wiring() {
  const std::string nvlink = exact_text(defaults::kNvlinkLatency);
  return {.name = "wiring",
          .keys = {{.name = "topology", .forms = {form::file()}, .meaning = "a file with what `nvidia-smi topo -m` prints"},
                   {.name = "switch",
                    .keys = {capacity("bandwidth", "of a device's port, one direction"), latency(nvlink, "of a transfer")},
                    .meaning = "an NVSwitch that connects all devices"},
                   {.name = "bridges",
                    .keys = {list_of_devices("pairs", "the pairs of devices with a bridge"),
                             capacity("bandwidth", "of a bridge, one direction"), latency(nvlink, "of a transfer")},
                    .meaning = "NVLink bridges between pairs"},
                   {.name = "links",
                    .items = {{.keys = {{.name = "between",
                                         .items = {{.forms = {form::whole(0)}}},
                                         .required = true,
                                         .meaning = "the two devices"},
                                        {.name = "class",
                                         .words = {"bridge", "peer-pcie", "host", "host-sockets"},
                                         .meaning = "the class of the path"},
                                        capacity("bandwidth", "of one direction"),
                                        latency("", "of a transfer")}}},
                    .meaning = "links of single pairs"},
                   {.name = "pcie",
                    .keys = {capacity("bandwidth", "of a device's slot, one direction", "what `generation` and `lanes` carry"),
                             {.name = "generation",
                              .forms = {form::whole(3)},
                              .meaning = "of the slot: 3 to 6; a slot that carries less than the card narrows it",
                              .example = "4"},
                             {.name = "lanes",
                              .forms = {form::whole(1)},
                              .fallback = "16",
                              .meaning = "of the slot; without `generation` a share of `bandwidth`"}},
                    .meaning = "PCIe slots"},
                   {.name = "roots",
                    .keys = {list_of_devices("groups", "the devices below each root"),
                             capacity("bandwidth", "of a root's uplink", "as `pcie`")},
                    .meaning = "devices that share an uplink"},
                   {.name = "sockets",
                    .keys = {list_of_devices("groups", "the devices of each socket"),
                             capacity("bandwidth", "of the link between sockets", {}, exact_text(defaults::kSocketLink)),
                             latency(exact_text(defaults::kSocketLatency), "of crossing it")},
                    .meaning = "the processors of the node"},
                   {.name = "peer",
                    .keys = {latency(exact_text(defaults::kPeerLatency), "of a transfer")},
                    .meaning = "access between devices over PCIe"},
                   {.name = "host",
                    .keys = {capacity("copy", "of a copy through the host, one direction"),
                             capacity("both_ways", "of both directions of a device together", "no limit"),
                             capacity("memory", "of a socket's memory", "no limit"),
                             capacity("relay", "of all copies between devices through a socket's processor", "no limit"),
                             latency(exact_text(defaults::kHostLatency), "of a copy through the host")},
                    .meaning = "copies through the host"}},
          .meaning = "the connections inside a node",
          .page = "models/topology.md#parameters"};
}

Key network() {
  return {
      .name = "network",
      .keys = {{.name = "nics_per_node", .forms = {form::whole(1)}, .meaning = "network cards of a node"},
               capacity("bandwidth", "of a card, one direction"),
               latency(exact_text(defaults::kNetworkLatency), "of a transfer between nodes"),
               {.name = "post",
                .forms = {form::time()},
                .fallback = exact_text(defaults::kNetworkPost),
                .meaning = "host time of a message"},
               {.name = "oversubscription",
                .forms = {form::number(Sign::Positive)},
                .fallback = "1",
                .meaning = "what a node's cards can send over what its uplink carries; at least 1"},
               {.name = "spine",
                .forms = {form::bandwidth()},
                .otherwise = "no limit",
                .meaning = "what all nodes together can exchange; with `rails`, over all rails",
                .example = "1 GB/s"},
               {.name = "rails",
                .forms = {form::truth()},
                .fallback = "false",
                .meaning = "cards of equal number have switches of their own; only what goes from one number to another crosses "
                           "the oversubscribed level and the spine"},
               {.name = "sharp",
                .forms = {form::truth()},
                .fallback = "false",
                .meaning = "the switches sum all-reduces (SHARP)",
                .page = "models/collectives.md"}},
      .meaning = "the network between nodes",
      .page = "models/topology.md#parameters"};
}

vector<Key> group() {
  return {device(),
          {.name = "nodes", .forms = {form::whole(1)}, .fallback = "1", .meaning = "number of nodes"},
          {.name = "devices_per_node", .forms = {form::whole(1)}, .meaning = "devices of a node"},
          {.name = "host_memory",
           .forms = {form::size(Sign::Positive)},
           .otherwise = "no limit",
           .meaning = "of a node's host: what `offload` puts there must fit",
           .example = "512 GiB"},
          wiring(),
          network()};
}

Key link() {
  const Key table = {.name = "table",
                     .items = {{.items = {{.forms = {form::size(), form::time()}}}}},
                     .meaning = "pairs of size and time: linear between its points and beyond the last, shared by nothing"};
  return {.name = "link",
          .keys = {latency("", "of a transfer"),
                   capacity("bandwidth", "of one direction, or `unlimited`"),
                   {.name = "shared",
                    .forms = {form::truth()},
                    .fallback = "true",
                    .meaning = "`false`: a delay, which simultaneous transfers do not share"},
                   table},
          .meaning = "of a cluster in place: the link of each ordered pair of devices"};
}

Key factor(const char* meaning) {
  return {.name = "factor", .forms = {form::number(Sign::Positive)}, .required = true, .meaning = meaning, .example = "0.9"};
}

vector<Key> impairments() {
  return {
      {.name = "slow",
       .items = {{.keys = {{.name = "device", .forms = {form::whole(0)}, .required = true, .meaning = "its number"},
                           factor("the share of its rate that is left; above 1: how many times as long its passes take")}}},
       .meaning = "single slow devices",
       .page = "models/topology.md#slow-devices-and-degraded-links"},
      {.name = "degraded",
       .items = {{.keys = {{.name = "link",
                            .forms = {form::text()},
                            .items = {{.forms = {form::whole(0)}}},
                            .required = true,
                            .meaning = "as `panpipe check --links` names it, or two devices",
                            .example = "node0.nic0"},
                           factor("the share of its bandwidth that is left; above 1: how many times as long a transfer takes")}}},
       .meaning = "single links with less bandwidth",
       .page = "models/topology.md#slow-devices-and-degraded-links"}};
}

}  // namespace

Key cluster_key() {
  const Keys nodes = group();
  vector<Key> keys = heading("cluster");
  const vector<Key> own = {
      {.name = "file", .forms = {form::shipped()}, .meaning = "the cluster's file, whose keys the others replace"},
      {.name = "name", .forms = {form::text()}, .otherwise = "the file's name", .meaning = "the cluster's name"},
      {.name = "devices", .forms = {form::whole(1)}, .meaning = "of a cluster in place: number of devices"},
      {.name = "memory", .forms = {form::size(Sign::Positive)}, .meaning = "of a cluster in place: memory of a device"},
      link(),
      {.name = "usable",
       .forms = {form::share()},
       .otherwise = "each device's own",
       .meaning = "share of a device's memory that a plan may fill",
       .example = "90 %"},
      {.name = "groups",
       .items = {{.keys = nodes}},
       .meaning = "kinds of nodes: a list of maps with `device`, `nodes`, `devices_per_node`, `wiring`, `network`"},
      {.name = "collectives",
       .forms = {form::shipped()},
       .meaning = "measured times of collectives, which come before formulas",
       .page = "models/collectives.md"},
      sources()};
  keys.insert(keys.end(), nodes.begin(), nodes.end());
  keys.insert(keys.end(), own.begin(), own.end());
  const Keys more = impairments();
  keys.insert(keys.end(), more.begin(), more.end());
  return {.name = "cluster",
          .forms = {form::shipped()},
          .keys = std::move(keys),
          .required = true,
          .meaning = "the machine: a file, a file with keys that replace its own, or a description in place",
          .page = "models/topology.md",
          .exports = InExports::Stated};
}

}  // namespace panpipe
