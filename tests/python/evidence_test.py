"""What was measured on a machine: `evidence=` of the functions, and the key of a scenario, as `--evidence` of the command."""

import pathlib
import unittest

import panpipe
from asked import Cases, command, refusal

LOGS = pathlib.Path(__file__).resolve().parents[2] / "validation" / "logs"
OTHER = LOGS / "megatron-gpt-30b-v100x32.log"
INTERVAL = ("step_time_p10_s", "step_time_p50_s", "step_time_p90_s")


def interval(metrics):
    return [metrics[name] for name in INTERVAL]


class Evidence(Cases):
    def setUp(self):
        super().setUp()
        logged = panpipe.import_log(LOGS / "megatron-gpt-18b-v100x16.log", cluster=LOGS / "jean-zay-v100.yaml")
        self.job = self.written("job.yaml", logged.yaml)

    def test_every_function_has_the_interval_of_the_command(self):
        expected = command(f"estimate {self.job} --evidence {OTHER}")
        step = panpipe.estimate(self.job, evidence=[OTHER])
        self.assertEqual(interval(step.metrics), interval(expected["metrics"]))
        self.assertEqual(step.to_dict()["evidence"], expected["evidence"])
        self.assertNotEqual(interval(panpipe.estimate(self.job).metrics), interval(step.metrics))
        self.assertEqual(interval(panpipe.support(self.job, evidence=[OTHER])), interval(expected["metrics"]))
        self.assertEqual(interval(panpipe.plan(self.job, evidence=[OTHER]).yours.metrics), interval(expected["metrics"]))
        swept = panpipe.sweep(self.job, {"batch.micro": [1]}, evidence=[OTHER])
        self.assertEqual(swept.cells[0]["metrics"]["step_time_p50_s"], expected["metrics"]["step_time_p50_s"])
        for shown in (swept.text, swept.page):
            self.assertIn("evidence, as it counts for batch.micro=1:", shown)

    def test_a_dict_may_name_it(self):
        named = panpipe.estimate(self.job, set={"evidence": [str(OTHER)]})
        self.assertEqual(interval(named.metrics), interval(panpipe.estimate(self.job, evidence=[OTHER]).metrics))

    def test_a_changed_file_is_read_again(self):
        runs = self.written("runs.csv", f"id,source,scenario,step_s\na,mine,{self.job.name},3\n")
        before = panpipe.estimate(self.job, evidence=[runs])
        self.written("runs.csv", f"id,source,scenario,step_s\na,mine,{self.job.name},3.3\n")
        after = panpipe.estimate(self.job, evidence=[runs])
        self.assertGreater(after.metrics["step_time_p50_s"], before.metrics["step_time_p50_s"])

    def test_what_is_no_list_is_refused(self):
        self.assertIn("files stand in a list", str(refusal(panpipe.estimate, self.job, evidence="run.log")))
        self.assertIn("there is no file of evidence", str(refusal(panpipe.estimate, self.job, evidence=["/no/such.log"])))


if __name__ == "__main__":
    unittest.main()
