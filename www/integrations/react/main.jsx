// StrictMode runs every effect twice while one develops: two devices at once, the first of them closed half-way.

import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { Device } from "warpweft";

const prefer = new URLSearchParams(location.search).get("prefer") ?? "auto";
let effects = 0;

function Product() {
  const [text, setText] = useState("");
  useEffect(() => {
    effects += 1;
    let left = false;
    const opened = Device.new({ prefer });
    const show = async () => {
      const device = await opened;
      if (left) return;
      const x = device.tensor([[1, 2], [3, 4]]);
      const values = await x.matmul(device.tensor([[5, 6], [7, 8]])).read();
      if (!left) setText(`${[...values].join(" ")} on ${device.info.backend}`);
    };
    show().catch((error) => left || setText(String(error)));
    return () => {
      left = true;
      opened.then((device) => device.dispose());
    };
  }, []);
  return <output data-effects={text && effects}>{text}</output>;
}

createRoot(document.getElementById("root")).render(<StrictMode><Product /></StrictMode>);
