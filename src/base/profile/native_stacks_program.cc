// A program whose threads are where native_stacks_test wants them:
//   native_stacks_program FD KIND...
// Each KIND is a thread. Once all have begun, it prints their numbers in a line. When FD is at its
// end it lets them go, and exits with the number of those that something has disturbed.

#include <alloca.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

/// Threads that wait for a byte get one from it at the end.
std::array<int, 2> bytes_for_threads;
sem_t let_go;
std::atomic<bool> stop = false;

}  // namespace

// With names that the linker keeps, and with calls of their own.
extern "C" {
[[gnu::noinline]] int WaitInKnownFunction() {
  char byte = 0;
  volatile ssize_t got = ::read(bytes_for_threads[0], &byte, 1);
  return got == 1 ? 0 : 1;
}
[[gnu::noinline]] int WaitDeepDown(int depth) {
  volatile int failed = depth == 0 ? WaitInKnownFunction() : WaitDeepDown(depth - 1);
  return failed;
}
// What the test's own interpreter is called.
[[gnu::noinline]] int RunPython() __asm__("_PyEval_EvalFrameDefault");
[[gnu::noinline]] int RunPython() {
  volatile int failed = WaitInKnownFunction();
  return failed;
}
[[gnu::noinline]] int SpinInKnownFunction() {
  while (!stop.load(std::memory_order_relaxed)) {
  }
  return 0;
}
/// Its frame has no size that the compiler knows.
[[gnu::noinline]] int WaitWithRoom(std::size_t bytes) {
  auto* const room = static_cast<volatile char*>(alloca(bytes));
  std::fill_n(room, bytes, 'x');
  volatile int failed = WaitInKnownFunction();
  return failed + (room[bytes - 1] == 'x' ? 0 : 1);
}
int failed_in_comparison = 0;
[[gnu::noinline]] int CompareInKnownFunction(const void*, const void*) {
  failed_in_comparison += WaitInKnownFunction();
  return 0;
}
[[gnu::noinline]] int SortInKnownFunction() {
  std::array<int, 2> numbers{};
  ::qsort(numbers.data(), numbers.size(), sizeof(int), &CompareInKnownFunction);
  return failed_in_comparison;
}
int failed_in_handler = 0;
[[gnu::noinline]] void HandleInKnownFunction(int) { failed_in_handler += WaitInKnownFunction(); }
[[gnu::noinline]] int RaiseInKnownFunction() {
  ::signal(SIGUSR1, &HandleInKnownFunction);
  volatile int failed = ::raise(SIGUSR1);
  return failed + failed_in_handler;
}
[[gnu::noinline]] int WaitForChild() {
  // In the kernel and uninterruptible until the child ends.
  const pid_t child = ::vfork();
  if (child == 0) ::_exit(WaitInKnownFunction());
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
}

namespace {

int WaitUnderAName() {
  ::pthread_setname_np(::pthread_self(), "a\x1b[2J");
  return WaitInKnownFunction();
}

template <std::size_t kBytes>
void* MakeCode(const std::array<unsigned char, kBytes>& bytes) {
  void* const code =
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) std::abort();
  std::memcpy(code, bytes.data(), kBytes);
  __builtin___clear_cache(static_cast<char*>(code), static_cast<char*>(code) + kBytes);
  return code;
}

#if defined(__x86_64__)
/// Made at run time, it calls a function.
int WaitBelowMadeCode() {
  // sub rsp,8; call rdi; add rsp,8; ret
  constexpr std::array<unsigned char, 11> kCode = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7,
                                                   0x48, 0x83, 0xc4, 0x08, 0xc3};
  return reinterpret_cast<int (*)(int (*)())>(MakeCode(kCode))(&WaitInKnownFunction);
}

