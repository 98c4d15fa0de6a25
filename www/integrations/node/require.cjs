const { Device } = require("warpweft");

async function main() {
  const device = await Device.new();
  const x = device.tensor([[1, 2], [3, 4]]);
  const values = await x.matmul(device.tensor([[5, 6], [7, 8]])).read();
  console.log(`${[...values].join(" ")} on ${device.info.backend}`);
}

main();
