"""A real program of each package that people run on CPUs, with random data.

Random numbers of JAX differ from release to release, so programs take theirs from their inputs where they
can; samplers, whose results depend on them, are checked by their statistics.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable
from typing import Any

import numpy as np

from ..rivals.program import Registry

PROGRAMS = Registry("packages", __name__)


def normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)


def finite(results: list[np.ndarray]) -> str:
    """A check for programs whose numbers depend on the release of the package."""
    return "" if all(np.isfinite(r).all() for r in results) else "a result is not finite"


def pattern(index: int, shape: tuple[int, ...]) -> np.ndarray:
    """Weights that are the same in every release: random with a fixed seed, scaled for their width."""
    random = np.random.Generator(np.random.PCG64(index))
    return (random.normal(size=shape) / np.sqrt(max(shape[0] if shape else 1, 1))).astype(
        np.float32
    )


# numpyro

Y = np.float32([28, 8, -3, 7, -1, 1, 18, 12])
SIGMA = np.float32([15, 10, 16, 11, 9, 11, 10, 18])


def eight_schools() -> Callable[..., Any]:
    import jax
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS

    def model(sigma: Any, y: Any) -> None:
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("schools", 8):
            offset = numpyro.sample("offset", dist.Normal(0, 1))
            numpyro.sample("obs", dist.Normal(mu + tau * offset, sigma), obs=y)

    mcmc = MCMC(
        NUTS(model), num_warmup=500, num_samples=1000, progress_bar=False, jit_model_args=True
    )

    def run(sigma: Any, y: Any) -> Any:
        mcmc.run(jax.random.PRNGKey(0), sigma, y)
        samples = mcmc.get_samples()
        return samples["mu"].mean(), samples["tau"].mean()

    return run


def eight_schools_check(results: list[np.ndarray]) -> str:
    """The posterior's means are 4.4 and 3.6 (Gelman et al.); a thousand draws know them to about 0.5."""
    mu, tau = (float(r) for r in results)
    return "" if abs(mu - 4.4) < 1.5 and abs(tau - 3.6) < 1.5 else f"means {mu:.2f} and {tau:.2f}"


PROGRAMS.add(
    "numpyro_eight_schools",
    "NUTS, 500 + 1,000 draws, the whole call of MCMC.run",
    lambda r: (SIGMA, Y),
    jax=eight_schools,
    check=eight_schools_check,
    jit=False,
    source="blackjax-devs/blackjax#746",
)


def regression_inputs(random: np.random.Generator) -> tuple[np.ndarray, ...]:
    x = normal(random, 1000, 10)
    truth = np.linspace(-1, 1, 10)
    y = (random.uniform(size=1000) < 1 / (1 + np.exp(-x @ truth))).astype(np.float32)
    return x, y


def regression_check(results: list[np.ndarray]) -> str:
    """A thousand observations know a coefficient to about 0.09, and priors pull it by less."""
    off = float(np.max(np.abs(results[0] - np.linspace(-1, 1, 10))))
    return "" if off < 0.5 else f"a coefficient is off by {off:.2f}"


def numpyro_regression() -> Callable[..., Any]:
    import jax
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS

    def model(x: Any, y: Any) -> None:
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([10]).to_event(1))
        numpyro.sample("obs", dist.Bernoulli(logits=x @ beta), obs=y)

    mcmc = MCMC(
        NUTS(model), num_warmup=300, num_samples=500, progress_bar=False, jit_model_args=True
    )

    def run(x: Any, y: Any) -> Any:
        mcmc.run(jax.random.PRNGKey(0), x, y)
        return mcmc.get_samples()["beta"].mean(0)

    return run


PROGRAMS.add(
    "numpyro_regression",
    "NUTS of a logistic regression, 1,000 observations of 10, 300 + 500 draws",
    regression_inputs,
    jax=numpyro_regression,
    check=regression_check,
    jit=False,
    source="liesel-devs/liesel#242",
)


def blackjax_regression() -> Callable[..., Any]:
    import blackjax
    import jax
    import jax.numpy as jnp

    def run(x: Any, y: Any) -> Any:
        def density(beta: Any) -> Any:
            logits = x @ beta
            return jnp.sum(y * logits - jax.nn.softplus(logits)) - 0.5 * jnp.sum(beta**2)

        kernel = blackjax.nuts(density, step_size=0.07, inverse_mass_matrix=jnp.ones(10))

        def step(state: Any, key: Any) -> Any:
            state, _ = kernel.step(key, state)
            return state, state.position

        start = kernel.init(jnp.zeros(10))
        draws = jax.lax.scan(step, start, jax.random.split(jax.random.PRNGKey(0), 500))[1]
        return draws[100:].mean(0)

    return run


