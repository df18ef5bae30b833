"""What training costs without Sparkwright, each in a process of its own.

python tests/benchmarks/_baselines.py loop|fit|elephas   prints examples a second
"""

import os
import sys
import time

sys.path.insert(0, os.getcwd())

from tests.benchmarks._harness import digits_arrays

BATCH, EXAMPLES, EPOCHS = 32, 12_000, 3


def plain_fit(images, labels):
    """`model.fit` on arrays, all defaults but the batch size; epochs after the first."""
    import keras

    import sparkwright as sw

    model, ends = sw.networks.lenet(), []
    timer = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: ends.append(time.perf_counter()))
    model.fit(images, labels, batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=[timer])
    return len(images) * (EPOCHS - 1) / (ends[-1] - ends[0])


def best_loop(images, labels):
    """The best plain Keras loop that we know: compiled, several steps a call, fed by tf.data.

    Tried with XLA off, 1 and 2 inter-op threads, 5 and 20 steps a call; the fastest counts.
    """
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(2)
    return max(_loop(images, labels, steps) for steps in (5, 20))


def _loop(images, labels, steps):
    import tensorflow as tf

    import sparkwright as sw

    model = sw.networks.lenet()
    optimizer, trainable = model.optimizer, model.trainable_variables
    optimizer.build(trainable)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).repeat()
    batches = iter(data.batch(BATCH, drop_remainder=True).prefetch(4))

    @tf.function(jit_compile=False)
    def several(iterator):
        loss = tf.constant(0.0)
        for _ in tf.range(steps):
            x, y = next(iterator)
            with tf.GradientTape() as tape:
                loss = model.compute_loss(y=y, y_pred=model(x, training=True))
            optimizer.apply_gradients(zip(tape.gradient(loss, trainable), trainable, strict=True))
        return loss

    several(batches)
    calls = len(images) * (EPOCHS - 1) // BATCH // steps
    began_s = time.perf_counter()
    for _ in range(calls):
        several(batches).numpy()
    return calls * steps * BATCH / (time.perf_counter() - began_s)


def elephas(images, labels):
    """Elephas, synchronous, with two workers on Spark; epochs after the first.

    Released versions pin an older TensorFlow: install it without dependencies.
    """
    import keras
    from elephas.spark_model import SparkModel
    from elephas.utils.rdd_utils import to_simple_rdd
    from pyspark import SparkConf, SparkContext

    import sparkwright as sw

    settings = {"spark.ui.enabled": "false", "spark.driver.memory": "2g"}
    context = SparkContext(conf=SparkConf().setMaster("local[2]").setAll(list(settings.items())))
    model, ends = sw.networks.lenet(), []
    # Elephas makes the loss from its name again.
    model.compile(keras.optimizers.Adam(), "sparse_categorical_crossentropy", ["accuracy"])
    data = to_simple_rdd(context, images, labels).cache()
    trainer = SparkModel(model, frequency="epoch", mode="synchronous", num_workers=2)
    for _ in range(EPOCHS):
        trainer.fit(data, epochs=1, batch_size=BATCH, verbose=0, validation_split=0.0)
        ends.append(time.perf_counter())
    context.stop()
    return len(images) * (EPOCHS - 1) / (ends[-1] - ends[0])


if __name__ == "__main__":
    print(
        {"loop": best_loop, "fit": plain_fit, "elephas": elephas}[sys.argv[1]](
            *digits_arrays(EXAMPLES)
        )
    )
