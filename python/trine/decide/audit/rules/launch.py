"""How programs are built, started and scheduled: environment variables, images, schedulers, build files."""

from trine.decide.audit.rule import HOURS, KERNEL, LINE, Rule

WRITTEN = "the patch is written by --fix"
TEXT = "shell docker config toml cmake"

RULES = [
    Rule("visible-devices", "CUDA_VISIBLE_DEVICES", "which GPUs a process sees", "NEURON_RT_VISIBLE_CORES, in cores: a chip has 2 to 8", LINE,
         basis=WRITTEN, strings=(r"CUDA_VISIBLE_DEVICES",), lines=((TEXT, r"\bCUDA_VISIBLE_DEVICES\b"),), fix="visible"),
    Rule("cuda-environment", "CUDA and NCCL variables", "tunes or debugs the GPU runtime",
         "not read; NEURON_RT_* and NEURON_CC_FLAGS are the counterparts", LINE, (0, 0.1), basis="estimate: a line to drop or map",
         strings=(r"CUDA_(?:LAUNCH_BLOCKING|DEVICE_ORDER|HOME|PATH|CACHE_PATH|MODULE_LOADING|DEVICE_MAX_CONNECTIONS|VERSION|ROOT|INC_PATH|LIB_PATH|TOOLKIT_ROOT_DIR)",
                  r"PYTORCH_(?:CUDA_ALLOC_CONF|NVML_BASED_CUDA_CHECK|NO_CUDA_MEMORY_CACHING)", r"PYTORCH_CUDA_ALLOC_CONF=.*", r"TORCH_CUDA_ARCH_LIST",
                  r"(?:TORCH_)?NCCL_\w+", r"CUBLAS_WORKSPACE_CONFIG", r"NVIDIA_(?:VISIBLE_DEVICES|TF32_OVERRIDE|DRIVER_CAPABILITIES)", r"NVCC_\w+",
                  r"CUDNN_\w+", r"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", r"NVTE_\w+", r"(?:FORCE|WITH|USE|BUILD)_CUDA\w*", r"TF_FORCE_GPU_ALLOW_GROWTH", r"TF_GPU_\w+", r"TF_CUDNN_\w+", r"TRITON_(?:CACHE_DIR|PTXAS_PATH|INTERPRET|PRINT_AUTOTUNING)"),
         lines=((TEXT, r"\b(?:CUDA_(?:LAUNCH_BLOCKING|DEVICE_ORDER|HOME|PATH|CACHE_PATH|MODULE_LOADING|DEVICE_MAX_CONNECTIONS|VERSION|TOOLKIT_ROOT_DIR)"
                 r"|PYTORCH_CUDA_ALLOC_CONF|TORCH_CUDA_ARCH_LIST|(?:TORCH_)?NCCL_\w+|CUBLAS_WORKSPACE_CONFIG|NVIDIA_(?:VISIBLE_DEVICES|TF32_OVERRIDE|DRIVER_CAPABILITIES)"
                 r"|(?:FORCE|WITH|USE|BUILD)_CUDA\w*|TF_FORCE_GPU_ALLOW_GROWTH|NVTE_\w+)\b"),)),
    Rule("nvidia-image", "an image with CUDA", "what the container starts from", "a Neuron deep learning container, or a plain image with the Neuron packages",
         HOURS, (0.5, 4), "project", "estimate: one image rebuilt and started",
         lines=(("docker shell config", r"\bnvidia/cuda\b|\bnvcr\.io/|\bpytorch/pytorch:\S*cuda|\btensorflow/tensorflow:\S*gpu|\bhuggingface/\S*-gpu\b|\bwinglian/axolotl|\bcontinuumio/\S*cuda|\bcuda\d*[:-]\d+\.\d+\S*(?:cudnn|devel|runtime)"),)),
    Rule("gpu-container", "a container that is given GPUs", "devices in a container", "--device=/dev/neuron0, or the Neuron device plugin", LINE, (0.1, 0.5),
         basis="estimate: a flag for each",
         lines=(("shell docker config", r"\bdocker\b.*--gpus\b|--runtime[= ]nvidia\b|\bruntime:\s*[\"']?nvidia\b|\bdriver:\s*[\"']?nvidia\b|\bcapabilities:\s*\[.*gpu.*\]|\bnvidia-docker2?\b|\bnvidia-container-(?:toolkit|runtime)\b"),)),
    Rule("gpu-resource", "a GPU asked of Kubernetes", "schedules a pod", "aws.amazon.com/neuroncore", LINE, basis=WRITTEN, fix="gpu_resource",
         lines=(("config shell", r"\bnvidia\.com/gpu\b"),), strings=(r"nvidia\.com/gpu",)),
    Rule("gpu-scheduler", "GPUs asked of a scheduler", "nodes of a job", "an instance type with Neuron and its count of nodes; cores are the whole node's",
         LINE, (0.1, 0.5), basis="estimate: minutes each",
         lines=(("shell", r"--gres[= ]gpu|--gpus(?:-per-node|-per-task)?[= ]\d|--gpus-per-(?:node|task)\b|\b--num[-_]gpus[= ]|\bngpus=\d"),
                ("config", r"(?i)^\s*[\"']?(?:gres|gpus_per_node|gpus_per_task|num_gpus|n_gpus|ngpus|gpu_count|gpus)[\"']?\s*[:=]\s*[\"']?(?:gpu:)?\d"))),
    Rule("multi-gpu-launch", "accelerate launched for several GPUs", "starts a process for each GPU", "torchrun --nproc_per_node with the count of cores",
         HOURS, (0.5, 2), "project", "estimate: world size and rank checked once",
         lines=(("config", r"(?i)^\s*[\"']?distributed_type[\"']?\s*:\s*[\"']?(?:MULTI_GPU|FSDP|MEGATRON_LM)\b"), ("shell docker", r"--multi_gpu\b"))),
    Rule("gpu-instance", "an instance with GPUs", "what is rented", "trn1, trn2 or inf2: `trine estimate --compare all` says which", LINE, (0.1, 0.5), "project",
         "estimate: a name, after `trine estimate`",
         lines=(("config shell", r"\b(?:ml\.)?(?:p[2-6](?:d|de|e|en|-b[23]00)?|g[3-6](?:dn|e|ad)?)\.(?:\d*xlarge|metal)\b|\bnvidia-(?:tesla-|l4\b|a100|h100|h200|b200)[\w-]*|\bNVIDIA_(?:TESLA|A100|H100|L4)\w*"),),
         strings=(r"(?:ml\.)?(?:p[2-6](?:d|de|e|en)?|g[3-6](?:dn|e)?)\.\d*xlarge",)),
    Rule("nvcc", "CUDA's compiler and tools", "builds and profiles kernels", "neuronx-cc and neuron-profile", HOURS, (0.5, 4), "project",
         "estimate: the build without CUDA", strings=(r"(?:\S*/)?nvcc(?:\.exe)?", r"nvcc --version", r"nvcc -V"),
         lines=(("shell docker cmake config", r"\bnvcc\b"), ("shell docker", r"(?:^|\s)(?:nsys|ncu|nvprof|cuda-gdb|compute-sanitizer|cuda-memcheck)\s"))),
    Rule("cuda-install", "CUDA's packages of a system", "installs CUDA in an image or a machine", "the Neuron driver and tools", LINE, (0.1, 1), "project",
         "estimate: lines to drop, an image to rebuild",
         lines=(("shell docker", r"\b(?:apt(?:-get)?|yum|dnf|conda|mamba|micromamba)\b.*\b(?:cuda|cudatoolkit|libcudnn|nvidia)\S*|^\s*(?:cuda-[\w-]+|libcudnn\d*\S*|libnccl\d*\S*|libcublas\S*)\s*\\?$|developer\.download\.nvidia\.com|\bmodule\s+(?:load|add)\b.*(?:cuda|cudnn|nccl)|/usr/local/cuda\S*"),
                ("config", r"(?:^|[\s:\"'=])/usr/local/cuda\S*|\bmodule\s+(?:load|add)\b.*(?:cuda|cudnn|nccl)"),), strings=(r"/usr/local/cuda\S*",)),
    Rule("cuda-build", "CUDA in a CMake build", "compiles .cu files", "a build without CUDA; kernels go to NKI", KERNEL, (1, 8), "file",
         "estimate: the build; kernels are counted where they are",
         lines=(("cmake", r"(?i)\benable_language\s*\(\s*CUDA|\bfind_package\s*\(\s*(?:CUDA\w*|CUDNN|NCCL|TensorRT)\b|\bproject\s*\([^)]*\bCUDA\b|\bcuda_add_(?:library|executable)\b|\bset\s*\(\s*CMAKE_CUDA_\w+|\bCUDA_(?:ARCHITECTURES|NVCC_FLAGS)\b|\bCUDA::\w+|\bCMAKE_CUDA_\w+|\bLANGUAGES\s+[^)]*\bCUDA\b|\bCUDAToolkit\w*"),)),
]  # fmt: skip
