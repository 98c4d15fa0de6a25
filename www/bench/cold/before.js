import { Device } from "warpweft-before";
import { count, measure } from "./page.js";

measure(async (data) => {
  const device = await Device.new({ prefer: new URLSearchParams(location.search).get("prefer") });
  const [x, y] = data.map((values) => device.tensor(values, [count, count]));
  return x.matmul(y).relu().read();
});
