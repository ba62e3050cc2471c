"""Functions of jax.scipy, jax.numpy.linalg, jax.image and jax.experimental.sparse against XLA's CPU backend, one case each."""

import jax
import jax.numpy as jnp
import jax.scipy as js
import jax.scipy.optimize
import jax.scipy.spatial.transform
import numpy as np
import pytest
from jax.experimental import sparse
from jax.experimental.ode import odeint

pytestmark = pytest.mark.slow

G = np.random.default_rng(0)
A = G.normal(size=(5, 5)).astype(np.float32)
S = A @ A.T + 3 * np.eye(5, dtype=np.float32)  # positive
B = G.normal(size=(5, 3)).astype(np.float32)
X = (np.abs(G.normal(size=40)) + 0.1).astype(np.float32)
Y = (np.abs(G.normal(size=40)) + 0.5).astype(np.float32)
U = (X / (X.max() + 1)).astype(np.float32)  # within 0 and 1
IMAGE = G.normal(size=(6, 7, 2)).astype(np.float32)
HOLES = np.where(G.random((6, 5)) < 0.6, 0, G.normal(size=(6, 5))).astype(np.float32)

SPECIAL = {
    **{n: (X,) for n in "digamma erf erfc expi expit gamma gammaln i0 i0e i1 i1e log_ndtr ndtr spence fresnel sici "
       "factorial softmax log_softmax logsumexp entr".split()},
    **{n: (X, Y) for n in "beta betaln gammainc gammaincc kl_div poch rel_entr xlog1py xlogy".split()},
    "erfinv": (U,), "logit": (U,), "ndtri": (U,), "betainc": (X, Y, U), "zeta": (X + 1.5, Y),
    "hyp1f1": (X, Y, X), "hyp2f1": (X, Y, X + 1, U), "polygamma": (np.full(40, 2, np.int32), Y),
}  # fmt: skip
LINALG = {
    "det": (A,), "slogdet": (A,), "inv": (A,), "pinv": (B,), "cond": (A,), "matrix_rank": (B,), "solve": (A, B),
    "eigvalsh": (S,), "svdvals": (B,), "cholesky": (S,), "norm": (A,), "trace": (A,), "outer": (A[0], B[0]),
}  # fmt: skip
SCIPY_LINALG = {
    "expm": (A * 0.3,), "sqrtm": (S,), "lu": (A,), "polar": (A,), "toeplitz": (A[0], B[:, 0]), "cho_factor": (S,),
    "block_diag": (A, B), "funm": (S, jnp.exp), "expm_frechet": (A * 0.1, A * 0.1),
}  # fmt: skip
SIGNAL = {
    "convolve": (X, Y), "convolve2d": (A, B), "correlate": (X, Y), "fftconvolve": (X, Y), "detrend": (X,),
    "welch": (X,), "csd": (X, Y),
}  # fmt: skip
STATS = {
    "norm.logcdf": (X,), "beta.logpdf": (U, Y, Y), "gamma.cdf": (X, Y), "t.logpdf": (X, Y), "truncnorm.cdf": (X, -Y, Y + 5),
    "vonmises.pdf": (X, Y), "poisson.cdf": (np.floor(X * 3), Y), "nbinom.logpmf": (np.floor(X), Y * 3, U),
    "multivariate_normal.logpdf": (B.T, A[0], S), "rankdata": (X,), "sem": (X,),
}  # fmt: skip
OTHERS = {
    **{f"resize {m} to {size}": (lambda x, m=m, size=size: jax.image.resize(x, size, m), IMAGE)
       for m in ("nearest", "linear", "cubic", "lanczos5") for size in ((9, 11, 2), (3, 4, 2))},
    "stft": (lambda x: js.signal.stft(x, nperseg=16)[2], X), "dct": (js.fft.dct, X), "idctn": (js.fft.idctn, A),
    "map_coordinates": (lambda a, b: js.ndimage.map_coordinates(a, [b[:, 0], b[:, 1]], 1), A, B),
    "cg": (lambda a, b: js.sparse.linalg.cg(a, b)[0], S, B[:, 0]),
    "gmres": (lambda a, b: js.sparse.linalg.gmres(a, b)[0], S, B[:, 0]),
    "odeint": (lambda y: odeint(lambda y, t: -y * t, y, jnp.linspace(0.0, 1, 5)), X),
    "kde": (lambda x: js.stats.gaussian_kde(x)(x[:3]), X),
    "rotation": (lambda q: js.spatial.transform.Rotation.from_rotvec(q).as_matrix(), B[0]),
    "sparse product": (lambda m, v: sparse.BCOO.fromdense(m, nse=15) @ v, HOLES, A[0]),
    "compressed rows": (lambda m, v: sparse.BCSR.fromdense(m, nse=15) @ v, HOLES, A[0]),
    "sparse gradient": (jax.grad(lambda m, v: (sparse.BCOO.fromdense(m, nse=15) @ v).sum()), HOLES, A[0]),
    "minimize": (lambda x: js.optimize.minimize(lambda v: ((v - 1) ** 4).sum() + (v**2).sum(), x, method="BFGS").fun, A[0]),
}  # fmt: skip


def named(module, rows):
    for name, args in rows.items():
        function = module
        for part in name.split("."):
            function = getattr(function, part)
        yield f"{module.__name__.removeprefix('jax.')}.{name}", (function, *args)


TABLE = dict(
    [*named(js.special, SPECIAL), *named(jnp.linalg, LINALG), *named(js.linalg, SCIPY_LINALG), *named(js.signal, SIGNAL),
     *named(js.stats, STATS), *OTHERS.items()])  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_as_on_the_cpu(name):
    function, *args = TABLE[name]
    still = {i: a for i, a in enumerate(args) if callable(a)}

    def call(*arrays):
        rest = iter(arrays)
        return function(*(still[i] if i in still else next(rest) for i in range(len(args))))

    got, want = (
        jax.tree.leaves(jax.jit(call)(*(jax.device_put(a, d) for a in args if not callable(a))))
        for d in (jax.devices("neuron")[0], jax.devices("cpu")[0])
    )
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=5e-3, atol=5e-3)
