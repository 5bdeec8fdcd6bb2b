"""A batch that is spread over two devices gives what one device gives: values and gradients."""

import json
import os
import subprocess
import sys

from persistor import CELLS

CODE = """if True:
    import json
    import equinox as eqx, jax, jax.numpy as jnp, numpy as np
    from jax.sharding import NamedSharding, PartitionSpec
    from persistor import CELLS, Architecture, Backbone

    assert jax.device_count() == 2
    mesh = jax.make_mesh((2,), ("batch",))
    apart = NamedSharding(mesh, PartitionSpec("batch"))
    same = NamedSharding(mesh, PartitionSpec())
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 9, 8)), jnp.float32)

    def difference(model):
        weights, rest = eqx.partition(model, eqx.is_inexact_array)

        def loss(weights, x):
            y = eqx.combine(weights, rest)(x)[0]
            return jnp.sin(y).mean(), y

        run = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
        one = run(weights, x)
        two = run(jax.device_put(weights, same), jax.device_put(x, apart))
        assert len(two[1][1].sharding.device_set) == 2
        leaves = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
        return max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in leaves)

    def by_hand(model):
        # The same with each device on its own: nothing is gathered.
        run = jax.shard_map(
            lambda x: model(x)[0],
            mesh=mesh,
            in_specs=PartitionSpec("batch"),
            out_specs=PartitionSpec("batch"),
            check_vma=False,
        )
        compiled = jax.jit(run).lower(jax.device_put(x, apart)).compile()
        assert "all-gather" not in compiled.as_text()
        found = np.asarray(compiled(jax.device_put(x, apart)))
        return float(np.abs(found - np.asarray(model(x)[0])).max())

    key = jax.random.key(0)
    differences = {name: difference(kind(8, 5, key=key)) for name, kind in CELLS.items()}
    cell = CELLS["cmru"](8, 5, key=key)
    model = Backbone(8, 3, (cell,), width=8, architecture=Architecture(encoding=4), key=key)
    differences["backbone"] = difference(model)
    differences["shard_map"] = by_hand(cell)
    print(json.dumps(differences))
"""


def test_a_batch_on_two_devices_is_a_batch_on_one():
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", CODE]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    differences = json.loads(ran.stdout)
    assert set(differences) == {*CELLS, "backbone", "shard_map"}
    assert max(differences.values()) < 1e-5, differences
