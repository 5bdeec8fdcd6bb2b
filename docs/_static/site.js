// What scrolls sideways can be reached and scrolled with the keyboard.
function reachable() {
  for (const box of document.querySelectorAll("pre, .table-wrapper, .highlight")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}
addEventListener("load", reachable);
addEventListener("resize", reachable);
