"""Writes linalg.txt next to this file: NumPy's and JAX's results in 64 bits for linear algebra and einsum.

    pip install numpy jax && python tests/golden/linalg.py

A line is a case, a name, a shape and elements. `y0`, `y1` are the results. `d x` is the gradient by `x` of the sum of the
results multiplied by `w0`, `w1`. `dd x` is the gradient by `x` of the sum of all these gradients, where each is multiplied
by its `v x`. All other names are inputs.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(14)
lines = []


def uniform(*shape):
    """Returns values that f32 represents exactly, with few digits."""
    return np.round(rng.uniform(-1, 1, shape) * 64) / 64


def regular(*shape):
    """Returns square matrices that are far from singular."""
    return uniform(*shape) + 1.5 * np.eye(shape[-1]) * np.where(rng.uniform(size=shape[-1]) < 0.5, -1, 1)


def positive(*shape):
    x = uniform(*shape)
    return np.round((x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])) * 64) / 64


def write(case, name, value):
    value = np.asarray(value, dtype=np.float64)
    elements = " ".join(f"{v:.9g}" for v in value.ravel())
    lines.append(f"{case}|{name}|{','.join(map(str, value.shape))}|{elements}")


def case(name, f, inputs, second=True, check=None):
    """Writes a case. `f` takes the inputs and returns a list of results. `check` is NumPy's function for the values."""
    results = f(inputs)
    if check is not None:
        for a, b in zip(results, check(inputs)):
            assert np.allclose(a, b, atol=1e-12), name
    weights = [uniform(*y.shape) for y in results]
    loss = lambda p: sum(jnp.sum(w * y) for w, y in zip(weights, f(p)))
    gradients = jax.grad(loss)(inputs)
    for key, value in inputs.items():
        write(name, key, value)
    for i, (y, w) in enumerate(zip(results, weights)):
        write(name, f"y{i}", y)
        write(name, f"w{i}", w)
    for key, value in gradients.items():
        write(name, f"d {key}", value)
    if second:
        others = {key: uniform(*value.shape) for key, value in inputs.items()}
        across = lambda p: sum(jnp.sum(others[key] * g) for key, g in jax.grad(loss)(p).items())
        for key, value in jax.grad(across)(inputs).items():
            write(name, f"v {key}", others[key])
            write(name, f"dd {key}", value)


for shape in [(1, 1), (2, 2), (3, 3), (4, 4), (2, 5, 5)]:
    of = "x".join(map(str, shape))
    a = {"a": regular(*shape)}
    case(f"inv {of}", lambda p: [jnp.linalg.inv(p["a"])], a, check=lambda p: [np.linalg.inv(p["a"])])
    case(f"det {of}", lambda p: [jnp.linalg.det(p["a"])], a, check=lambda p: [np.linalg.det(p["a"])])
    case(f"slogdet {of}", lambda p: list(jnp.linalg.slogdet(p["a"])), a, check=lambda p: np.linalg.slogdet(p["a"]))
    a = {"a": positive(*shape)}
    case(f"cholesky {of}", lambda p: [jnp.linalg.cholesky(p["a"])], a, check=lambda p: [np.linalg.cholesky(p["a"])])

for a, b in [((3, 3), (3,)), ((4, 4), (4, 2)), ((2, 3, 3), (2, 3, 4)), ((2, 3, 3), (3, 2)), ((2, 4, 4), (2, 4)), ((2, 3, 3), (3,))]:
    of = "x".join(map(str, a)) + " by " + "x".join(map(str, b))
    vectors = len(b) == 1 or b == a[:-1]

    def solve(p, library=jnp, vectors=vectors, shape=a[:-1]):
        b = library.broadcast_to(p["b"], shape) if vectors else p["b"]
        x = library.linalg.solve(p["a"], b[..., None] if vectors else b)
        return [x[..., 0] if vectors else x]

    case(f"solve {of}", solve, {"a": regular(*a), "b": uniform(*b)}, check=lambda p: solve(p, np))


def qr(p):
    rows, columns = p["a"].shape[-2:]
    q, r = jnp.linalg.qr(p["a"][..., : min(rows, columns)])
    return [q, jnp.concatenate([r, jnp.swapaxes(q, -1, -2) @ p["a"][..., rows:]], -1) if columns > rows else r]


for shape in [(1, 1), (3, 3), (5, 3), (3, 5), (2, 4, 2), (4, 1), (1, 3)]:
    of = "x".join(map(str, shape))
    case(f"qr {of}", qr, {"a": uniform(*shape) + np.eye(*shape[-2:])}, check=lambda p: np.linalg.qr(p["a"]))


