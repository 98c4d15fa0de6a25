import { Device } from "warpweft";
import { product } from "./product.js";

test("a product", async () => {
  expect(await product(Device, { prefer: "cpu" })).toBe("19 22 43 50 on cpu");
});
