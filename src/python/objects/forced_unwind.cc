// What becomes of Python's threads that are inside this extension when the interpreter ends.
//
// Until version 3.13, CPython ends a daemon thread with pthread_exit as soon as it wants the GIL
// once the interpreter ends. That unwinds the thread's stack: destructors let go of Python's
// objects without the GIL, and the first noexcept function calls std::terminate. So an unwinding
// that no exception has begun stops at the first function of this extension, and the thread waits
// for the process to end. CPython 3.14 lets such threads wait, too
// (github.com/python/cpython/issues/87135).
//
// Every C++ function with something to clean up names the personality routine, which the unwinder
// asks what to do with its frame (Itanium C++ ABI: Exception Handling, 1.6). The linker's --wrap
// puts this one in its place.

#include <unistd.h>
#include <unwind.h>

extern "C" {

_Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions,
                                                _Unwind_Exception_Class exception_class,
                                                _Unwind_Exception* exception,
                                                _Unwind_Context* context);

_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions,
                                                _Unwind_Exception_Class exception_class,
                                                _Unwind_Exception* exception,
                                                _Unwind_Context* context) {
  while ((actions & _UA_FORCE_UNWIND) != 0) ::pause();
  return __real___gxx_personality_v0(version, actions, exception_class, exception, context);
}

}  // extern "C"
