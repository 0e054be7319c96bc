#include "control/agent/node_tensorboard.h"

#include <optional>
#include <utility>

#include "base/logging.h"
#include "base/process/subprocess.h"
#include "control/messages/parts/node_info.h"

namespace tfos::control {

bool NodeTensorBoard::Start(TensorBoard::Options options, std::function<bool()> is_wanted,
                            std::function<void()> on_end) {
  const auto listens = [this](TensorBoardProcess address) {
    report_.SetTensorBoard(address);
    report_.ReportAgain();
  };
  const auto ended = [this, is_wanted = std::move(is_wanted),
                      on_end = std::move(on_end)](ExitStatus exit) {
    report_.SetTensorBoard(std::nullopt);
    if (is_wanted()) {
      LogWarning("TensorBoard {}", exit.Describe());
      report_.ReportAgain();
    }
    on_end();
  };
  Result<std::unique_ptr<TensorBoard>> started =
      TensorBoard::Start(executor_, std::move(options), log_, listens, ended);
  if (!started.ok()) {
    LogWarning("TensorBoard could not be started: {}", started.status().ToString());
    return false;
  }
  process_ = std::move(started).value();
  return true;
}

void NodeTensorBoard::OpenTunnel(const CoordinatorDoor& door, int number) {
  if (!process_->OpenTunnel(door, number)) {
    warnings_.Log("the coordinator asks for more tunnels to TensorBoard at once than there may be");
  }
}

}  // namespace tfos::control
