#ifndef TFOS_CONTROL_AGENT_ANSWERS_THREAD_STATES_H_
#define TFOS_CONTROL_AGENT_ANSWERS_THREAD_STATES_H_

#include <sys/types.h>

#include <string>

namespace tfos::control {

/// A line for each thread of a process, for people: its number and name, what it does, and its CPU
/// time. Where the kernel tells, also its function and the system call that the thread waits in.
/// At most 1,000 threads. Reads /proc and stops nothing. Threads: any. Errors: a line says so.
std::string DescribeThreads(pid_t pid);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_ANSWERS_THREAD_STATES_H_