PROGRAMS.add(
    "blackjax_regression",
    "500 NUTS steps of the same regression in one scan",
    regression_inputs,
    jax=blackjax_regression,
    check=regression_check,
    source="blackjax-devs/blackjax#746",
)


# diffrax


def diffrax_adaptive(gradient: bool) -> Callable[..., Any]:
    import diffrax
    import jax
    import jax.numpy as jnp

    def solve(y0: Any, rates: Any) -> Any:
        def field(t: Any, y: Any, args: Any) -> Any:
            a, b, c, d = args
            return jnp.stack([a * y[0] - b * y[0] * y[1], -c * y[1] + d * y[0] * y[1]])

        found = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Tsit5(),
            0.0,
            20.0,
            0.1,
            y0,
            args=rates,
            max_steps=1024,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 20.0, 50)),
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-4),
        )
        return found.ys

    return (
        jax.grad(lambda y0, rates: (solve(y0, rates) ** 2).mean(), argnums=1) if gradient else solve
    )


for gradient in (False, True):
    PROGRAMS.add(
        "diffrax_adaptive" + "_gradient" * gradient,
        "Lotka-Volterra by Tsit5 with adaptive steps"
        + (", gradient of its rates" if gradient else ""),
        lambda r: (np.float32([10, 10]), np.float32([0.8, 0.05, 0.6, 0.04])),
        jax=lambda gradient=gradient: diffrax_adaptive(gradient),
        tolerance=0.05,
        terms=300,
        source="patrick-kidger/diffrax#606",
    )


def diffrax_lorenz() -> Callable[..., Any]:
    import diffrax
    import jax
    import jax.numpy as jnp

    def solve(y0: Any) -> Any:
        def field(t: Any, y: Any, args: Any) -> Any:
            return jnp.stack(
                [10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]
            )

        return diffrax.diffeqsolve(
            diffrax.ODETerm(field), diffrax.Tsit5(), 0.0, 2.0, 0.01, y0, max_steps=4096
        ).ys

    return jax.vmap(solve)


PROGRAMS.add(
    "diffrax_lorenz",
    "100 Lorenz systems of 200 Tsit5 steps, vmap of diffeqsolve",
    lambda r: (normal(r, 100, 3) + np.float32([0, 0, 25]),),
    jax=diffrax_lorenz,
    terms=200,
    source="patrick-kidger/diffrax#606",
)


def diffrax_sde() -> Callable[..., Any]:
    import diffrax
    import jax
    import jax.numpy as jnp

    def loss(scale: Any, y0: Any) -> Any:
        def one(key: Any, start: Any) -> Any:
            path = diffrax.VirtualBrownianTree(0.0, 1.0, tol=2e-3, shape=(), key=key)
            terms = diffrax.MultiTerm(
                diffrax.ODETerm(lambda t, y, args: -y),
                diffrax.ControlTerm(lambda t, y, args: args * (1 + 0.1 * jnp.sin(y)), path),
            )
            return diffrax.diffeqsolve(
                terms, diffrax.Heun(), 0.0, 1.0, 0.01, start, args=scale, max_steps=128
            ).ys

        ends = jax.vmap(one)(jax.random.split(jax.random.PRNGKey(0), 256), y0)
        return (ends**2).mean()

    return jax.value_and_grad(loss)


def sde_check(results: list[np.ndarray]) -> str:
    """An Ornstein-Uhlenbeck process of 256 draws: its variance 0.25 (1 - exp(-2)) / 2 + exp(-2), and the
    derivative.
    """
    value, gradient = (float(r) for r in results)
    return (
        ""
        if abs(value - 0.243) < 0.08 and abs(gradient - 0.43) < 0.2
        else f"value {value:.3f}, gradient {gradient:.3f}"
    )


PROGRAMS.add(
    "diffrax_sde_gradient",
    "256 paths of a stochastic equation by Heun's method, gradient",
    lambda r: (np.float32(0.5), normal(r, 256)),
    jax=diffrax_sde,
    check=sde_check,
)


