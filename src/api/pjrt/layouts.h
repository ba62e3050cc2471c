// The layouts extension of the PJRT C API: declarations as its header has them (version 4), and our one. JAX asks it
// how arrays lie in memory; with it, programs may say so for their inputs and outputs.
#pragma once

#include <string>

#include "api/pjrt/abi_buffer.h"
#include "base/tensor.h"

namespace trine::api::pjrt {

// Minor to major, as XLA writes it: "{1,0}".
struct MemoryLayout {
  std::string text;
  bool is_lasting = false;  // not the caller's to free
};

struct LayoutsMemoryLayoutDestroyArgs : Args {
  MemoryLayout* layout;
};

struct LayoutsMemoryLayoutSerializeArgs : Args {
  MemoryLayout* layout;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  MemoryLayout* serialized_layout;
  void (*serialized_layout_deleter)(MemoryLayout* layout);
};

struct LayoutsBufferMemoryLayoutArgs : Args {
  Buffer* buffer;
  MemoryLayout* layout;
};

struct LayoutsGetDefaultLayoutArgs : Args {  // of a client's or a topology's
  void* owner;
  BufferType type;
  const int64_t* dims;
  size_t num_dims;
  MemoryLayout* layout;
};

struct LayoutsExecutableLayoutsArgs : Args {  // of parameters or of outputs
  Executable* executable;
  size_t count;
  MemoryLayout** layouts;
};

struct LayoutsExtension : Extension {
  ErrorHandle* (*memory_layout_destroy)(LayoutsMemoryLayoutDestroyArgs*);
  ErrorHandle* (*memory_layout_serialize)(LayoutsMemoryLayoutSerializeArgs*);
  ErrorHandle* (*client_default_layout)(LayoutsGetDefaultLayoutArgs*);
  ErrorHandle* (*buffer_memory_layout)(LayoutsBufferMemoryLayoutArgs*);
  ErrorHandle* (*topology_default_layout)(LayoutsGetDefaultLayoutArgs*);
  ErrorHandle* (*executable_output_layouts)(LayoutsExecutableLayoutsArgs*);
  ErrorHandle* (*executable_parameter_layouts)(LayoutsExecutableLayoutsArgs*);
};

LayoutsExtension* layouts_extension(Extension* next);

}  // namespace trine::api::pjrt
