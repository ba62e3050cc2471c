"""NUTS on a logistic regression and SVI on a normal, by numpyro: means, which chance moves less than samples."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal


def logistic(x, y=None):
    w = numpyro.sample("w", dist.Normal(jnp.zeros(3), 1.0))
    numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)


def run(device):
    x = jax.random.normal(jax.random.key(0), (200, 3))
    y = (x @ jnp.array([1.0, -2.0, 0.5]) > 0).astype(jnp.int32)
    svi = SVI(logistic, AutoNormal(logistic), numpyro.optim.Adam(0.05), Trace_ELBO())
    fitted = svi.run(jax.random.key(2), 100, x, y, progress_bar=False)
    chain = MCMC(NUTS(logistic), num_warmup=100, num_samples=100, progress_bar=False)
    chain.run(jax.random.key(1), x, y)
    mean = chain.get_samples()["w"].mean(0)
    return {"svi_losses": fitted.losses, "nuts_signs": jnp.sign(mean), "nuts_is_finite": jnp.isfinite(mean).astype(jnp.int32)}
