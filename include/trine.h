/* Trine's C interface: compile a StableHLO program and run it on a virtual machine.
 *
 * Every function that can fail returns a trine_error, or NULL for success; the caller frees it. Objects are freed by
 * their own function, the machine last, and not used after. All functions may be called from any thread. Running is
 * asynchronous: outputs are there at once, and an error of the run is told by whoever waits for them.
 */
#ifndef TRINE_H
#define TRINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trine_error trine_error;
typedef struct trine_machine trine_machine;
typedef struct trine_program trine_program;
typedef struct trine_tensor trine_tensor;

/* What went wrong; the numbers are stable. */
typedef enum {
  TRINE_INVALID = 0,       /* the input is wrong */
  TRINE_NOT_FOUND = 1,     /* a name or a file that is not there */
  TRINE_UNSUPPORTED = 2,   /* understood, but this build or this chip cannot do it */
  TRINE_OUT_OF_MEMORY = 3, /* of a virtual device */
  TRINE_OUT_OF_RANGE = 4,  /* an index or a size past its limit */
  TRINE_IO = 5,            /* the world outside failed */
  TRINE_CANCELLED = 6,     /* the user stopped it */
  TRINE_INTERNAL = 7       /* our own bug, caught */
} trine_code;

const char* trine_version(void);
trine_code trine_error_code(const trine_error* error);
const char* trine_error_message(const trine_error* error); /* lives as long as the error */
void trine_error_free(trine_error* error);

/* The type of a tensor. Number formats by name: "f32", "bf16", "f16", "s32", "u8", "bool" and so on. */
typedef struct {
  const char* dtype;
  const int64_t* dims;
  size_t rank;
} trine_type;

/* `instance` is "trn1.2xlarge" and the like; NULL: TRINE_INSTANCE, `trine use`, else trn1.2xlarge. */
trine_error* trine_machine_open(const char* instance, trine_machine** machine);
void trine_machine_free(trine_machine* machine); /* after everything made with it */
size_t trine_machine_devices(const trine_machine* machine);
const char* trine_machine_device_kind(const trine_machine* machine); /* "NC_v2" */
trine_error* trine_machine_memory(const trine_machine* machine, size_t device, int64_t* in_use, int64_t* limit);

/* StableHLO as text, bytecode or portable artifact; runs on one device. */
trine_error* trine_compile(trine_machine* machine, size_t device, const void* bytes, size_t size,
                           trine_program** program);
void trine_program_free(trine_program* program);
const char* trine_program_name(const trine_program* program);
size_t trine_program_inputs(const trine_program* program);
size_t trine_program_outputs(const trine_program* program);
/* The type's pointers live as long as the program. */
trine_error* trine_program_input(const trine_program* program, size_t i, trine_type* type);
trine_error* trine_program_output(const trine_program* program, size_t i, trine_type* type);

/* Dense, row-major elements; formats narrower than a byte take one each. */
trine_error* trine_tensor_from_host(trine_machine* machine, size_t device, const trine_type* type, const void* data,
                                    trine_tensor** tensor);
void trine_tensor_free(trine_tensor* tensor);
trine_error* trine_tensor_type(const trine_tensor* tensor, trine_type* type);
size_t trine_tensor_bytes(const trine_tensor* tensor);
/* Waits until the tensor is there, then copies trine_tensor_bytes() of it. */
trine_error* trine_tensor_to_host(const trine_tensor* tensor, void* data, size_t size);

/* `outputs` has room for trine_program_outputs() pointers, which the caller frees. */
trine_error* trine_run(trine_program* program, trine_tensor* const* inputs, size_t input_count, trine_tensor** outputs);

#ifdef __cplusplus
}
#endif

#endif
