#include "jobs/torchtitan/flavors.hpp"

#include "costmodel/scenario/trainer.hpp"
#include "jobs/trainer_data.hpp"

namespace panpipe::jobs {

const std::vector<TorchtitanFlavor>& torchtitan_flavors() {
  static const std::vector<TorchtitanFlavor> table = [] {
    std::vector<TorchtitanFlavor> flavors;
    const std::shared_ptr<const Node> file = trainer_file("torchtitan");
    for (const NodePtr& row : file->find("flavors")->items) {
      const Node& config = *row->find("config");
      const Node* function = row->find("function");
      flavors.push_back({row->find("model")->text, row->find("flavor")->text, std::stoi(config.find("num_hidden_layers")->text),
                         flow_text(config), function == nullptr ? std::string() : function->text,
                         function == nullptr ? std::string() : flow_text(*row->find("settings"))});
    }
    return flavors;
  }();
  return table;
}

}  // namespace panpipe::jobs