# tinygp


def tinygp_dense() -> Callable[..., Any]:
    import jax
    import tinygp

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        kernel = parameters[0] ** 2 * tinygp.kernels.Matern32(parameters[1])
        return -tinygp.GaussianProcess(kernel, x, diag=0.1).log_probability(y)

    return jax.value_and_grad(loss)


def tinygp_quasiseparable() -> Callable[..., Any]:
    import jax
    import tinygp

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        kernel = tinygp.kernels.quasisep.Matern32(scale=parameters[1], sigma=parameters[0])
        return -tinygp.GaussianProcess(kernel, x, diag=0.1).log_probability(y)

    return jax.value_and_grad(loss)


def gp_inputs(random: np.random.Generator, n: int, dtype: str) -> tuple[np.ndarray, ...]:
    x = np.sort(random.uniform(0, 20, n)).astype(dtype)
    return np.array([1.2, 1.5], dtype), x, (np.sin(x) + 0.1 * random.normal(size=n)).astype(dtype)


PROGRAMS.add(
    "tinygp_dense",
    "likelihood of a Gaussian process of 800 points and its gradient",
    lambda r: gp_inputs(r, 800, "float32"),
    jax=tinygp_dense,
    terms=800,
)
PROGRAMS.add(
    "tinygp_quasiseparable",
    "the same of 2,000 points in float64 with a quasiseparable kernel (scans of 2x2 matrices)",
    lambda r: gp_inputs(r, 2000, "float64"),
    jax=tinygp_quasiseparable,
    terms=2000,
    x64=True,
    source="jax-ml/jax#36799",
)


# MuJoCo MJX


def mjx_humanoid() -> Callable[..., Any]:
    import jax
    import mujoco
    from mujoco import mjx

    path = importlib.resources.files("mujoco.mjx") / "test_data" / "humanoid" / "humanoid.xml"
    model = mujoco.MjModel.from_xml_path(str(path))
    try:
        compiled, data = mjx.put_model(model, impl="jax"), mjx.make_data(model, impl="jax")
    except TypeError:  # releases before 3.3 have one implementation
        compiled = mjx.put_model(model)
        data = mjx.make_data(compiled)

    def run(control: Any) -> Any:
        start = data.replace(ctrl=control)
        return jax.lax.fori_loop(0, 5, lambda _, d: mjx.step(compiled, d), start).qpos

    return run


PROGRAMS.add(
    "mjx_humanoid",
    "five steps of MuJoCo's humanoid",
    lambda r: (0.1 * normal(r, 21),),
    jax=mjx_humanoid,
    check=finite,
    source="google-deepmind/mujoco#2813",
)


# jax-md


def jax_md_fluid() -> Callable[..., Any]:
    import jax
    from jax_md import energy, simulate, space

    box = 9.0
    displacement, shift = space.periodic(box)
    potential = energy.lennard_jones_pair(displacement)
    start, move = simulate.nve(potential, shift, 1e-3)

    def run(places: Any, momenta: Any) -> Any:
        state = start(jax.random.PRNGKey(0), places, kT=0.0).set(momentum=momenta)
        return jax.lax.fori_loop(0, 20, lambda _, s: move(s), state).position

    return run


def fluid(random: np.random.Generator) -> tuple[np.ndarray, ...]:
    grid = np.stack(np.meshgrid(*[np.arange(8)] * 3), -1).reshape(-1, 3) * (9.0 / 8) + 0.2
    return (grid + 0.02 * random.normal(size=grid.shape)).astype(np.float32), 0.5 * normal(
        random, 512, 3
    )


PROGRAMS.add(
    "jax_md_fluid",
    "512 Lennard-Jones particles, all pairs, 20 steps",
    fluid,
    jax=jax_md_fluid,
    wide=False,
    terms=512 * 20,
    flops=20 * 512.0**2 * 60,
)


# jaxley


def jaxley_cell(gradient: bool) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp
    import jaxley as jx
    from jaxley.channels import HH

    cell = jx.Cell(jx.Branch(jx.Compartment(), 4), parents=[-1, 0, 0, 1, 1])
    cell.insert(HH())
    cell.branch(0).loc(0.0).record(verbose=False)
    cell.branch(0).loc(0.0).stimulate(jx.step_current(1.0, 2.0, 0.1, 0.025, 10.0), verbose=False)
    cell.make_trainable("HH_gNa", verbose=False)
    start = cell.get_parameters()
    cell.to_jax()

    def voltages(scale: Any) -> Any:
        parameters = jax.tree_util.tree_map(lambda p: p * scale, start)
        return jx.integrate(cell, params=parameters)

    return (
        jax.value_and_grad(lambda scale: jnp.mean(voltages(scale) ** 2)) if gradient else voltages
    )


