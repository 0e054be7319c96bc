// A library that says that it is UCX 1.13.1, and has nothing else of it.
extern "C" __attribute__((visibility("default"))) void ucp_get_version(unsigned* major,
                                                                       unsigned* minor,
                                                                       unsigned* release) {
  *major = 1;
  *minor = 13;
  *release = 1;
}
