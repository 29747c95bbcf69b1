// Light, dark, or as the system has it; remembered where the browser allows.

const THEMES = ["auto", "light", "dark"];
const THEME_WORDS = { auto: "as the system", light: "light", dark: "dark" };

function startTheme() {
  const button = byId("theme");
  let theme = "auto";
  try {
    theme = localStorage.getItem("memwall-theme") || "auto";
  } catch {
    // A file without storage starts as the system has it.
  }
  const apply = (next) => {
    theme = THEMES.includes(next) ? next : "auto";
    document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${THEME_WORDS[theme]}`;
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    apply(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
    try {
      localStorage.setItem("memwall-theme", theme);
    } catch {
      // The choice holds for this visit.
    }
  });
  apply(theme);
}
