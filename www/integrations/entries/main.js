import { shown, weight } from "./chart.js";
import { opened, Product, trained } from "./model.js";
import { prefer, show } from "./page.js";

async function product() {
  const device = await opened({ prefer });
  const model = new Product(weight(device.tensor([[5, 6], [7, 8]])));
  if (!trained(model) || model.parameterCount !== 4) throw new Error("the model does not know its weight");
  return shown(model.forward(device.tensor([[1, 2], [3, 4]])));
}

show("main", product());
