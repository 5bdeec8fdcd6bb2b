// A library of kernels that registers like the real one and does not work. KIND says how it is broken:
// 1 demands a newer interface than any jaxlib has, 2 answers with an error, 3 computes nothing.

#include "xla/ffi/api/c_api.h"

static XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Extension_Base* extension = frame->extension_start;
  if (extension && extension->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata* about = reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    about->api_version.major_version = XLA_FFI_API_MAJOR;
    about->api_version.minor_version = XLA_FFI_API_MINOR + (KIND == 1 ? 100 : 0);
    return nullptr;
  }
  if (KIND == 3) return nullptr;
  XLA_FFI_Error_Create_Args error{};
  error.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  error.message = "this kernel is broken";
  error.errc = XLA_FFI_Error_Code_INTERNAL;
  return frame->api->XLA_FFI_Error_Create(&error);
}

#define SYMBOL(name) \
  extern "C" XLA_FFI_Error* name(XLA_FFI_CallFrame* frame) { return handle(frame); }
#define KERNEL(name) SYMBOL(name##_forward) SYMBOL(name##_backward)

KERNEL(cmru)
KERNEL(alpha_cmru)
KERNEL(positive_cmru)
KERNEL(ladder)
KERNEL(mingru)
KERNEL(lru)
KERNEL(lru_layer)
KERNEL(norm)
KERNEL(glu)
SYMBOL(adamw)
SYMBOL(threefry)

extern "C" int supports_avx2() { return 0; }
extern "C" int supports_avx512() { return 0; }
