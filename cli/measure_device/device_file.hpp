// The device file that measurements of a card make, with its calibration (docs/measure-device.md has the form).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace panpipe::cli {

struct MeasuredDevice {
  std::string name;  // as the driver or the system calls it
  bool gpu = false;
  nlohmann::ordered_json facts = nlohmann::ordered_json::object();  // date, libtorch, driver, host, memory, multiprocessors ...
  std::vector<nlohmann::ordered_json> quantities;                   // as panpipe-exec device prints them
  std::vector<nlohmann::ordered_json> unknown;                      // {"unknown", "why"}
  std::vector<std::string> notes;                                   // what may have disturbed the measurements
};

// A number of the file that measurements gave.
struct MeasuredNumber {
  std::string key;         // of the device, or of its calibration
  double value = 0;        // a share, seconds, or bytes per second
  double uncertainty = 0;  // half of the interquartile range over what it is the median of, or more with other work
  std::string source;
};

// The numbers that a calibration takes from the measurements; the shares are of the data sheet's rates where the card is a
// shipped one, else of the best rates measured.
std::vector<MeasuredNumber> calibration_of(const MeasuredDevice& device);

// The file's text.
std::string device_file(const MeasuredDevice& device);
// The document panpipe-device/1.
nlohmann::ordered_json device_document(const MeasuredDevice& device);
// A few lines for people.
std::string device_text(const MeasuredDevice& device);

}  // namespace panpipe::cli
