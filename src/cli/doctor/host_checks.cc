#include "cli/doctor/host_checks.h"

#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

#include "base/crypto/openssl.h"
#include "base/format.h"
#include "base/process/pidfd.h"
#include "base/process/unique_fd.h"
#include "control/host/address.h"
#include "net/listen.h"

namespace tfos::cli {
namespace {

constexpr int kOldestJava = 17;  // That Spark 4 runs on.
constexpr int kJavaOfJar = 11;   // That the jar was compiled for.
// TensorFlow's and NCCL's own shared memory; the feed uses memfd regions and needs none of it.
constexpr std::uint64_t kSmallestSharedMemory = std::uint64_t{64} << 20;

std::string ErrnoText() { return std::error_code(errno, std::system_category()).message(); }

std::string KernelRelease() {
  utsname name{};
  return ::uname(&name) == 0 ? name.release : "unknown";
}

Check CheckPidfd() {
  const auto self = OpenPidfd(::getpid());
  if (!self.ok()) {
    return {CheckLevel::kFail, "process descriptors", self.status().ToString(),
            "use Linux 5.3 or newer, and a container profile that allows pidfd_open"};
  }
  return {CheckLevel::kOk, "process descriptors", "pidfd on Linux " + KernelRelease(), ""};
}

Check CheckMemfd() {
  constexpr const char* kWhat = "feed memory";
  const UniqueFd region(::memfd_create("tfos-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!region.valid() || ::ftruncate(region.get(), 1 << 20) != 0) {
    return {CheckLevel::kFail, kWhat, "memfd_create: " + ErrnoText(),
            "use Linux 3.17 or newer, and a container profile that allows memfd_create"};
  }
  return {CheckLevel::kOk, kWhat, "memfd with sealing", ""};
}

Check CheckSharedMemory() {
  struct statvfs file_system {};
  if (::statvfs("/dev/shm", &file_system) != 0) return JudgeSharedMemory(std::nullopt);
  return JudgeSharedMemory(std::uint64_t{file_system.f_blocks} * file_system.f_frsize);
}

Check CheckAbstractSocket() {
  constexpr const char* kWhat = "local sockets";
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Only the family: the kernel picks an unused abstract name.
  if (!socket.valid() ||
      ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) != 0) {
    return {CheckLevel::kFail, kWhat, "abstract Unix socket: " + ErrnoText(),
            "allow Unix sockets in the container's profile"};
  }
  return {CheckLevel::kOk, kWhat, "abstract Unix sockets", ""};
}

Check CheckPort() {
  constexpr const char* kWhat = "ports";
  const auto listener = net::ListenTcp("0.0.0.0", 0, 0);
  if (!listener.ok()) {
    return {CheckLevel::kFail, kWhat,
            "cannot listen on any TCP port: " + listener.status().ToString(),
            "allow TCP servers on this host"};
  }
  return {CheckLevel::kOk, kWhat, "any free TCP port can be bound", ""};
}

std::string JavaCommand(const EnvironmentLookup& environment) {
  const auto home = environment("JAVA_HOME");
  return home && !home->empty() ? *home + "/bin/java" : "java";
}

std::string_view FirstLine(std::string_view text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::vector<Check> CheckHost(const EnvironmentLookup& environment, const CommandRunner& run) {
  return {
      CheckPidfd(),
      CheckMemfd(),
      CheckSharedMemory(),
      CheckAbstractSocket(),
      CheckPort(),
      {CheckLevel::kOk, "OpenSSL", fmt::format("{}, built in", OpenSslVersion()), ""},
      JudgeAddress(control::ReachableAddress()),
      JudgeJava(run({JavaCommand(environment), "-version"})),
      JudgeGpus(run({"nvidia-smi", "-L"})),
  };
}

Check JudgeSharedMemory(std::optional<std::uint64_t> bytes) {
  constexpr const char* kWhat = "/dev/shm";
  if (!bytes) {
    return {CheckLevel::kWarn, kWhat, "not there",
            "mount a tmpfs there: GPU libraries of TensorFlow use it"};
  }
  const std::string found = fmt::format("{} MiB", *bytes >> 20);
  if (*bytes < kSmallestSharedMemory) {
    return {CheckLevel::kWarn, kWhat, found,
            "give containers more (--shm-size=1g): GPU libraries of TensorFlow use it"};
  }
  return {CheckLevel::kOk, kWhat, found, ""};
}

Check JudgeAddress(const std::string& address) {
  constexpr const char* kWhat = "address for other hosts";
  constexpr const char* kAdvice =
      "set spark.tfos.coordinator.advertisedAddress if executors run on other hosts";
  std::array<unsigned char, sizeof(in6_addr)> numeric{};
  if (address.starts_with("127.") || address == "::1") {
    return {CheckLevel::kWarn, kWhat, address + " (loopback)", kAdvice};
  }
  if (::inet_pton(AF_INET, address.c_str(), numeric.data()) != 1 &&
      ::inet_pton(AF_INET6, address.c_str(), numeric.data()) != 1) {
    return {CheckLevel::kWarn, kWhat, "no default route; the host name " + address, kAdvice};
  }
  return {CheckLevel::kOk, kWhat, address, ""};
}

Check JudgeJava(const Result<CapturedRun>& version) {
  constexpr const char* kWhat = "Java";
  const std::string advice =
      fmt::format("install Java {} or newer and put it on PATH or set JAVA_HOME", kOldestJava);
  if (!version.ok()) return {CheckLevel::kFail, kWhat, version.status().ToString(), advice};
  const std::string found(FirstLine(version->output));
  const auto release = ParseJavaRelease(version->output);
  if (!version->exit.success() || !release) {
    return {CheckLevel::kFail, kWhat,
            fmt::format("java -version {}: {}", version->exit.Describe(), found), advice};
  }
  if (*release < kOldestJava) {
    const std::string or_else =
        *release < kJavaOfJar
            ? fmt::format(", or Java {} for the jar of tfos with Spark 3.5", kJavaOfJar)
            : "";
    return {CheckLevel::kWarn, kWhat, found, advice + " for Spark 4" + or_else};
  }
  return {CheckLevel::kOk, kWhat, found, ""};
}

Check JudgeGpus(const Result<CapturedRun>& listing) {
  constexpr const char* kWhat = "GPUs";
  if (!listing.ok()) return {CheckLevel::kOk, kWhat, "none (no nvidia-smi)", ""};
  if (!listing->exit.success()) {
    return {CheckLevel::kWarn, kWhat,
            fmt::format("nvidia-smi {}: {}", listing->exit.Describe(), FirstLine(listing->output)),
            "load the NVIDIA driver, or ignore this on a host without GPUs"};
  }
  const auto count = std::ranges::count(listing->output, '\n');
  return {CheckLevel::kOk, kWhat,
          count == 0 ? "none" : fmt::format("{}, first: {}", count, FirstLine(listing->output)),
          ""};
}

std::optional<int> ParseJavaRelease(std::string_view output) {
  constexpr std::string_view kBefore = "version \"";
  const auto start = output.find(kBefore);
  if (start == std::string_view::npos) return std::nullopt;
  std::string_view number = output.substr(start + kBefore.size());
  // Up to Java 8 the feature release came second: 1.8.0.
  if (number.starts_with("1.")) number.remove_prefix(2);
  int release = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), release);
  if (error != std::errc()) return std::nullopt;
  return release;
}

}  // namespace tfos::cli
