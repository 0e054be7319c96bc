#ifndef TFOS_CLI_DOCTOR_HOST_CHECKS_H_
#define TFOS_CLI_DOCTOR_HOST_CHECKS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/subprocess.h"
#include "cli/doctor/check.h"
#include "tfos/status.h"

namespace tfos::cli {

/// Value of an environment variable; nullopt when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;
/// Runs a command to its end and returns what it printed.
using CommandRunner = std::function<Result<CapturedRun>(const std::vector<std::string>& argv)>;

/// What this host offers to a cluster, apart from Python: kernel, memory, network, Java, GPUs.
///
/// Threads: call from one. Errors: a host that lacks something is a finding, never a failure here.
std::vector<Check> CheckHost(const EnvironmentLookup& environment, const CommandRunner& run);

// The judgements behind CheckHost, for tests.

/// `bytes` unset: there is no such file system.
Check JudgeSharedMemory(std::optional<std::uint64_t> bytes);
/// `address` is what control::ReachableAddress found.
Check JudgeAddress(const std::string& address);
Check JudgeJava(const Result<CapturedRun>& version);
Check JudgeGpus(const Result<CapturedRun>& listing);

/// The feature release in what `java -version` prints: 17 of "17.0.15", 8 of "1.8.0_392".
std::optional<int> ParseJavaRelease(std::string_view output);

}  // namespace tfos::cli

#endif  // TFOS_CLI_DOCTOR_HOST_CHECKS_H_
