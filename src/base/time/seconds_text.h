#ifndef TFOS_BASE_TIME_SECONDS_TEXT_H_
#define TFOS_BASE_TIME_SECONDS_TEXT_H_

#include <chrono>
#include <string>

namespace tfos {

/// A time for messages, in seconds: "0.05 s", "7200 s". It never has an exponent, so that people
/// can search a page for the message that they see.
std::string SecondsText(std::chrono::duration<double> time);

}  // namespace tfos

#endif  // TFOS_BASE_TIME_SECONDS_TEXT_H_
