// The colour scheme: the system's, unless the user chose one. Owns the attribute `data-theme` of the page.
(() => {
  const chosen = () => {
    try { return localStorage.getItem("memoir.theme"); } catch { return null; }
  };
  const apply = (theme) => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  apply(chosen());
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const current = () => document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
    const name = () => {
      button.setAttribute("aria-label", current() === "dark" ? "Use light colours" : "Use dark colours");
      button.title = button.getAttribute("aria-label");
    };
    button.addEventListener("click", () => {
      const next = current() === "dark" ? "light" : "dark";
      apply(next);
      try { localStorage.setItem("memoir.theme", next); } catch { /* kept only until the page is closed */ }
      name();
    });
    dark.addEventListener("change", name);
    name();
  });
})();
