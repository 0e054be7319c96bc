#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include "base/format.h"
#include "cli/operate/cluster_access.h"
#include "cli/operate/cluster_view.h"
#include "cli/operate/operate_commands.h"
#include "cli/options/bounded_option.h"

namespace tfos::cli {
namespace {

constexpr double kMostSeconds = 3600;

/// Shows texts one after the other: in place on a terminal, else below each other.
class Screen {
 public:
  bool is_terminal() const { return terminal_; }

  /// How many lines fit.
  std::size_t Lines() const {
    winsize size{};
    if (!terminal_) return std::numeric_limits<std::size_t>::max();
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row < 4) return 23;
    return size.ws_row - 1u;
  }

  /// How wide lines may be: those that wrap would be more lines than were counted.
  std::size_t Width() const {
    winsize size{};
    if (!terminal_) return ClusterView::kAll;
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
  }

  void Show(const std::string& text) {
    // Up to where the last text begins; each line without the rest of what was there; nothing
    // below.
    if (terminal_ && lines_ > 0) std::cout << fmt::format("\x1b[{}A", lines_);
    for (const char c : text) {
      if (terminal_ && c == '\n') std::cout << "\x1b[K";
      std::cout << c;
    }
    std::cout << (terminal_ ? "\x1b[J" : "\n") << std::flush;
    lines_ = std::ranges::count(text, '\n');
  }

 private:
  const bool terminal_ = ::isatty(STDOUT_FILENO) == 1;
  std::ptrdiff_t lines_ = 0;
};

int Watch(const ClusterChoice& choice, std::chrono::duration<double> interval) {
  const auto cluster = ClusterAccess::Find(choice);
  if (!cluster.ok()) return Complain("top", cluster.status());
  Screen screen;
  bool shown = false;
  while (true) {
    const auto view = ClusterView::Ask(*cluster);
    if (!view.ok() && shown && cluster->HasEnded(view.status())) {
      std::cout << "the cluster has ended\n";
      return kDone;
    }
    if (!view.ok()) return Complain("top", view.status());
    screen.Show(view->Table(screen.Lines(), screen.Width()));
    // Its reader is gone, and a shell has told it to ignore SIGPIPE.
    if (!std::cout) return kFailed;
    shown = true;
    if (view->has_failed()) return kFailed;
    if (view->has_ended()) return kDone;
    std::this_thread::sleep_for(interval);
  }
}

}  // namespace

void AddTopCommand(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("top", "Show the nodes of a running cluster again and again");
  const auto choice = std::make_shared<ClusterChoice>();
  const auto seconds = std::make_shared<double>(2);
  AddClusterChoice(*command, choice, true);
  AddSecondsOption(*command, "--interval", *seconds, "Time between two looks", 0.1, kMostSeconds);
  command->callback([choice, seconds, &exit_code] {
    exit_code = Watch(*choice, std::chrono::duration<double>(*seconds));
  });
}

}  // namespace tfos::cli
