#include "cli/operate/cluster_access.h"

#include <pwd.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <ctime>
#include <iostream>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/printable.h"
#include "base/text/endpoint.h"
#include "base/time/deadline.h"

namespace tfos::cli {
namespace {

using control::ClusterRecord;
using control::Door;

constexpr std::string_view kLinkForms =
    "Expected http://HOST:PORT/#key=KEY, as the driver prints it, or tfos://HOST:PORT/#key=KEY of "
    "cluster.operate_link";
constexpr unsigned kFirstBadStatus = 400;
constexpr std::chrono::milliseconds kRefusalInterval(100);

/// The terminal as it was before WithoutEcho; for its handler, which gets no argument.
termios terminal_before;

/// Hides what is typed, as terminals keep what they have shown. Also a signal that ends the process
/// leaves the terminal as it was. One at a time.
class WithoutEcho {
 public:
  WithoutEcho() {
    if (::tcgetattr(STDIN_FILENO, &terminal_before) != 0) return;
    struct sigaction ending {};
    ending.sa_handler = [](int signal) {
      ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &terminal_before);
      // What it had done without this handler, which SA_RESETHAND has taken away.
      ::raise(signal);
    };
    ending.sa_flags = SA_RESETHAND;
    for (std::size_t i = 0; i < kEnding.size(); ++i) {
      ::sigaction(kEnding[i], &ending, &actions_before_[i]);
    }
    termios silent = terminal_before;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    changed_ = true;
  }
  ~WithoutEcho() {
    if (!changed_) return;
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &terminal_before);
    for (std::size_t i = 0; i < kEnding.size(); ++i) {
      ::sigaction(kEnding[i], &actions_before_[i], nullptr);
    }
  }
  WithoutEcho(const WithoutEcho&) = delete;
  WithoutEcho& operator=(const WithoutEcho&) = delete;

 private:
  static constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP};

  std::array<struct sigaction, kEnding.size()> actions_before_{};
  bool changed_ = false;
};

std::string ReadLink() {
  std::string link;
  if (::isatty(STDIN_FILENO) == 1) {
    const WithoutEcho hidden;
    std::cerr << "Link (http://HOST:PORT/#key=KEY or tfos://HOST:PORT/#key=KEY): " << std::flush;
    std::getline(std::cin, link);
    std::cerr << '\n';
  } else {
    std::getline(std::cin, link);
  }
  return link;
}

std::string When(std::int64_t milliseconds) {
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm local{};
  char text[32] = "?";
  if (::localtime_r(&seconds, &local) != nullptr) {
    std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
  }
  return text;
}

std::string ListOf(const std::vector<const ClusterRecord*>& clusters) {
  std::string text;
  for (const ClusterRecord* cluster : clusters) {
    text += fmt::format("\n  {}  {}, since {}, driver process {}", cluster->cluster_id,
                        cluster->name.empty() ? "?" : cluster->name, When(cluster->started_ms),
                        cluster->driver_pid);
  }
  return text;
}

std::string Remarks(const control::FoundClusters& found) {
  std::string text;
  for (const std::string& refused : found.refused) text += "\n  " + refused;
  for (const std::string& dead : found.dead) {
    text += fmt::format("\n  the coordinator of {} was killed; its file is removed", dead);
  }
  return text;
}

/// Those that `name` means, or all if it is empty: one at least.
Result<std::vector<const ClusterRecord*>> Fitting(const control::FoundClusters& found,
                                                  const std::string& name) {
  std::vector<const ClusterRecord*> fitting;
  std::vector<const ClusterRecord*> all;
  for (const ClusterRecord& cluster : found.clusters) {
    all.push_back(&cluster);
    if (name.empty() || cluster.cluster_id.starts_with(name) || cluster.name == name) {
      fitting.push_back(&cluster);
    }
  }
  if (all.empty()) {
    return Status(ErrorKind::kUnsupported,
                  "none of your clusters runs on this host. Run this on the driver's host, as the "
                  "driver's user, or use --link" +
                      Remarks(found));
  }
  if (fitting.empty()) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("none of your clusters on this host is called '{}'. There are:{}",
                              name, ListOf(all)));
  }
  return fitting;
}

