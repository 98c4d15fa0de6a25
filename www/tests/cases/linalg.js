// Tests linear algebra, Fourier transforms, einsum, sampling, and related functions of NumPy.

import { check, close, randoms, refuses, same, test } from "./harness.js";

const all = async (tensor) => [...(await tensor.read())];

test("einsum", async ({ device, Tensor }) => {
  const [x, y] = [device.tensor([[1, 2], [3, 4]]), device.tensor([1, 10])];
  same(await all(Tensor.einsum("ij,j->i", [x, y])), [21, 43]);
  same(await all(Tensor.einsum("ij,jk", [x, x])), [7, 10, 15, 22]);
  same(await all(Tensor.einsum("...i->...", [x])), [3, 7]);
  same(await Tensor.einsum("ii", [x]).item(), 5);
  same(await all(x.tensordot(x, [0, 1], [1, 0])), [29]);
  same(await all(x.diagonal()), [1, 4]);
  same(await all(x.diagonal(1, 0, 1)), [2]);
  same(await x.trace().item(), 5);
  refuses("Shape", "einsum: 'j'", () => Tensor.einsum("ij,jk->ik", [x, device.ones([3, 2])]));
  refuses("InvalidArgument", "einsum: equation", () => Tensor.einsum(3, [x]));
});

test("matrices", async ({ device, Tensor }) => {
  const x = device.tensor([[4, 2], [2, 10]]);
  close(await all(x.inv().matmul(x)), [1, 0, 0, 1]);
  close(await all(x.solve(device.tensor([8, 22]))), [1, 2]);
  close(await all(x.lstsq(device.tensor([8, 22]))), [1, 2]);
  close([await x.det().item()], [36]);
  const { sign, logabsdet } = x.slogdet();
  const [signs, logs] = await device.read([sign, logabsdet]);
  close([signs[0], logs[0]], [1, Math.log(36)]);
  close(await all(x.cholesky()), [2, 0, 1, 3]);
  close(await all(x.cholesky().solveTriangular(device.tensor([2, 4]))), [1, 1]);
  close(await all(x.solveTriangular(device.tensor([6, 10]), true)), [1, 1]);
  const { q, r } = x.qr();
  close(await all(q.matmul(r)), [4, 2, 2, 10]);
  close([await x.matrixNorm().item()], [Math.sqrt(124)]);
  same(await x.matrixNorm("one").item(), 12);
  const [gradient] = x.inv().sum().grad([x]);
  check((await all(gradient)).every(Number.isFinite), "the gradient is finite");
  const [by] = Tensor.vjp([x.square(), x.mul(3)], [device.ones([2, 2]), device.ones([2, 2])], [x]);
  same(await all(by), [11, 7, 7, 23]);
  refuses("InvalidArgument", "vjp: there must be one seed for each result, got 0 seeds", () => Tensor.vjp([x], [], [x]));
  refuses("Shape", "inv", () => device.ones([2, 3]).inv());
});

test("Fourier transforms", async ({ device }) => {
  const numbers = randoms(12, 3);
  const x = device.tensor(numbers, [6, 2]);
  close(await all(x.fft().ifft()), numbers);
  close(await all(x.fft({ norm: "ortho" }).ifft({ norm: "ortho" })), numbers);
  same([...x.fft({ n: 4 }).shape], [4, 2]);
  const real = device.tensor([1, 0, -1, 0]);
  close(await all(real.rfft()), [0, 0, 2, 0, 0, 0]);
  close(await all(real.rfft().irfft()), [1, 0, -1, 0]);
  const picture = device.tensor(randoms(24, 4), [3, 4, 2]);
  close(await all(picture.fft2().ifft2()), await all(picture));
  same(await all(device.tensor([1, 2]).complexMul(device.tensor([1, 2]))), [-3, 4]);
});

test("sampling and parts", async ({ device }) => {
  const x = device.tensor([1, 2, 3, 4], [1, 1, 2, 2]);
  const grid = device.tensor([0, 0, 1, -1], [1, 1, 2, 2]);
  close(await all(x.gridSample(grid, { alignCorners: true })), [2.5, 2]);
  close(await all(x.gridSample(grid, { mode: "nearest", paddingMode: "border" })), [1, 2]);
  same(await all(device.tensor([[1, 5, 2]]).adaptiveMaxPool([2])), [5, 5]);
  close(await all(device.tensor([[1, 5, 2]]).adaptiveAvgPool([2])), [3, 3.5]);
});

test("statistics and arrangements", async ({ device, Tensor }) => {
  const x = device.tensor([[1, 2, 4], [3, 3, 6]]);
  close(await all(x.cov()), [7 / 3, 2.5, 2.5, 3]);
  close(await all(x.quantile(0.25)), [1.5, 3]);
  same(await all(x.median()), [2, 3]);
  same(await all(device.tensor([0, 2, 2, 9], undefined, "i32").bincount(3)), [1, 0, 2]);
  same(await all(x.histc(2, 1, 5)), [2, 3]);
  same(await all(device.tensor([1, 2, 2, 4]).searchsorted(device.tensor([2, 5]))), [1, 4]);
  same(await all(device.tensor([1, 2, 2, 4]).searchsorted(device.tensor([2, 5]), { right: true })), [3, 4]);
  same(await all(device.tensor([2, 5, NaN]).bucketize(device.tensor([1, 2, 2, 4]))), [1, 4, 4]);
  same(await all(device.tensor([2, 5, NaN]).bucketize(device.tensor([1, 2, 2, 4]), { right: true })), [3, 4, 4]);
  close(await all(device.tensor([[0, 0], [3, 4]]).cdist(device.tensor([[3, 4]]))), [5, 0]);
  const odd = device.tensor([1, NaN, Infinity, -Infinity]);
  same(await all(odd.isFinite()), [1, 0, 0, 0]);
  same(await all(odd.nanToNum({ nan: 7, posinf: 8, neginf: 9 })), [1, 7, 8, 9]);
  same(await all(x.isClose(x.add(1), { atol: 0.5 })), [0, 0, 0, 0, 0, 0]);
  same(await x.allClose(x.add(1), { rtol: 1 }).item(), 1);
  close(await all(device.tensor([0, 0]).logcumsumexp()), [0, Math.log(2)]);
  close(await all(device.tensor([1, 2]).logaddexp(1)), [1 + Math.log(2), Math.log(Math.E + Math.E ** 2)]);
  same([...x.movedim(0, -1).shape], [3, 2]);
  same((await Promise.all(x.unbind(1).map(all)))[2], [4, 6]);
  same(await all(x.narrow(1, -2, 2)), [2, 4, 3, 6]);
  same(await all(device.tensor([1, 2]).repeatInterleave(2)), [1, 1, 2, 2]);
  const [rows, columns] = Tensor.meshgrid([device.tensor([1, 2]), device.tensor([3, 4])]);
  same([await all(rows), await all(columns)], [[1, 1, 2, 2], [3, 4, 3, 4]]);
  same(await all(x.diff()), [1, 2, 0, 3]);
  same(await all(x.trapezoid(2)), [9, 15]);
  same(await all(device.tensor([1, 0, 0]).cross(device.tensor([0, 1, 0]))), [0, 0, 1]);
  same(await all(device.tensor([1, 10]).kron(device.tensor([1, 2]))), [1, 2, 10, 20]);
});