/// As kernels of TensorFlow do: its stack pointer is in the midst of its data. Whatever a kernel
/// would write there for a signal's handler shows.
int SpinOffTheStack() {
  // push rbp; mov rbp,rsp; mov rsp,rsi; again: cmp byte [rdi],0; je again; mov rsp,rbp; pop rbp;
  // ret
  constexpr std::array<unsigned char, 17> kCode = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89,
                                                   0xf4, 0x80, 0x3f, 0x00, 0x74, 0xfb,
                                                   0x48, 0x89, 0xec, 0x5d, 0xc3};
  std::vector<unsigned char> data(1u << 20, 7);
  reinterpret_cast<void (*)(const void*, const void*)>(MakeCode(kCode))(
      &stop, data.data() + data.size() / 2);
  return std::ranges::count(data, 7) == static_cast<std::ptrdiff_t>(data.size()) ? 0 : 1;
}
#endif

int Compute() {
  const auto result = [] {
    double sum = 0;
    for (int i = 1; i < 20'000; ++i) sum += 1.0 / i * (i % 3 - 1);
    return sum;
  };
  const double first = result();
  while (!stop) {
    if (result() != first) return 1;
  }
  return 0;
}

int StartThreadsThatEnd() {
  while (!stop) std::thread([] {}).join();
  return 0;
}

int Poll() {
  pollfd readable{.fd = bytes_for_threads[0], .events = POLLIN, .revents = 0};
  if (::poll(&readable, 1, -1) != 1) return 1;
  return WaitInKnownFunction();
}

int WaitForSemaphore() { return ::sem_wait(&let_go) == 0 ? 0 : 1; }

int Sleep() {
  while (!stop) {
    constexpr timespec kTime{.tv_sec = 0, .tv_nsec = 50'000'000};
    if (::nanosleep(&kTime, nullptr) != 0) return 1;
  }
  return 0;
}

int Pause() {
  ::signal(SIGUSR2, [](int) {});
  ::pause();
  return stop ? 0 : 1;
}

const std::map<std::string, int (*)()>& Kinds() {
  static const std::map<std::string, int (*)()> kinds = {
    {"wait", &WaitInKnownFunction},
    {"deep", [] { return WaitDeepDown(1000); }},
    {"python", &RunPython},
    {"name", &WaitUnderAName},
    {"spin", &SpinInKnownFunction},
    {"room", [] { return WaitWithRoom(10'000); }},
    {"sort", &SortInKnownFunction},
    {"raise", &RaiseInKnownFunction},
    {"child", &WaitForChild},
#if defined(__x86_64__)
    {"made", &WaitBelowMadeCode},
    {"off", &SpinOffTheStack},
#endif
    {"compute", &Compute},
    {"ends", &StartThreadsThatEnd},
    {"poll", &Poll},
    {"semaphore", &WaitForSemaphore},
    {"sleep", &Sleep},
    {"pause", &Pause},
  };
  return kinds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || ::pipe(bytes_for_threads.data()) != 0 || ::sem_init(&let_go, 0, 0) != 0)
    return 99;
  std::atomic<int> disturbed = 0;
  std::vector<std::thread> threads;
  std::string numbers;
  for (int i = 2; i < argc; ++i) {
    std::promise<pid_t> number;
    auto future = number.get_future();
    threads.emplace_back([&, run = Kinds().at(argv[i]), kind = argv[i]] {
      number.set_value(static_cast<pid_t>(::syscall(SYS_gettid)));
      if (run() == 0) return;
      std::fprintf(stderr, "%s was disturbed\n", kind);
      ++disturbed;
    });
    numbers += std::to_string(future.get()) + " ";
  }
  std::printf("%s\n", numbers.c_str());
  std::fflush(stdout);
  char byte = 0;
  while (::read(std::atoi(argv[1]), &byte, 1) < 0 && errno == EINTR) {
  }
  stop = true;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    ::sem_post(&let_go);
    if (::write(bytes_for_threads[1], "x", 1) != 1) return 98;
  }
  for (std::size_t i = 0; i < threads.size(); ++i) {
    if (std::string(argv[i + 2]) == "pause") ::pthread_kill(threads[i].native_handle(), SIGUSR2);
    threads[i].join();
  }
  return disturbed;
}
