/* Compiles a StableHLO file and runs it on the virtual machine, with inputs that count 0, 1, 2 ...
 *
 *   cc examples/c/run_stablehlo.c -Iinclude build/libtrine.so -Wl,-rpath,$PWD/build -o build/run_stablehlo
 *   build/run_stablehlo examples/c/layer.mlir
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trine.h"

static void check(trine_error* error) {
  if (!error) return;
  fprintf(stderr, "error: %s\n", trine_error_message(error));
  int code = trine_error_code(error) == TRINE_OUT_OF_MEMORY ? 4 : 3;
  trine_error_free(error);
  exit(code);
}

static char* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (!file) {
    fprintf(stderr, "error: cannot open %s\n", path);
    exit(2);
  }
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char* bytes = malloc(*size + 1);
  *size = fread(bytes, 1, *size, file);
  fclose(file);
  return bytes;
}

static size_t elements(const trine_type* type) {
  size_t n = 1;
  for (size_t d = 0; d < type->rank; ++d) n *= (size_t)type->dims[d];
  return n;
}

static void print_type(const char* what, size_t i, const trine_type* type) {
  printf("%s %zu  %s[", what, i, type->dtype);
  for (size_t d = 0; d < type->rank; ++d) printf("%s%lld", d ? "," : "", (long long)type->dims[d]);
  printf("]");
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s program.mlir\n", argv[0]);
    return 2;
  }
  size_t size = 0;
  char* source = read_file(argv[1], &size);
  trine_machine* machine = NULL;
  check(trine_machine_open(NULL, &machine));
  trine_program* program = NULL;
  check(trine_compile(machine, 0, source, size, &program));
  printf("%s on %s, %zu devices\n", trine_program_name(program), trine_machine_device_kind(machine),
         trine_machine_devices(machine));

  size_t input_count = trine_program_inputs(program), output_count = trine_program_outputs(program);
  trine_tensor** inputs = calloc(input_count + 1, sizeof *inputs);
  trine_tensor** outputs = calloc(output_count + 1, sizeof *outputs);
  for (size_t i = 0; i < input_count; ++i) {
    trine_type type;
    check(trine_program_input(program, i, &type));
    print_type("input ", i, &type);
    printf("\n");
    if (strcmp(type.dtype, "f32") != 0) {
      fprintf(stderr, "error: this example fills f32 inputs only\n");
      return 3;
    }
    float* values = malloc(elements(&type) * sizeof *values + 1);
    for (size_t k = 0; k < elements(&type); ++k) values[k] = (float)k;
    check(trine_tensor_from_host(machine, 0, &type, values, &inputs[i]));
    free(values);
  }
  check(trine_run(program, inputs, input_count, outputs));
  for (size_t i = 0; i < output_count; ++i) {
    trine_type type;
    check(trine_tensor_type(outputs[i], &type));
    print_type("output", i, &type);
    if (strcmp(type.dtype, "f32") == 0) {
      float* values = malloc(trine_tensor_bytes(outputs[i]) + 1);
      check(trine_tensor_to_host(outputs[i], values, trine_tensor_bytes(outputs[i])));
      for (size_t k = 0; k < elements(&type) && k < 8; ++k) printf("%s%g", k ? " " : "  ", values[k]);
      printf("%s", elements(&type) > 8 ? " ..." : "");
      free(values);
    }
    printf("\n");
    trine_tensor_free(outputs[i]);
  }
  for (size_t i = 0; i < input_count; ++i) trine_tensor_free(inputs[i]);
  trine_program_free(program);
  trine_machine_free(machine);
  free(inputs);
  free(outputs);
  free(source);
  return 0;
}