def lstsq(p):
    # Full rank: the normal equations, in 64 bits.
    a, b = p["a"], p["b"] if p["b"].ndim > 1 else p["b"][:, None]
    t = jnp.swapaxes(a, -1, -2)
    tall = a.shape[-2] >= a.shape[-1]
    x = jnp.linalg.solve(t @ a, t @ b) if tall else t @ jnp.linalg.solve(a @ t, b)
    return [x if p["b"].ndim > 1 else x[..., 0]]


for a, b in [((5, 3), (5,)), ((5, 3), (5, 2)), ((3, 5), (3, 2)), ((4, 4), (4, 1)), ((2, 4, 3), (2, 4, 2))]:
    of = "x".join(map(str, a)) + " by " + "x".join(map(str, b))
    check = (lambda p: [np.linalg.lstsq(p["a"], p["b"])[0]]) if len(a) == 2 else None
    case(f"lstsq {of}", lstsq, {"a": uniform(*a) + np.eye(*a[-2:]), "b": uniform(*b)}, check=check)

for order in ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]:
    for shape in [(3, 3), (2, 4, 3), (2, 5)]:
        if order in ("nuc", -2) and shape == (3, 3):
            continue
        f = lambda p, library=jnp: [library.linalg.norm(p["a"], order, (-2, -1))]
        of = "x".join(map(str, shape))
        case(f"norm {order} {of}", f, {"a": uniform(*shape) + np.eye(*shape[-2:])}, False, lambda p: f(p, np))

a = {"a": regular(3, 3), "b": uniform(3, 2)}
lower = lambda p: [jax.scipy.linalg.solve_triangular(p["a"], p["b"], lower=True)]
case("solve_triangular lower", lower, a)
upper = lambda p: [jax.scipy.linalg.solve_triangular(p["a"], p["b"], lower=False)]
case("solve_triangular upper", upper, a)

EQUATIONS = """
i->i i-> i ij->ji ij->i ij->j ij-> ij ji ii ii->i ii-> iij->j iji->ij iijj->ij
i,i->i i,i-> i,j->ij i,j ij,j->i ij,i->j ij,jk->ik ij,jk ij,kj->ki ij,ij-> ij,ij->i ij,ij->ij ij,ji-> ij,k->ijk
bij,bjk->bik bij,jk->bik bij,bkj->bki bij,bij->b bhid,bhjd->bhij bij,b->bij ijk,jkl->il ijk,jil->kl
ij,jk,kl->il i,ij,j-> i,j,k->ijk ab,cb,dc,ad->bd bi,ijk,bj->bk
...ij,...jk->...ik ...i,...i->... ...,...->... ...ij->...ji ij...->...ij i...->... ...ii->...i ...ij,jk
"""
SIZES = dict(a=2, b=3, c=4, d=5, h=2, i=3, j=4, k=2, l=5)
ELLIPSES = {"...ij,...jk->...ik": [(2, 1), (3,)], "...i,...i->...": [(2, 3), (2, 3)], "...,...->...": [(2, 3), (3,)]}


def terms(equation):
    return equation.split("->")[0].split(",")


for equation in EQUATIONS.split():
    inputs = {}
    for n, term in enumerate(terms(equation)):
        before, dots, after = term.partition("...")
        middle = ELLIPSES.get(equation, [(2,), (2,), (2,)])[n] if dots else ()
        # The letters of a diagonal always have one extent.
        twice = any(term.count(letter) > 1 for letter in before + after)
        sizes = {**SIZES, "j": SIZES["i"]} if twice else SIZES
        shape = [sizes[c] for c in before] + list(middle) + [sizes[c] for c in after]
        inputs[f"x{n}"] = uniform(*shape)
    f = lambda p, library=jnp: [library.einsum(equation, *[p[f"x{n}"] for n in range(len(p))])]
    # NumPy does not sum over an ellipsis that is missing in the result.
    case(f"einsum {equation}", f, inputs, False, None if equation == "ij...->" else lambda p: f(p, np))

# Extents of 1 broadcast.
ones = {"x0": uniform(3, 1), "x1": uniform(4, 2)}
case("einsum ij,jk->ik of 1", lambda p: [jnp.einsum("ij,jk->ik", jnp.broadcast_to(p["x0"], (3, 4)), p["x1"])], ones, False)

pathlib.Path(__file__).with_name("linalg.txt").write_text("\n".join(lines) + "\n")
