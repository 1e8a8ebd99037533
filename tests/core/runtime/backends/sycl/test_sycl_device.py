"""Programs on a SYCL device, each test in a process of its own: a process uses devices of one kind."""

from __future__ import annotations

from .processes import output


def test_a_program_of_every_kind_of_thunk() -> None:
    """Kernels, copies, loops with a predicate, conditionals, library calls with and without a comparator."""
    text = output(
        """
        import jax, jax.numpy as jnp, numpy as np
        assert "sycl" in jax.devices()[0].device_kind, jax.devices()[0].device_kind
        x = np.linspace(-3, 3, 100_000, dtype=np.float32)
        def f(x):
            y = jnp.exp(x) + 1
            n, _ = jax.lax.while_loop(lambda s: s[1].sum() < 1e6, lambda s: (s[0] + 1, s[1] * 2), (0, jnp.abs(y)))
            z = jax.lax.cond(n > 2, lambda v: jnp.sort(v)[::-1], lambda v: v, y)
            return n, z, x[:10_000].reshape(100, 100) @ x[:10_000].reshape(100, 100).T
        for got, expected in zip(jax.jit(f)(x), jax.jit(f, backend="cpu")(x)):
            np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-4)
        print("the same")
        """
    )
    assert text.strip() == "the same"


def test_donation_and_asynchronous_use() -> None:
    text = output(
        """
        import jax, jax.numpy as jnp
        f = jax.jit(lambda x: x * 2 + 1, donate_argnums=0)
        x = jnp.zeros((1000, 1000))
        for _ in range(10):
            x = f(x)
        print(float(x.min()), float(x.max()))
        """
    )
    assert text.split() == ["1023.0", "1023.0"]


def test_several_devices_share_one() -> None:
    text = output(
        """
        import jax, jax.numpy as jnp
        print(len(jax.devices()), [float(jax.device_put(jnp.arange(5.0), d).sum()) for d in jax.devices()])
        """,
        TRIPONT_NUM_DEVICES="2",
    )
    assert text.strip() == "2 [10.0, 10.0]"


def test_parts_of_a_variable_are_read() -> None:
    """LLVM makes one integer of four bf16 on the stack, and a trunc and an ext of each element."""
    text = output(
        """
        import jax, jax.numpy as jnp
        f = jax.jit(lambda x, y: jax.lax.dot_general(
            x[:4, None], y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32))
        print(f(jnp.arange(24, dtype=jnp.bfloat16), jnp.ones((1, 3), jnp.bfloat16)).tolist())
        """
    )
    assert text.strip() == str([[float(n)] * 3 for n in range(4)])