for gradient in (False, True):
    PROGRAMS.add(
        "jaxley_cell" + "_gradient" * gradient,
        "a Hodgkin-Huxley cell of 5 branches, 10 ms" + (", gradient" if gradient else ""),
        lambda r: (np.float32(1.0),),
        jax=lambda gradient=gradient: jaxley_cell(gradient),
        check=finite,
        source="jax-ml/jax#26145",
    )


# QuantEcon


def quantecon_savings() -> Callable[..., Any]:
    """Optimal savings by value function iteration; the income process is quantecon's."""
    import jax
    import jax.numpy as jnp
    import quantecon

    chain = quantecon.tauchen(25, 0.9, 0.1)
    transition = jnp.asarray(chain.P, jnp.float32)
    income = jnp.exp(jnp.asarray(chain.state_values, jnp.float32))
    assets = jnp.linspace(0.01, 20.0, 150, dtype=jnp.float32)

    def solve(patience: Any) -> Any:
        consumption = 1.01 * assets[:, None, None] + income[None, :, None] - assets[None, None, :]
        utility = jnp.where(consumption > 0, jnp.log(jnp.maximum(consumption, 1e-6)), -1e6)

        def improve(_: Any, value: Any) -> Any:
            expected = transition @ value.T  # [income, next assets]
            return jnp.max(utility + patience * expected[None], axis=-1)

        return jax.lax.fori_loop(0, 100, improve, jnp.zeros((150, 25), jnp.float32))

    return solve


PROGRAMS.add(
    "quantecon_savings",
    "optimal savings, 100 value iterations over 150 x 25 x 150",
    lambda r: (np.float32(0.96),),
    jax=quantecon_savings,
    wide=False,
    terms=2500,
    flops=100.0 * 150 * 25 * 150 * 3,
    source="QuantEcon/lecture-python-programming#622",
)


# flax, optax, jraph, Keras


def flax_vit() -> Callable[..., Any]:
    """A training step's gradient and update of a small vision transformer."""
    import jax
    import jax.numpy as jnp
    import optax
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.norm1, self.norm2 = nnx.LayerNorm(192, rngs=rngs), nnx.LayerNorm(192, rngs=rngs)
            self.qkv, self.out = nnx.Linear(192, 576, rngs=rngs), nnx.Linear(192, 192, rngs=rngs)
            self.up, self.down = nnx.Linear(192, 768, rngs=rngs), nnx.Linear(768, 192, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            q, k, v = jnp.split(self.qkv(self.norm1(x)).reshape(*x.shape[:2], 9, 64), 3, axis=2)
            x = x + self.out(jax.nn.dot_product_attention(q, k, v).reshape(x.shape))
            return x + self.down(jax.nn.gelu(self.up(self.norm2(x))))

    class Vit(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.patches = nnx.Conv(3, 192, (8, 8), (8, 8), rngs=rngs)
            self.block0, self.block1 = Block(rngs), Block(rngs)
            self.block2, self.block3 = Block(rngs), Block(rngs)
            self.head = nnx.Linear(192, 10, rngs=rngs)

        def __call__(self, images: Any) -> Any:
            x = self.patches(images)
            x = x.reshape(x.shape[0], -1, 192)
            for block in (self.block0, self.block1, self.block2, self.block3):
                x = block(x)
            return self.head(x.mean(1))

    graph, state = nnx.split(Vit(nnx.Rngs(0)))
    leaves, tree = jax.tree_util.tree_flatten(state)
    start = [jnp.asarray(pattern(i, leaf.shape)) for i, leaf in enumerate(leaves)]
    optimizer = optax.adamw(1e-3)

    def step(images: Any, labels: Any) -> Any:
        def loss(weights: Any) -> Any:
            logits = nnx.merge(graph, jax.tree_util.tree_unflatten(tree, weights))(images)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        weights = [w.astype(images.dtype) for w in start]
        value, gradient = jax.value_and_grad(loss)(weights)
        updates, _ = optimizer.update(gradient, optimizer.init(weights), weights)
        return (
            value,
            optax.global_norm(gradient),
            optax.global_norm(optax.apply_updates(weights, updates)),
        )

    return step


PROGRAMS.add(
    "flax_vit_training",
    "training step of a vision transformer (nnx): 4 layers, width 192, 16 images of 64x64, AdamW",
    lambda r: (normal(r, 16, 64, 64, 3), r.integers(0, 10, 16).astype(np.int32)),
    jax=flax_vit,
    terms=1024,
    tolerance=1e-3,
    flops=6.0 * 16 * 64 * 4 * 12 * 192**2,
)


def optax_mlp() -> Callable[..., Any]:
    import jax
    import optax

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))

    def train(x: Any, y: Any, *weights: Any) -> Any:
        def loss(ws: Any) -> Any:
            h = x
            for w in ws[:-1]:
                h = jax.nn.relu(h @ w)
            return ((h @ ws[-1] - y) ** 2).mean()

        def step(carry: Any, _: Any) -> Any:
            ws, state = carry
            value, gradient = jax.value_and_grad(loss)(ws)
            updates, state = optimizer.update(gradient, state, ws)
            return (optax.apply_updates(ws, updates), state), value

        ws = list(weights)
        return jax.lax.scan(step, (ws, optimizer.init(ws)), None, length=50)[1].mean()

    return train


