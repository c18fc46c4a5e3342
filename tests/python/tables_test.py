"""Tables in other packages' data frames, through the Arrow PyCapsule interface."""

import gc
import importlib
import pickle
import unittest

import panpipe
from asked import SMALL


def package(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise unittest.SkipTest(f"{name} is not installed for this Python") from error


class Tables(unittest.TestCase):
    def test_columns(self):
        table = panpipe.estimate(SMALL).timeline
        self.assertEqual(
            table.column_names, ["device", "lane", "action", "microbatch", "stage", "start_s", "end_s", "bytes", "waiting_s"]
        )
        columns = table.to_pydict()
        self.assertEqual({len(values) for values in columns.values()}, {len(table)})
        self.assertEqual(max(columns["end_s"]), panpipe.estimate(SMALL).step_time_s)
        self.assertEqual(pickle.loads(pickle.dumps(table)).to_pydict(), columns)

    def test_capsules(self):
        # Released with nobody taking them, and after the table is gone.
        table = panpipe._core.table_of({"a": [1, None, 3], "b": ["x", "", None], "c": [True, None, False], "d": [0.5, 1, None]})
        capsules = [table.__arrow_c_stream__(), table.__arrow_c_schema__()]
        self.assertIn("arrow_array_stream", repr(capsules[0]))
        del table
        gc.collect()
        del capsules
        gc.collect()

    def test_unknown_values(self):
        columns = {"a": [1, None, 3], "b": ["x", "", None], "c": [True, None, False], "d": [0.5, 1.0, None], "e": [None] * 3}
        self.assertEqual(panpipe._core.table_of(columns).to_pydict(), columns)

    def test_pyarrow(self):
        pyarrow = package("pyarrow")
        columns = {"a": [1, None, 3] * 7, "b": ["x", "ü", None] * 7, "c": [True, None, False] * 7, "d": [0.5, 1.0, None] * 7}
        table = pyarrow.table(panpipe._core.table_of(columns))
        table.validate(full=True)
        self.assertEqual(table.to_pydict(), columns)
        timeline = panpipe.estimate(SMALL).timeline
        read = pyarrow.table(timeline)
        read.validate(full=True)
        self.assertEqual(read.to_pydict(), timeline.to_pydict())
        first = [read.column("start_s").chunk(0).buffers()[1].address for read in (read, pyarrow.table(timeline))]
        self.assertEqual(first[0], first[1])  # one memory: nothing is copied

    def test_polars(self):
        polars = package("polars")
        timeline = panpipe.estimate(SMALL).timeline
        frame = polars.DataFrame(timeline)
        self.assertEqual(frame.to_dict(as_series=False), timeline.to_pydict())
        busy = (
            frame.filter(polars.col("lane") == "compute")
            .group_by("device")
            .agg((polars.col("end_s") - polars.col("start_s")).sum())
        )
        self.assertEqual(len(busy), 8)

    def test_pandas(self):
        pandas, pyarrow = package("pandas"), package("pyarrow")
        swept = panpipe.sweep(SMALL, {"batch.micro": [1, 2]})
        frame = (
            pandas.DataFrame.from_arrow(swept.table)
            if hasattr(pandas.DataFrame, "from_arrow")
            else pyarrow.table(swept.table).to_pandas()
        )
        self.assertEqual(list(frame["step_time_s"]), [cell["metrics"]["step_time_s"] for cell in swept.cells])


if __name__ == "__main__":
    unittest.main()
