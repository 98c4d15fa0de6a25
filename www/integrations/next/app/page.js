"use client";

import { useEffect, useState } from "react";
import { Device } from "warpweft";
import { product } from "../product.js";

export default function Page() {
  const [text, setText] = useState("");
  useEffect(() => {
    const prefer = new URLSearchParams(location.search).get("prefer") ?? "auto";
    product(Device, { prefer }).then(setText, (error) => setText(String(error)));
  }, []);
  return <output>{text}</output>;
}
