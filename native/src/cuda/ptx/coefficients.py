"""Prints the coefficients of the polynomials in `lower`, the highest power first, with the largest error of the fit."""
from mpmath import *
mp.dps = 60
def fit(name, f, a, b, n):
    eps = mpf(10) ** -25
    g = lambda x: f(x if abs(x) > eps else eps)
    poly, err = chebyfit(g, [a, b], n, error=True)
    print(name, "error", nstr(err, 3), "=> [" + ", ".join(nstr(c, 10) for c in poly) + "]")
s = sqrt
fit("exp (e^r-1-r)/r^2", lambda r: (exp(r) - 1 - r) / r**2, -log(2) / 2 - 0.001, log(2) / 2 + 0.001, 6)
fit("exp2 (2^r-1)/r", lambda r: (mpf(2)**r - 1) / r, -0.5, 0.5, 7)
fit("log (log((1+s)/(1-s))-2s)/s^3", lambda z: (log((1 + s(z)) / (1 - s(z))) - 2 * s(z)) / s(z)**3, 0, 0.0296, 4)
fit("log tight", lambda z: (log((1 + s(z)) / (1 - s(z))) - 2 * s(z)) / s(z)**3, 0, 0.0296, 5)
fit("sin", lambda z: (sin(s(z)) / s(z) - 1) / z, 0, mpf(0.62), 4)
fit("cos", lambda z: (cos(s(z)) - 1 + z / 2) / z**2, 0, mpf(0.62), 4)
fit("atan", lambda z: (atan(s(z)) / s(z) - 1) / z, 0, 1, 10)
fit("asin", lambda z: (asin(s(z)) / s(z) - 1) / z, 0, 0.25, 7)
fit("tanh", lambda z: (tanh(s(z)) / s(z) - 1) / z, 0, 0.37, 6)
fit("sinh", lambda z: (sinh(s(z)) / s(z) - 1) / z, 0, 1, 4)
# 2/pi in 32-bit words.
x = int(floor(mpf(2) / pi * mpf(2)**(32*8)))
mp.dps = 120
x = int(floor(mpf(2) / pi * mpf(2)**(32*7)))
print([hex((x >> (32*(6-i))) & 0xffffffff) for i in range(7)])
def split(v, n=3):
    out = []
    import struct
    for _ in range(n):
        f = struct.unpack('f', struct.pack('f', float(v)))[0]
        out.append(f); v = v - mpf(f)
    return out
print("pi/2", [repr(x) for x in split(pi/2)], "ln2", split(log(2)), "log2e", split(1/log(2)), "2/pi", split(2/pi,1))