Result<std::string> BodyOf(const ClusterAccess& cluster, Result<control::HttpReply> reply) {
  if (!reply.ok()) {
    return reply.status().Annotate(fmt::format("the coordinator of {} at {}:{} does not answer",
                                               cluster.label(), cluster.address().host,
                                               cluster.address().port));
  }
  if (reply->status < kFirstBadStatus) return std::move(reply->body);
  std::string text = std::move(reply->body);
  while (text.ends_with('\n')) text.pop_back();
  switch (reply->status) {
    case 400:
      return Status(ErrorKind::kBadInput, text);
    case 401:
      return Status(ErrorKind::kBadInput,
                    "the key does not open this cluster: each cluster has its own");
    case 503:
    case 504:
      return Status(ErrorKind::kRetryLater, text);
    default:
      return Status(
          ErrorKind::kUnsupported,
          text.empty() ? fmt::format("the coordinator answered {}", reply->status) : text);
  }
}

}  // namespace

int ExitCodeOf(const Status& status) {
  switch (status.kind()) {
    case ErrorKind::kBadInput:
      return kUsage;
    case ErrorKind::kReconnect:
    case ErrorKind::kRetryLater:
      return kNoAnswer;
    default:
      return kFailed;
  }
}

int Complain(std::string_view command, const Status& status) {
  std::cerr << fmt::format("tfos {}: {}\n", command, PrintableLines(status.ToString()));
  return ExitCodeOf(status);
}

