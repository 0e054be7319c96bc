#ifndef TFOS_CONTROL_MESSAGES_PARTS_SHARED_MESSAGES_JSON_H_
#define TFOS_CONTROL_MESSAGES_PARTS_SHARED_MESSAGES_JSON_H_

#include <limits>

#include "control/messages/parts/message_json.h"
#include "control/messages/parts/node_info_json.h"
#include "control/messages/parts/shared_messages.h"

// The fields of shared_messages.h as JSON. Only for the sources of messages.
namespace tfos::control {

inline constexpr JsonRange kEpoch = {0, std::numeric_limits<int>::max()};

template <typename F, DescribedAs<EndFeed> M>
void Describe(F& f, M& m) {
  f.Optional("at_once", m.at_once);
}

template <typename F, DescribedAs<EndEpoch> M>
void Describe(F& f, M& m) {
  f.Required("queue", m.queue);
  f.Required("epoch", m.epoch, kEpoch);
}

template <typename F, DescribedAs<AbandonEpoch> M>
void Describe(F& f, M& m) {
  f.Required("queue", m.queue);
  f.Required("epoch", m.epoch, kEpoch);
  f.Required("job", m.job);
}

template <typename F, DescribedAs<EndJob> M>
void Describe(F& f, M& m) {
  f.Required("job", m.job);
}

template <typename F, DescribedAs<StepReport> M>
void Describe(F& f, M& m) {
  f.Required("queue", m.queue, kName);
  f.Required("epoch", m.epoch, kEpoch);
  f.Required("full_batches", m.full_batches, kSize);
  f.Required("ended", m.ended);
  f.Required("batches", m.batches, kSize);
  f.Required("rows", m.rows, kSize);
  f.Required("passable_rows", m.passable_rows, kSize);
  f.Required("batch_rows", m.batch_rows, kSize);
  f.Optional("made", m.made, kSize);
  f.Optional("waits", m.waits);
  f.Optional("looked", m.looked);
}

template <typename F, DescribedAs<RowPass> M>
void Describe(F& f, M& m) {
  f.Required("from", m.from, kNodeId);
  f.Required("to", m.to, kNodeId);
  f.Required("rows", m.rows, kSize);
  f.Required("address", m.address);
  f.Required("feed", m.feed);
}

template <typename F, DescribedAs<StepTickets> M>
void Describe(F& f, M& m) {
  f.Required("queue", m.queue);
  f.Required("epoch", m.epoch, kEpoch);
  f.Required("granted", m.granted, kSize);
  f.Required("final", m.final);
  f.Required("longest", m.longest, kSize);
  f.Required("ending", m.ending);
  f.Required("passes", m.passes);
  f.Required("missing", m.missing);
  f.Optional("look", m.look);
}

template <typename F, DescribedAs<NodeLeaving> M>
void Describe(F& f, M& m) {
  f.Required("node_id", m.node_id, kNodeId);
  f.Required("reason", m.reason);
}

template <typename F, DescribedAs<NodeMoved> M>
void Describe(F& f, M& m) {
  f.Required("node_id", m.node_id, kNodeId);
  f.Required("name", m.name);
  f.Required("address", m.address);
  f.Required("tensor_port", m.tensor_port, kPort);
}

template <typename F, DescribedAs<Stop> M>
void Describe(F& f, M& m) {
  f.Required("reason", m.reason);
  f.Optional("grace_ms", m.grace);
}

template <typename F, DescribedAs<StandBy> M>
void Describe(F& f, M& m) {
  f.Required("reason", m.reason);
}

template <typename F, DescribedAs<StateReport> M>
void Describe(F& f, M& m) {
  f.Required("state", m.state);
  f.Optional("detail", m.detail, kText);
  f.Optional("pid", m.pid);
  f.Optional("feed", m.feed);
  f.Optional("tensorboard", m.tensorboard);
}

template <typename F, DescribedAs<FailureMessage> M>
void Describe(F& f, M& m) {
  f.Required("failure", m.failure);
}

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PARTS_SHARED_MESSAGES_JSON_H_
