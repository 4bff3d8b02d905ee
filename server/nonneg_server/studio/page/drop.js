// Photos from outside: dropped anywhere, pasted, or chosen; one is asked with, two are compared.

import { Failure, upload } from "./api.js";
import { h } from "./elements.js";

const COMPARED = 2;

export const chooser = h("input", { type: "file", accept: "image/*", hidden: true, "aria-hidden": "true", tabindex: "-1" });

export function choose() {
  chooser.click();
}

export function takePhotos(use, fail) {
  const take = async (files) => {
    document.body.classList.add("working");
    try {
      const photos = photosOf(files);
      use(await Promise.all(photos.slice(0, COMPARED).map(upload)), photos.length);
    } catch (error) {
      fail(error);
    } finally {
      document.body.classList.remove("working");
    }
  };
  chooser.addEventListener("change", async () => {
    if (chooser.files.length) await take(chooser.files);
    chooser.value = "";
  });
  addEventListener("dragover", (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("dropping");
  });
  addEventListener("drop", (event) => {
    if (!document.body.classList.contains("dropping")) return; // text into a field, say
    event.preventDefault();
    document.body.classList.remove("dropping");
    take(event.dataTransfer.files);
  });
  addEventListener("paste", (event) => {
    if (event.clipboardData?.files.length) take(event.clipboardData.files);
  });
}

function photosOf(files) {
  const found = [...files].filter((file) => file.type.startsWith("image/") || !file.type);
  if (found.length) return found;
  throw new Failure(0, { type: "no_photo", message: "This is not a photo.", fix: "Drop the file of one: JPEG, PNG or WebP, say." });
}