std::string Asker() {
  const passwd* const user = ::getpwuid(::geteuid());
  char host[256] = {};
  // A name that does not fit is cut; the last byte stays zero.
  if (::gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  std::string name = fmt::format(
      "{}@{}", user == nullptr ? fmt::format("uid-{}", ::geteuid()) : user->pw_name, host);
  std::ranges::replace_if(
      name,
      [](unsigned char c) {
        return std::isalnum(c) == 0 && c != '@' && c != '.' && c != '-' && c != '_';
      },
      '_');
  return name;
}

void AddClusterChoice(CLI::App& command, const std::shared_ptr<ClusterChoice>& choice,
                      bool as_argument) {
  choice->usage = fmt::format("tfos {} {}", command.get_name(),
                              as_argument ? "CLUSTER" : "NODE --cluster CLUSTER");
  command
      .add_option(as_argument ? "CLUSTER" : "--cluster", choice->name,
                  "Name of the application, or how the cluster's id begins; needed where "
                  "several of your clusters run here")
      ->type_name(as_argument ? "" : "CLUSTER");
  command.add_flag("--link", choice->link,
                   "Ask for the link of a cluster, or read it from standard input, instead of "
                   "looking on this host");
}

void AddNode(CLI::App& command, std::string& node) {
  command.add_option("NODE", node, "worker:1, or the node's number")->required()->type_name("");
}

Result<ClusterAccess> ClusterAccess::Find(const ClusterChoice& choice) {
  if (choice.link) return FromLink(ReadLink());
  return Choose(control::FindClusters(control::RuntimeFolders()), choice);
}

Result<std::vector<ClusterAccess>> ClusterAccess::FindAll(const std::string& name) {
  const control::FoundClusters found = control::FindClusters(control::RuntimeFolders());
  TFOS_ASSIGN_OR_RETURN(const std::vector<const ClusterRecord*> fitting, Fitting(found, name));
  std::vector<ClusterAccess> all;
  for (const ClusterRecord* cluster : fitting) {
    TFOS_ASSIGN_OR_RETURN(ClusterAccess access, Of(*cluster));
    all.push_back(std::move(access));
  }
  return all;
}

Result<ClusterAccess> ClusterAccess::Choose(const control::FoundClusters& found,
                                            const ClusterChoice& choice) {
  TFOS_ASSIGN_OR_RETURN(const std::vector<const ClusterRecord*> fitting,
                        Fitting(found, choice.name));
  if (fitting.size() > 1) {
    const bool names_tell = std::ranges::any_of(fitting, [&](const ClusterRecord* cluster) {
      return cluster->name != fitting.front()->name;
    });
    return Status(
        ErrorKind::kBadInput,
        fmt::format("{} of your clusters run on this host{}. Say which one with `{}`, "
                    "where CLUSTER is how its id begins{}:{}",
                    fitting.size(), choice.name.empty() ? "" : fmt::format(" as '{}'", choice.name),
                    choice.usage, names_tell ? ", or its application's name" : "",
                    ListOf(fitting)));
  }
  return Of(*fitting.front());
}

Result<ClusterAccess> ClusterAccess::Of(const ClusterRecord& chosen) {
  TFOS_ASSIGN_OR_RETURN(const net::Encryption encryption, net::EncryptionFromWord(chosen.encrypt));
  ClusterAccess cluster;
  cluster.address_ = {.host = chosen.endpoint.address,
                      .port = static_cast<std::uint16_t>(chosen.endpoint.port),
                      .key = chosen.key,
                      .encryption = encryption,
                      .door = Door::kOperate};
  cluster.label_ = chosen.cluster_id;
  cluster.driver_pid_ = chosen.driver_pid;
  return cluster;
}

Result<ClusterAccess> ClusterAccess::FromLink(std::string_view link) {
  constexpr std::string_view kHttp = "http://";
  constexpr std::string_view kTfos = "tfos://";
  constexpr std::string_view kKey = "#key=";
  const auto wrong = [](std::string_view why) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("this is not a link to a cluster: {}. {}", why, kLinkForms));
  };
  while (link.ends_with(' ') || link.ends_with('\r')) link.remove_suffix(1);
  while (link.starts_with(' ')) link.remove_prefix(1);
  ClusterAccess cluster;
  if (link.starts_with(kTfos)) {
    cluster.address_.door = Door::kOperate;
    link.remove_prefix(kTfos.size());
  } else if (link.starts_with(kHttp)) {
    cluster.address_.door = Door::kRead;
    link.remove_prefix(kHttp.size());
  } else {
    return wrong("it begins with neither http:// nor tfos://");
  }
  const std::size_t fragment = link.find(kKey);
  if (fragment == std::string_view::npos) return wrong("it has no key");
  const auto key = Secret::FromHex(link.substr(fragment + kKey.size()));
  if (!key.ok()) return wrong("its key is not 64 hexadecimal digits");
  const std::string_view place = link.substr(0, fragment);
  const std::size_t slash = std::min(place.find('/'), place.size());
  const auto endpoint = Endpoint::Parse(place.substr(0, slash));
  if (!endpoint.ok()) return wrong(endpoint.status().ToString());
  cluster.address_.host = endpoint->address;
  cluster.address_.port = static_cast<std::uint16_t>(endpoint->port);
  cluster.address_.key = *key;
  cluster.path_ = place.substr(slash);
  while (cluster.path_.ends_with('/')) cluster.path_.pop_back();
  cluster.label_ = endpoint->ToString();
  return cluster;
}

bool ClusterAccess::HasEnded(const Status& failed, std::chrono::milliseconds patience) const {
  const Deadline deadline = Deadline::After(patience);
  Status last = failed;
  while (!last.ok() && last.kind() == ErrorKind::kReconnect) {
    if (last.code().value() == ECONNREFUSED) return true;
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(kRefusalInterval);
    last = control::HttpGet(address_, path_ + "/v1/status", {.deadline = deadline}).status();
  }
  return false;
}

Result<std::string> ClusterAccess::Get(const std::string& target,
                                       std::chrono::milliseconds patience) const {
  return BodyOf(
      *this, control::HttpGet(address_, path_ + target, {.deadline = Deadline::After(patience)}));
}

Result<std::string> ClusterAccess::Post(const std::string& target,
                                        std::chrono::milliseconds patience) const {
  if (address_.door != Door::kOperate) {
    return Status(ErrorKind::kBadInput,
                  "this link is for reading only. Run the command on the driver's host, or "
                  "take the link of cluster.operate_link");
  }
  return BodyOf(
      *this, control::HttpPost(address_, path_ + target, {.deadline = Deadline::After(patience)}));
}

}  // namespace tfos::cli
