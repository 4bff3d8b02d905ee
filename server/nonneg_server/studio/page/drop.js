// Photos from outside: dropped anywhere, pasted, or chosen; each becomes what is asked with.

import { upload } from "./api.js";
import { h } from "./elements.js";

export const chooser = h("input", { type: "file", accept: "image/*", hidden: true, "aria-hidden": "true", tabindex: "-1" });

export function choose() {
  chooser.click();
}

export function takePhotos(use, fail) {
  const take = async (file) => {
    if (!file) return;
    document.body.classList.add("working");
    try {
      use(await upload(file));
    } catch (error) {
      fail(error);
    } finally {
      document.body.classList.remove("working");
    }
  };
  chooser.addEventListener("change", () => {
    take(chooser.files[0]);
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
    event.preventDefault();
    document.body.classList.remove("dropping");
    take([...event.dataTransfer.files].find((file) => file.type.startsWith("image/") || !file.type));
  });
  addEventListener("paste", (event) => {
    take([...(event.clipboardData?.files || [])][0]);
  });
}
