/** What the page does when somebody steps through it. It asks nothing of any network. */
export const SCRIPT = `
"use strict";
const panels = [...document.querySelectorAll("section.panel")];
let active = Math.max(0, panels.findIndex((panel) => panel.classList.contains("active")));
const at = panels.map(() => -1);

/** The run of a panel that is shown: as it was, or without one fault. */
function taken(nth) {
  return panels[nth].querySelector(".take:not([hidden])");
}

function rowsOf(nth) {
  return [...taken(nth).querySelectorAll("tbody tr")];
}

/** Shows a panel's run without one fault; 0: as it was. */
function leaveOut(nth, chosen) {
  for (const take of panels[nth].querySelectorAll(".take")) {
    take.hidden = take.dataset.take !== String(chosen);
  }
  for (const item of panels[nth].querySelectorAll(".leave-out li")) {
    if (item.dataset.take !== String(chosen)) item.removeAttribute("aria-current");
    else {
      item.setAttribute("aria-current", "true");
      const slider = panels[nth].querySelector(".leave-out input");
      slider.setAttribute("aria-valuetext", item.textContent);
    }
  }
  at[nth] = -1;
}

function activate(nth, focus) {
  active = Math.max(0, Math.min(panels.length - 1, nth));
  panels.forEach((panel, i) => panel.classList.toggle("active", i === active));
  if (focus) panels[active].focus();
}

function show(nth, row) {
  const rows = rowsOf(nth);
  if (rows.length === 0) return;
  const next = Math.max(0, Math.min(rows.length - 1, row));
  for (const one of rows) {
    one.removeAttribute("aria-current");
    one.classList.remove("conflicts");
  }
  at[nth] = next;
  const chosen = rows[next];
  chosen.setAttribute("aria-current", "step");
  const box = chosen.closest(".rows");
  box.scrollTop = chosen.offsetTop - box.clientHeight / 2;
  const cursor = taken(nth).querySelector(".cursor");
  for (const end of ["x1", "x2"]) cursor.setAttribute(end, chosen.dataset.x);
  taken(nth).querySelector("output").textContent =
    (next + 1) + "/" + rows.length + "  " +
    [...chosen.cells].map((cell) => cell.textContent).join("  ");
}

/** The table, with the two that conflict. */
function conflict(nth, other) {
  taken(nth).querySelector("details").open = true;
  if (other === undefined) return;
  const row = rowsOf(nth)[Number(other)];
  row.classList.add("conflicts");
  taken(nth).querySelector("output").textContent += "  ⇄  " + row.cells[2].textContent;
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  // The arrows move the slider that has the focus.
  if (event.target instanceof HTMLInputElement && !/^[1-9]$/.test(event.key)) return;
  const steps = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 };
  const rows = rowsOf(active).length;
  if (event.key in steps) show(active, at[active] + steps[event.key]);
  else if (event.key === "Home") show(active, 0);
  else if (event.key === "End") show(active, rows - 1);
  else if (/^[1-9]$/.test(event.key) && Number(event.key) <= panels.length) {
    activate(Number(event.key) - 1, true);
  } else return;
  event.preventDefault();
});

panels.forEach((panel, nth) => {
  panel.addEventListener("focusin", () => activate(nth, false));
  panel.addEventListener("input", (event) => leaveOut(nth, Number(event.target.value)));
  panel.addEventListener("click", (event) => {
    activate(nth, false);
    const left = event.target.closest(".leave-out li");
    if (left !== null) {
      panel.querySelector(".leave-out input").value = left.dataset.take;
      return leaveOut(nth, Number(left.dataset.take));
    }
    const row = event.target.closest("tbody tr");
    if (row !== null) return show(nth, rowsOf(nth).indexOf(row));
    const button = event.target.closest("button");
    if (button === null) return;
    if (button.dataset.step !== undefined) show(nth, at[nth] + Number(button.dataset.step));
    if (button.dataset.row !== undefined) {
      show(nth, Number(button.dataset.row));
      conflict(nth, button.dataset.with);
    }
    if (button.dataset.save !== undefined) save(panel, button.dataset.save);
  });
});

/** The picture as a file of its own, with its style in it. */
function save(panel, name) {
  const svg = panel.querySelector(".take:not([hidden]) .scroll > svg").cloneNode(true);
  const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
  style.textContent = document.querySelector("style").textContent + "svg{background:var(--ground)}";
  svg.prepend(style);
  const text = new XMLSerializer().serializeToString(svg);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
`;
