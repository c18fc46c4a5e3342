// A scenario to its predicted step time, with the public headers of the cost model alone.
#include <cstdio>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/timeline/timeline.hpp"
#include "costmodel/workload/workload.hpp"

int main(int, char** argv) {
  const panpipe::Scenario scenario = panpipe::load_scenario(argv[1]);
  const panpipe::Workload workload = panpipe::make_workload(scenario);
  const panpipe::CostModel model(scenario, workload);
  const panpipe::Plan plan = panpipe::make_plan(scenario, model);
  const panpipe::Timeline timeline = panpipe::estimate(panpipe::lower(scenario, plan, model));
  std::printf("%.17g\n", panpipe::metrics(timeline).step_time_s);
}
