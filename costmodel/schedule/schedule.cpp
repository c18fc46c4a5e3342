#include "costmodel/schedule/schedule.hpp"
