"""Names of NKI that are not here, and why: what the error says when one is used, and what docs/nki.md lists."""

CURRENT = {
    "nki.compiler.kernel_builder": "it builds the IR of Neuron's own compiler; write the kernel with @nki.jit",
}
OLD = {
    "neuronxcc.nki.language.all_reduce": "programs of a launch are recorded one after the other",
    "neuronxcc.nki.language.gemm_grid": "use nl.mgrid",
    "neuronxcc.nki.language.gemm_stationary_grid": "use nl.mgrid",
    "neuronxcc.nki.isa.builtin_custom_op": "needs the GpSimd's own binaries",
    "neuronxcc.nki.kernels": "kernels of the SDK; run your own",
    "neuronxcc.nki.FrameworkKernel": "frameworks call kernels as they are",
}
# Names of the other dialect, and what does their work here.
INSTEAD = {
    "nl.arange": "slices: t[0:128, 0:512]",
    "nl.mgrid": "slices: t[0:128, 0:512]",
    "nl.par_dim": "the first dimension of a tile is its partitions",
    "nl.nc": "kernel[2](…) runs on two cores",
    "nl.spmd_dim": "kernel[2](…) runs on two cores",
    "nki.benchmark": "trine.report(kernel, …) times it",
    "nki.profile": "trine.report(kernel, …).trace(path)",
    "nki.baremetal": "call the kernel",
    "nki.simulate_kernel": "nki.simulate(kernel)(…)",
    "neuronxcc.nki.simulate": "nki.simulate_kernel(kernel, …)",
}
