"""Models with code of their own: subclassed ones, own steps, several optimizers."""

import keras
import tensorflow as tf


def init(seed):
    return keras.initializers.GlorotUniform(seed=seed)


def dense(units, seed, activation=None):
    return keras.layers.Dense(units, activation=activation, kernel_initializer=init(seed))


class Plain(keras.Model):
    """Keras describes it by the arguments of `__init__`."""

    def __init__(self, units=8, **options):
        super().__init__(**options)
        self.hidden = dense(units, 1, "tanh")
        self.normalized = keras.layers.BatchNormalization()
        self.kinds = dense(3, 2, "softmax")

    def call(self, x, training=False):
        return self.kinds(self.normalized(self.hidden(x), training=training))


class Undescribed(Plain):
    """Keras cannot describe a function among the arguments."""

    def __init__(self, activation):
        super().__init__()
        self.activation = activation

    def call(self, x, training=False):
        return super().call(self.activation(x), training=training)


class Nested(keras.Model):
    """A functional and a subclassed model within."""

    def __init__(self):
        super().__init__()
        x = keras.Input((4,))
        self.first = keras.Model(x, dense(5, 3, "tanh")(x))
        self.second = Plain()

    def call(self, x):  # Keras passes no `training`
        return self.second(self.first(x))


class Late(keras.Model):
    """Its variables are created by the first call."""

    def __init__(self):
        super().__init__()
        self.first = dense(6, 1, "tanh")
        self.second = None
        self.calls = None

    def call(self, x):
        if self.second is None:
            self.second = dense(3, 2, "softmax")
            self.calls = self.add_weight(shape=(), dtype="int32", trainable=False, name="calls")
        self.calls.assign(self.calls + 1)
        return self.second(self.first(x))


class OwnTrainStep(Plain):
    """Clips gradients, counts the largest, and says its loss as the mean so far."""

    def __init__(self):
        super().__init__()
        self.mean_loss = keras.metrics.Mean(name="loss")
        self.largest = keras.metrics.Mean(name="largest")

    def train_step(self, data):
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True), weights, training=True)
        gradients = tape.gradient(loss, self.trainable_variables)
        gradients = [tf.clip_by_value(gradient, -0.01, 0.01) for gradient in gradients]
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.mean_loss.update_state(loss)
        self.largest.update_state(tf.reduce_max([tf.reduce_max(each) for each in gradients]))
        return {metric.name: metric.result() for metric in (self.mean_loss, self.largest)}

    @property
    def metrics(self):
        return [self.mean_loss, self.largest]


class OwnLoss(Plain):
    """Labels may have any shape: their sum is what counts."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None):
        return tf.reduce_mean((tf.reduce_sum(tf.cast(y, tf.float32), -1) - y_pred[:, 0]) ** 2)


class OwnTestStep(Plain):
    """Evaluates by another measure than it trains by."""

    def __init__(self):
        super().__init__()
        self.distance = keras.metrics.Mean(name="distance")

    def test_step(self, data):
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        likely = tf.reduce_sum(tf.one_hot(y, 3) * self(x, training=False), -1)
        self.distance.update_state(1.0 - likely)
        return {"loss": 2.0 * tf.reduce_mean(1.0 - likely), "distance": self.distance.result()}


class Pair(keras.Model):
    """Takes and gives a dict."""

    def __init__(self):
        super().__init__()
        self.left, self.right = dense(1, 1), dense(2, 2, "softmax")

    def call(self, x):
        both = keras.ops.concatenate([x["wide"], x["narrow"]], -1)
        return {"size": self.left(both), "kind": self.right(both)}


class Gan(keras.Model):
    """A generator and a discriminator, each with an optimizer, without `call`."""

    def __init__(self, *, latent=2):
        super().__init__()
        self.latent = latent
        self.generator = keras.Sequential(
            [keras.Input((latent,)), dense(6, 1, "tanh"), dense(4, 2)], name="generator"
        )
        self.discriminator = keras.Sequential(
            [keras.Input((4,)), dense(6, 3, "tanh"), dense(1, 4)], name="discriminator"
        )
        self.d_loss = keras.metrics.Mean(name="d_loss")
        self.g_loss = keras.metrics.Mean(name="g_loss")

    def compile(self, d_optimizer, g_optimizer):
        super().compile()
        self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer
        self.entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    @property
    def metrics(self):
        return [self.d_loss, self.g_loss]

    def train_step(self, real):
        # Not random, so that it can be compared.
        noise = tf.stack([real[:, 0], real[:, 1] * 2.0], -1)
        false, true = tf.zeros_like(real[:, :1]), tf.ones_like(real[:, :1])
        with tf.GradientTape() as tape:
            made = self.generator(noise)
            loss = self.entropy(true, self.discriminator(real))
            loss += self.entropy(false, self.discriminator(made))
        variables = self.discriminator.trainable_variables
        self.d_optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))  # noqa: B905
        self.d_loss.update_state(loss)
        for _ in range(2):
            with tf.GradientTape() as tape:
                g_loss = self.entropy(true, self.discriminator(self.generator(noise)))
            variables = self.generator.trainable_variables
            self.g_optimizer.apply_gradients(zip(tape.gradient(g_loss, variables), variables))  # noqa: B905
        self.g_loss.update_state(g_loss)
        return {"d_loss": self.d_loss.result(), "g_loss": self.g_loss.result()}


def gan():
    model = Gan()
    model.compile(keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.02))
    return model


class Stepped(keras.Model):
    """Without `call`, and not built before its `train_step` is."""

    def __init__(self):
        super().__init__()
        self.kinds = keras.Sequential([dense(6, 1, "tanh"), dense(3, 2)])

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.one_hot(y, 3) - self.kinds(x, training=True)) ** 2)
        weights = self.kinds.trainable_weights
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return {"loss": loss}


def undescribed():
    return compiled(Undescribed(lambda x: x * 2.0))


def compiled(model):
    metrics = None if isinstance(model, OwnTrainStep | OwnTestStep | OwnLoss) else ["accuracy"]
    loss = None if isinstance(model, OwnLoss) else "sparse_categorical_crossentropy"
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=metrics)
    return model
