// The time between two redraws of a progress bar of tqdm, out of the mean that it shows.
#pragma once

namespace panpipe::jobs {

// A bar shows the seconds of the last steps over their number, both smoothed: s = 0.3 x + 0.7 s at each redraw (tqdm/std.py,
// EMA). From redraw to redraw that can be undone, but for the two digits that a bar shows.
class SmoothedBar {
 public:
  // A redraw at step `number` that shows `shown` seconds a step. Returns the seconds of that step: exact to 1 % where it is long
  // enough for the two digits, which is redrawn at each step, else as shown.
  double seconds(long long number, double shown);

 private:
  long long number_ = 0;
  double steps_ = 0, time_ = 0;  // smoothed
};

}  // namespace panpipe::jobs
