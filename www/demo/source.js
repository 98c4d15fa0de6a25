// The source of a picture: a picture of the page, a chosen or dropped file, or the camera.

import { byId, make } from "./dom.js";

/** @import { Picture } from "./engine.js" */

const longest = 1440;
const cameraWidth = 640;

export class Source {
  #file = byId("file", HTMLInputElement);
  #camera = byId("camera", HTMLButtonElement);
  #changed;
  /** @type {HTMLVideoElement | undefined} */
  #video;
  /** @type {Picture} */
  #still;

  /**
   * Connects the list of the page's pictures, `#file` and `#camera`. A picture may be dropped anywhere.
   * @param {HTMLSelectElement} list
   * @param {(value: string) => Picture} own draws the picture with this value of the list.
   * @param {() => void} changed is called when there is another picture.
   * @param {(error: unknown) => void} failed
   */
  constructor(list, own, changed, failed) {
    this.#changed = changed;
    this.#still = own(list.value);
    list.addEventListener("change", () => this.#show(own(list.value)));
    this.#file.addEventListener("change", () => {
      const file = this.#file.files?.[0];
      this.#file.value = ""; // The same file can be chosen again.
      if (file) this.#open(file).catch(failed);
    });
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      const file = event.dataTransfer?.files[0];
      if (file) this.#open(file).catch(failed);
    });
    this.#camera.addEventListener("click", () => (this.#video ? this.#stop() : this.#start().catch(failed)));
  }

  /** Whether the picture changes with each frame of the camera. */
  get live() {
    return this.#video !== undefined;
  }

  /** Returns the current picture. @returns {Picture} */
  now() {
    if (!this.#video) return this.#still;
    const scale = Math.min(1, cameraWidth / this.#video.videoWidth);
    return draw(this.#video, this.#video.videoWidth * scale, this.#video.videoHeight * scale);
  }

  /** @param {Picture} still */
  #show(still) {
    this.#stop();
    this.#still = still;
    this.#changed();
  }

  /** @param {Blob} file */
  async #open(file) {
    const bitmap = await createImageBitmap(file);
    const scale = Math.min(1, longest / Math.max(bitmap.width, bitmap.height));
    this.#show(draw(bitmap, bitmap.width * scale, bitmap.height * scale));
    bitmap.close();
  }

  async #start() {
    if (!navigator.mediaDevices) throw new Error("The browser gives this page no camera.");
    const video = make("video", { playsinline: "", muted: "" });
    video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { width: cameraWidth } });
    await video.play();
    this.#video = video;
    this.#camera.setAttribute("aria-pressed", "true");
    this.#camera.textContent = "Stop the camera";
    const next = () => {
      if (this.#video !== video) return;
      this.#changed();
      video.requestVideoFrameCallback(next);
    };
    video.requestVideoFrameCallback(next);
  }

  #stop() {
    const stream = this.#video?.srcObject;
    if (!(stream instanceof MediaStream)) return;
    this.#still = this.now(); // Taken first, because a video may show nothing after its tracks stop.
    for (const track of stream.getTracks()) track.stop();
    this.#video = undefined;
    this.#camera.setAttribute("aria-pressed", "false");
    this.#camera.textContent = "Camera";
    this.#changed();
  }
}

/** @type {OffscreenCanvas | undefined} */
let sheet;

/**
 * Returns the pixels of an image or a frame, scaled.
 * @param {CanvasImageSource} image
 * @param {number} wide
 * @param {number} high
 * @returns {Picture}
 */
function draw(image, wide, high) {
  const [width, height] = [Math.max(1, Math.round(wide)), Math.max(1, Math.round(high))];
  if (sheet?.width !== width || sheet.height !== height) sheet = new OffscreenCanvas(width, height);
  const context = sheet.getContext("2d", { willReadFrequently: true });
  if (!context) throw new Error("the browser gives no canvas to draw on");
  context.drawImage(image, 0, 0, width, height);
  return { pixels: context.getImageData(0, 0, width, height).data, width, height };
}
