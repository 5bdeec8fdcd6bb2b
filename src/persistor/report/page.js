// The playground, and what happens when the page is resized or printed.
const played = persistor.playground(field("playground-here"));
offer(field("playground-files"), "playground", "the playground", played);
addEventListener("resize", () => drawTables());

let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
  drawTables(true);
});
addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
});
document.documentElement.dataset.ready = document.querySelector("#playground-here [role=status]").textContent;
