"""What image classifiers with batch norms share: their logits, their loss, and the shapes they read."""

from trine.models.training import cross_entropy


def classifier(run, image=lambda c: 224):
    """(forward, loss, loss_and_statistics, input_shapes) of run(params, settings, images, training), which returns logits and
    the running statistics. image: its usual size, by settings."""

    def forward(params, c, inputs, axis=None):
        """Logits of inputs["images"][batch, height, width, channels]."""
        return run(params, c, inputs["images"], False)[0]

    def loss_and_statistics(params, c, inputs):
        """The loss by the batch's statistics, and the running ones moved by them."""
        logits, running = run(params, c, inputs["images"], True)
        return cross_entropy(logits, inputs["labels"]), running

    def loss(params, c, inputs, axis=None):
        return loss_and_statistics(params, c, inputs)[0]

    def input_shapes(c, phase, batch, seq):
        size = seq or image(c)
        images = {"images": ((batch, size, size, c.channels), "float")}
        return images | ({"labels": ((batch,), "int32")} if phase == "train" else {})

    return forward, loss, loss_and_statistics, input_shapes
