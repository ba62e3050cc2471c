"""Names of NKI that are not here, and why: what the error says when one is used, and what docs/nki.md lists."""

CURRENT = {
    "nki.collectives.all_gather_v": "sizes that only the device knows",
    "nki.collectives.all_to_all_v": "sizes that only the device knows",
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
    "nki.benchmark": "trine.report(kernel, …) times it",
    "nki.profile": "trine.report(kernel, …).trace(path)",
    "nki.baremetal": "call the kernel",
    "nki.simulate_kernel": "nki.simulate(kernel)(…)",
    "neuronxcc.nki.simulate": "nki.simulate_kernel(kernel, …)",
}
