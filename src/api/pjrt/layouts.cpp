// How arrays lie: row-major unless the caller said otherwise. Layouts of low ranks are made once; JAX asks for that of
// nearly every array.
#include "api/pjrt/layouts.h"

#include <array>

#include "api/pjrt/calls.h"

namespace trine::api::pjrt {

namespace {

MemoryLayout* default_layout(size_t rank) {
  constexpr size_t kRanks = 16;
  static const auto made = [] {
    std::array<MemoryLayout, kRanks> out;
    for (size_t r = 0; r < kRanks; ++r) out[r] = {compile::layout_text({}, r), true};
    return out;
  }();
  if (rank >= kRanks) return new MemoryLayout{compile::layout_text({}, rank)};
  return const_cast<MemoryLayout*>(&made[rank]);
}

ErrorHandle* destroy(LayoutsMemoryLayoutDestroyArgs* args) {
  if (args->layout && !args->layout->is_lasting) delete args->layout;
  return nullptr;
}
// The text lives as long as the layout, which the caller holds until it has read it.
ErrorHandle* serialize(LayoutsMemoryLayoutSerializeArgs* args) {
  args->serialized_bytes = args->layout->text.data();
  args->serialized_bytes_size = args->layout->text.size();
  args->serialized_layout = nullptr;
  args->serialized_layout_deleter = [](MemoryLayout*) {};
  return nullptr;
}
ErrorHandle* of_shape(LayoutsGetDefaultLayoutArgs* args) {
  args->layout = default_layout(args->num_dims);
  return nullptr;
}
ErrorHandle* of_buffer(LayoutsBufferMemoryLayoutArgs* args) {
  const Buffer& buffer = *args->buffer;
  args->layout = buffer.layout ? new MemoryLayout{compile::layout_text(buffer.layout->minor_to_major, 0)}
                               : default_layout(buffer.dims().size());
  return nullptr;
}
ErrorHandle* of_outputs(LayoutsExecutableLayoutsArgs* args) {
  args->count = args->executable->program->output_count();
  args->layouts = args->executable->layout_pointers.data() + args->executable->program->input_count();
  return nullptr;
}
ErrorHandle* of_parameters(LayoutsExecutableLayoutsArgs* args) {
  args->count = args->executable->program->input_count();
  args->layouts = args->executable->layout_pointers.data();
  return nullptr;
}

}  // namespace

LayoutsExtension* layouts_extension(Extension* next) {
  constexpr int kLayouts = 4;
  static LayoutsExtension extension{{sizeof(LayoutsExtension), kLayouts, next},
                                    destroy,
                                    serialize,
                                    of_shape,
                                    of_buffer,
                                    of_shape,
                                    of_outputs,
                                    of_parameters};
  return &extension;
}

}  // namespace trine::api::pjrt
