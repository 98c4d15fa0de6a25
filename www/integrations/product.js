// Computes a product of two matrices as text. All integrations compute it.

/** "19 22 43 50 on cpu", and in the place of `cpu` what computes. */
export async function product(Device, settings) {
  const device = await Device.new(settings);
  const x = device.tensor([[1, 2], [3, 4]]);
  const y = device.tensor([[5, 6], [7, 8]]);
  const values = await x.matmul(y).read();
  const text = `${[...values].join(" ")} on ${device.info.backend}`;
  device.dispose();
  return text;
}
