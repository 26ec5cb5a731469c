
"use strict";
(() => {
  const box = document.querySelector(".filter"), tree = document.getElementById("tree");
  if (!box || !tree) return;
  const field = box.querySelector("input"), said = box.querySelector("output");
  const rows = [...tree.querySelectorAll(".row")].map((row) => {
    const window = row.closest(".window");
    const name = row.matches("details") ? row.querySelector("summary").textContent : row.textContent;
    const of = window ? window.querySelector("summary .name").textContent + " " : "";
    return { row, window, text: (of + name).toLowerCase() };
  });
  const windows = [...tree.querySelectorAll(".window")], folds = [...tree.querySelectorAll(".fold")];
  const before = new Map([...tree.querySelectorAll("details")].map((one) => [one, one.open]));
  const OPENED = 10;
  const many = (count, noun) => count.toLocaleString("en") + " " + noun + (count === 1 ? "" : "s");

  function filter() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter((one) => {
      one.row.hidden = !words.every((word) => one.text.includes(word));
      return !one.row.hidden;
    });
    const found = new Set(kept.map((one) => one.window));
    for (const one of windows) one.hidden = !found.has(one);
    for (const one of folds) one.hidden = !kept.some((each) => one.contains(each.row));
    if (words.length === 0) {
      for (const [one, open] of before) one.open = open;
      said.textContent = "";
      return;
    }
    for (const one of folds) one.open = true;
    for (const one of windows) one.open = found.size <= OPENED;
    const few = kept.length <= OPENED;
    for (const one of kept) if (one.row.matches("details")) one.row.open = few;
    const within = windows.length ? many(found.size, "window") + ", " + many(kept.length, "key") : many(kept.length, "row");
    said.textContent = kept.length ? within + " of those listed" : "none of those listed";
  }

  let waiting = 0;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 60);
  });
  const show = (text) => {
    field.value = text;
    filter();
    field.scrollIntoView({ block: "start" });
    field.focus();
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = document.activeElement;
    if (event.key === "/" && at !== field) {
      event.preventDefault();
      field.scrollIntoView({ block: "start" });
      field.focus();
    } else if (event.key === "Escape" && at === field) {
      show("");
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && tree.contains(at) && at.matches("summary")) {
      const seen = [...tree.querySelectorAll("summary")].filter((one) => one.checkVisibility());
      const next = seen[seen.indexOf(at) + (event.key === "ArrowDown" ? 1 : -1)];
      if (next) {
        event.preventDefault();
        next.focus();
      }
    } else if ((event.key === "ArrowRight" || event.key === "ArrowLeft") && tree.contains(at) && at.matches("summary")) {
      event.preventDefault();
      at.parentElement.open = event.key === "ArrowRight";
    }
  });

  for (const cell of document.querySelectorAll("#calendar tbody td:first-child")) {
    const day = cell.textContent.trim();
    if (!rows.some((one) => one.text.startsWith(day))) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = day;
    button.addEventListener("click", () => show(day));
    cell.replaceChildren(button);
  }
  box.hidden = false;
})();
