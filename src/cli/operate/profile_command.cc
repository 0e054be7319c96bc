#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <variant>

#include "base/files/output_file.h"
#include "base/format.h"
#include "base/profile/stack_profile.h"
#include "base/time/deadline.h"
#include "cli/operate/cluster_access.h"
#include "cli/operate/cluster_view.h"
#include "cli/operate/operate_commands.h"
#include "cli/operate/profile_report.h"
#include "cli/options/bounded_option.h"
#include "control/messages/agent_messages.h"
#include "control/messages/parts/message_text.h"

namespace tfos::cli {
namespace {

using std::chrono::milliseconds;

constexpr double kLeastSeconds = 0.1;
constexpr double kMostSeconds = 300;
/// A node is asked again and again, so that it stops soon after nobody asks any more.
constexpr milliseconds kPiece(1000);
/// Beyond that; the agent waits for its node for 10 s.
constexpr milliseconds kPiecePatience(30'000);
/// The most frames and calls of the whole, which has many pieces.
constexpr std::size_t kMostFrames = 50'000;
constexpr std::size_t kMostCalls = 500'000;

struct ProfileOptions {
  std::string node;
  double seconds = 10;
  std::string output;
};

volatile sig_atomic_t interrupted = 0;

/// Until it is destroyed, the first Ctrl-C only sets `interrupted`. The next one ends the process.
class Interruptible {
 public:
  Interruptible() {
    struct sigaction ours {};
    ours.sa_handler = [](int) { interrupted = 1; };
    // Calls of the system go on: a piece that was begun ends within its second.
    ours.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    ::sigaction(SIGINT, &ours, &before_);
  }
  ~Interruptible() { ::sigaction(SIGINT, &before_, nullptr); }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  struct sigaction before_ {};
};

/// `query` says of which node, and for whom.
Result<StackProfile> AskForPiece(const ClusterAccess& cluster, const std::string& query,
                                 milliseconds time, bool more) {
  TFOS_ASSIGN_OR_RETURN(
      const std::string body,
      cluster.Post(fmt::format("/v1/profile?{}&wait_ms={}&more={:d}", query, time.count(), more),
                   time + kPiecePatience));
  TFOS_ASSIGN_OR_RETURN(const control::AgentMessage message,
                        control::ParseMessage<control::AgentMessage>(body));
  const auto* answer = std::get_if<control::Answer>(&message);
  if (answer == nullptr) return Status(ErrorKind::kBug, "the coordinator sent no profile");
  return StackProfile::Parse(answer->text);
}

/// What there was until the time was over, or somebody interrupted it.
Result<StackProfile> Sample(const ClusterAccess& cluster, int node, milliseconds time) {
  const std::string query = fmt::format("node={}&by={}.{}", node, Asker(), ::getpid());
  StackProfileBuilder whole(kMostFrames, kMostCalls);
  milliseconds left = time;
  const Interruptible until_here;
  while (left.count() > 0 && interrupted == 0) {
    const milliseconds piece = std::min(left, kPiece);
    left -= piece;
    TFOS_ASSIGN_OR_RETURN(const StackProfile sampled,
                          AskForPiece(cluster, query, piece, left.count() > 0));
    whole.Merge(sampled);
  }
  return whole.Take();
}

int ProfileNode(const ClusterChoice& choice, const ProfileOptions& options) {
  const auto cluster = ClusterAccess::Find(choice);
  if (!cluster.ok()) return Complain("profile", cluster.status());
  const auto view = ClusterView::Ask(*cluster);
  if (!view.ok()) return Complain("profile", view.status());
  const auto node = view->NodeNumber(options.node);
  if (!node.ok()) return Complain("profile", node.status());
  std::string path = options.output;
  if (path.empty()) {
    path = fmt::format("{}.speedscope.json", options.node);
    std::ranges::replace(path, ':', '-');
  }
  auto file = OutputFile::Open(path);
  if (!file.ok()) return Complain("profile", file.status());
  const auto time =
      std::chrono::duration_cast<milliseconds>(std::chrono::duration<double>(options.seconds));
  const auto profile = Sample(*cluster, *node, time);
  if (!profile.ok()) return Complain("profile", profile.status());
  const Status written = file->Write(SpeedscopeFile(*profile, options.node));
  if (!written.ok()) return Complain("profile", written);
  std::cout << ProfileTables(*profile, options.node)
            << fmt::format(
                   "\n{} has all stacks. Open it at https://www.speedscope.app, which "
                   "sends it nowhere.\n",
                   path)
            << std::flush;
  return kDone;
}

}  // namespace

void AddProfileCommand(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("profile", "Record for a while where a node spends its time");
  const auto choice = std::make_shared<ClusterChoice>();
  const auto options = std::make_shared<ProfileOptions>();
  AddNode(*command, options->node);
  AddClusterChoice(*command, choice, false);
  AddSecondsOption(*command, "--seconds", options->seconds, "How long; Ctrl-C ends it earlier",
                   kLeastSeconds, kMostSeconds);
  command
      ->add_option("-o,--output", options->output,
                   "File for speedscope.app, replaced if it exists; default: "
                   "NODE.speedscope.json, such as worker-1.speedscope.json")
      ->type_name("FILE");
  command->callback([choice, options, &exit_code] { exit_code = ProfileNode(*choice, *options); });
}

}  // namespace tfos::cli
