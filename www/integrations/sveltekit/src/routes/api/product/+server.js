import { Device } from "warpweft";
import { product } from "../../../../product.js";

export async function GET() {
  return new Response(await product(Device, { prefer: "auto" }));
}