PROGRAMS.add(
    "optax_mlp",
    "50 steps of clipped Adam on a net of 64, 128, 128, 1, batch 256, in one scan",
    lambda r: (
        normal(r, 256, 64),
        normal(r, 256, 1),
        normal(r, 64, 128) / 8,
        normal(r, 128, 128) / 11,
        normal(r, 128, 1) / 11,
    ),
    jax=optax_mlp,
    terms=256 * 50,
    flops=50 * 6.0 * 256 * (64 * 128 + 128 * 128 + 128),
)


def jraph_convolution() -> Callable[..., Any]:
    import jax
    import jraph

    def loss(weights: Any, nodes: Any, senders: Any, receivers: Any) -> Any:
        graph = jraph.GraphsTuple(
            nodes=nodes,
            edges=None,
            senders=senders,
            receivers=receivers,
            globals=None,
            n_node=np.int32([5000]),
            n_edge=np.int32([40000]),
        )
        for w in weights:
            layer = jraph.GraphConvolution(
                lambda n, w=w: jax.nn.relu(n @ w), symmetric_normalization=True
            )
            graph = layer(graph)
        return (graph.nodes**2).mean()

    def gradient(nodes: Any, senders: Any, receivers: Any, *weights: Any) -> Any:
        return jax.value_and_grad(loss)(weights, nodes, senders, receivers)

    return gradient


PROGRAMS.add(
    "jraph_convolution",
    "two graph convolutions over 5,000 nodes of 64 and 40,000 edges, gradient",
    lambda r: (
        normal(r, 5000, 64),
        r.integers(0, 5000, 40000).astype(np.int32),
        r.integers(0, 5000, 40000).astype(np.int32),
        normal(r, 64, 64) / 8,
        normal(r, 64, 64) / 8,
    ),
    jax=jraph_convolution,
    terms=5000,
)


def keras_model() -> Any:
    import keras

    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.set_weights([pattern(i, w.shape) for i, w in enumerate(model.get_weights())])
    return model


def keras_training() -> Callable[..., Any]:
    import keras

    model = keras_model()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return lambda x, y: np.float32(model.train_on_batch(x, y))


def keras_prediction() -> Callable[..., Any]:
    model = keras_model()
    model.compile()
    return lambda x: model.predict_on_batch(x)


PROGRAMS.add(
    "keras_training",
    "Keras: train_on_batch of a small convolutional network, 128 images of 28x28, Adam",
    lambda r: (normal(r, 128, 28, 28, 1), r.integers(0, 10, 128).astype(np.int32)),
    jax=keras_training,
    check=finite,
    jit=False,
)
PROGRAMS.add(
    "keras_prediction",
    "Keras: predict_on_batch of the same network, one image",
    lambda r: (normal(r, 1, 28, 28, 1),),
    jax=keras_prediction,
    wide=False,
    terms=1600,
    jit=False,
    source="tensorflow/tensorflow#40261",
)
