// libstdc++ asks glibc 2.32 and newer whether a process has one thread only, and then does without
// atomic operations. An older glibc doesn't say; "no" is always right.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
