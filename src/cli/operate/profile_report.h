#ifndef TFOS_CLI_OPERATE_PROFILE_REPORT_H_
#define TFOS_CLI_OPERATE_PROFILE_REPORT_H_

#include <string>
#include <string_view>

#include "base/profile/stack_profile.h"

namespace tfos::cli {

// What a profile of a node says. Threads: pure functions. Errors: none; any profile that could be
// read is described.

/// For people: a line that says whether the node mostly waits for rows, for other nodes, for a
/// function that a dataset calls, or for its dataset. Then tables: where the node's main thread
/// was, what the node has counted, the CPU time of its threads, and the functions of its program,
/// on the main thread and on others.
std::string ProfileTables(const StackProfile& profile, std::string_view node);

/// A file for https://www.speedscope.app, in its own format
/// (https://www.speedscope.app/file-format-schema.json): a profile for each thread, the main one
/// first.
std::string SpeedscopeFile(const StackProfile& profile, std::string_view node);

}  // namespace tfos::cli

#endif  // TFOS_CLI_OPERATE_PROFILE_REPORT_H_
