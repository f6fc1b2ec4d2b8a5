// The theme's buttons that expand a section of the navigation have no accessible name.
document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("li.has-children > details > summary")) {
    const title = button.closest("li").querySelector("a").textContent.trim();
    button.setAttribute("aria-label", `pages of ${title}`);
  }
});
