#ifndef TFOS_CONTROL_MESSAGES_PROGRESS_RUN_PROGRESS_JSON_H_
#define TFOS_CONTROL_MESSAGES_PROGRESS_RUN_PROGRESS_JSON_H_

#include "base/text/json_fields.h"
#include "control/messages/progress/run_progress.h"

// The fields of run_progress.h as JSON. Only for the sources of messages.
namespace tfos::control {

template <typename F, DescribedAs<RunProgress> M>
void Describe(F& f, M& m) {
  f.Optional("epoch", m.epoch, kAnyInteger);
  f.Optional("epochs", m.epochs, kAnyInteger);
  f.Optional("step", m.step, kAnyInteger);
  f.Optional("done", m.done);
  f.Optional("left_seconds", m.left_seconds);
  f.Optional("loss", m.loss);
  f.Optional("bad_loss", m.bad_loss);
  f.Optional("steps_per_second", m.steps_per_second);
  f.Optional("rows_per_second", m.rows_per_second);
  f.Optional("waits", m.waits);
  f.Optional("nodes", m.nodes);
  f.Optional("silent", m.silent);
  f.Optional("stuck", m.stuck);
  f.Optional("text", m.text);
}

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PROGRESS_RUN_PROGRESS_JSON_H_
