"""The diagrams as text: what each shows, its columns of boxes, its arrows. `draw.py` says how they are written.

Kinds of box: from (what enters, or another stage), step (what is done), data (what lies between), value and time
(what comes out).
"""

DIAGRAMS = {
    "pipeline": (
        "From a PyTorch, JAX, ONNX or NKI program to values, time and cost",
        """
        from: PyTorch
        from: JAX
        from: ONNX
        from: NKI kernel

        step: front / StableHLO, / ONNX
        step: trace / records / instructions

        data: graph / tensor ops

        step: compile / simplify, / recognise, / fuse, cut

        data: host plan / fused loops, / multiplies
        data: device program / instructions of / 5 engines and DMA

        value: native / values at / CPU speed
        space: 6
        value: exact / values with the / chip's rounding
        time: timed / time of every / instruction

        space: 140
        time: cost / dollars, / joules, / memory
        """,
        """
        PyTorch & JAX & ONNX > front > graph > compile > host plan & device program
        NKI kernel > trace > device program
        host plan > native
        device program > exact & timed
        timed > cost
        native -- exact: must agree (tested)
        """,
    ),
    "front": (
        "front: programs of frameworks become a graph, NKI kernels become recorded instructions",
        """
        from: PyTorch
        space: 4
        from: JAX
        from: ONNX file
        from: NKI kernel

        step: rows of ATen ops / python/trine/torch / write StableHLO
        space: 140

        step: stablehlo / reads bytecode / and text
        step: onnx / reads protobuf's / wire format
        step: nki / checks and records / every call

        data: graph / nodes of ops
        data: recorded kernel / instructions in / program order

        from: compile
        from: compile/stream
        """,
        """
        PyTorch > rows of ATen ops > stablehlo > graph > compile
        JAX > stablehlo
        ONNX file > onnx > graph
        NKI kernel > nki > recorded kernel > compile/stream
        """,
    ),
    "ir": (
        "ir: one graph per program; nodes are immutable and interned",
        """
        from: front
        from: graph text

        step: type rule / of each op, / from ops

        data: graph / nodes and regions, / equal ones merged

        step: verify / rules V1 to V7
        step: rewrite / named rules to / a fixed point
        step: text / prints, reads back

        from: compile
        """,
        """
        front & graph text > type rule > graph > verify & rewrite & text > compile
        """,
    ),
    "compile_graph": (
        "compile/graph: passes that the host way and the device way share",
        """
        from: graph / of a front-end

        step: partition / one device's / program

        step: auto-cast / where the user / allows it

        step: simplify / canonicalise, fold, / recognise

        from: compile/host / values at CPU speed
        from: compile/device / time, exact values
        """,
        """
        graph > partition > auto-cast > simplify > compile/host & compile/device
        """,
    ),
    "compile_host": (
        "compile/host: a graph becomes a host plan",
        """
        from: canonical graph

        step: fuse-host / which nodes / are one step

        step: plan-steps / loop nests, multiplies, / attention, calls

        step: plan-outputs, plan-reuse / results in place

        step: plan-memory / live ranges / share bytes

        data: host plan / run by host
        """,
        """
        canonical graph > fuse-host > plan-steps > plan-outputs, plan-reuse > plan-memory > host plan
        """,
    ),
    "compile_partition": (
        "compile/partition: one program over whole tensors becomes one per device",
        """
        from: graph / of whole tensors
        from: shardings / of arguments, / results, constraints

        step: propagate / shardings from / op to op

        step: cut / each op along / a dim it allows

        step: reshard / move what lies / elsewhere

        data: graph of a device / with collectives

        from: compile/host
        from: compile/device
        """,
        """
        graph & shardings > propagate > cut > reshard > graph of a device > compile/host & compile/device
        """,
    ),
    "compile_device": (
        "compile/device: a graph becomes instructions for one core",
        """
        from: canonical graph
        from: chip file

        step: recognise / attention's gradient, / arg max

        step: decompose / ops into those / with a lowering

        step: fuse / units: loop nest, / multiply, attention

        step: lower, choose / each way timed, / the fastest kept

        data: recorded kernel / no addresses yet, / to compile/stream
        """,
        """
        canonical graph & chip file > recognise > decompose > fuse > lower, choose > recorded kernel
        """,
    ),
    "compile_stream": (
        "compile/stream: a recorded kernel becomes a program of five streams",
        """
        from: compile/device
        from: NKI kernel

        step: hoist, unroll / loops overlap

        step: allocate / SBUF and PSUM, / spills

        step: dependences / from the bytes / touched

        step: schedule / engine, queue, / order

        step: semaphores / between / streams

        data: program / verified
        """,
        """
        compile/device & NKI kernel > hoist, unroll > allocate > dependences > schedule > semaphores > program
        """,
    ),
    "program": (
        "program: what the compiler hands to whoever runs it",
        """
        from: compile/stream
        from: assembly text
        from: program file

        data: program / streams, tensors, / constants, / semaphores, lines

        step: verify / each row and / the chip's limits

        value: exact / values
        time: timed / time
        from: text or file
        """,
        """
        compile/stream & assembly text & program file > program > verify > exact & timed & text or file
        """,
    ),
    "host": (
        "host: the native executor runs a host plan at CPU speed",
        """
        from: host plan

        step: prepare / once: machine code, / packed weights

        step: execute / steps in order, / parts on threads

        step: loop nests / AVX2 or AVX-512
        step: multiplies / tiles and panels
        step: other kernels / convolution, attention, / gather, scatter
        step: reference meaning / where no kernel is

        value: values / the same on any / number of threads
        """,
        """
        host plan > prepare > execute > loop nests & multiplies & other kernels & reference meaning > values
        """,
    ),
    "exact": (
        "exact: every instruction on simulated memory",
        """
        from: program
        from: inputs

        step: prepare / once per chip

        step: step / an engine whose / waits are met

        step: exec / the row's meaning / and rounding
        step: check / races, bounds, / unwritten reads

        value: outputs
        value: findings / with source lines
        """,
        """
        program & inputs > prepare > step > exec & check
        exec > outputs
        check > findings
        """,
    ),
    "sim": (
        "sim: when every instruction starts and ends",
        """
        from: program
        from: chip file

        step: prepare / cycles of each / instruction's row

        step: timer / engines, ports, / semaphores, / DMA, HBM

        time: timing / starts, ends, / waits

        time: report / bound, band, cost
        time: explain / what would help
        time: trace, picture / Perfetto, SVG
        """,
        """
        program & chip file > prepare > timer > timing > report & explain & trace, picture
        """,
    ),
    "run": (
        "run: devices, buffers and queues; drivers; reports",
        """
        from: host plan
        from: program

        step: devices / of an instance: / HBM, counters
        space: 40
        step: exact driver
        step: timing / by sim

        step: queue / one program at / a time per device
        step: rendezvous / collectives
        space: 90

        value: buffers / and futures
        space: 50
        value: findings
        time: report / explain, picture, / trace
        """,
        """
        host plan > devices > queue > buffers
        queue -- rendezvous
        program > exact driver > findings
        program > timing > report
        """,
    ),
    "api": (
        "api: the faces to the outside",
        """
        from: Python
        from: JAX
        from: PyTorch
        from: C and C++
        from: shell

        step: trine._core
        step: PJRT plugin
        step: device neuron
        step: libtrine.so
        step: trine command

        step: executable / program bytes / to a program

        from: front
        from: compile
        from: run
        """,
        """
        Python > trine._core
        JAX > PJRT plugin
        PyTorch > device neuron
        C and C++ > libtrine.so
        shell > trine command
        trine._core & PJRT plugin & device neuron & libtrine.so & trine command > executable > front & compile & run
        """,
    ),
}
